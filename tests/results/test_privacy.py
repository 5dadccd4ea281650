"""(ε, δ) beside a run: what is claimed, when nothing can be, and a claim that guesses refute."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from helpers.run_folders import edited

from leakbench import api
from leakbench.base import registry
from leakbench.base.errors import NotMeasured
from leakbench.base.reason import reason
from leakbench.gate.baseline import Baseline
from leakbench.gate.gate import check
from leakbench.gate.rows import broken_claims
from leakbench.judging.gaps import broken
from leakbench.judging.judging import find_questions
from leakbench.record.folders import load
from leakbench.record.policy import Policy
from leakbench.reporting.write import report
from leakbench.results.number import Configuration
from leakbench.results.privacy import privacy_of_run
from leakbench.results.tables import collect
from leakbench.scoring import audit
from leakbench.scoring.candidate_scores import asked_of_members
from leakbench.statistics.epsilon import gaussian_epsilon
from reports.html import render

SMALL = {"model": "mlp", "width": 8, "dim": 8, "evaluations": 10, "split": "iid"}
STEP = {"average": "plain", "batch": 8, "steps": 1, "epochs": 0, "optimizer": "sgd"}
NOISED = ("clip_noise", {"clip": 0.5, "noise": 4.0})


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Runs by what they are of, each trained once."""
    made = {}

    def run(wrappers, defense="fedavg", rounds=2, held_out=0, **params):
        key = repr((wrappers, defense, rounds, held_out, params))
        if key not in made:
            made[key] = api.train(
                defense,
                task="digits",
                task_params={**SMALL, "held_out": held_out},
                params={**STEP, **params},
                wrappers=wrappers,
                rounds=rounds,
                out=tmp_path_factory.mktemp("runs"),
                record=Policy(name="all", probes=0),
            )
        return made[key]

    return run


def said(run):
    spec = run.spec
    return privacy_of_run(
        run,
        Configuration(
            task="digits",
            defense=spec["defense"]["name"],
            params=spec["defense"]["params"],
            wrappers=spec["wrappers"],
        ),
    )


def test_every_message_of_the_client_that_sends_most_is_counted(trained):
    found = said(trained([NOISED], rounds=5, fraction=0.3))
    rows = trained([NOISED], rounds=5, fraction=0.3).arrays("transcript/rounds.safetensors")
    senders = rows["update"][:, 1].tolist()
    most = max(map(senders.count, senders))
    assert 1 < most < 5
    assert (found.messages, found.delta, found.adjacency) == (most, 1e-5, "replace")
    # The whole of what a client holds may be another's: two bounds, over the noise.
    assert found.epsilon == gaussian_epsilon(2 / 4.0 * math.sqrt(most), 1e-5)
    assert found.proven is None
    assert found.unproven == reason("not_guessed")
    assert not found.broken


def test_of_more_than_a_hundred_thousand_examples_delta_is_smaller(trained, monkeypatch):
    monkeypatch.setattr(audit, "held_examples", lambda run: 4_000_000)
    many = said(trained([NOISED]))
    assert many.delta == 1 / 4_000_000
    monkeypatch.setattr(audit, "held_examples", lambda run: None)  # an export
    assert said(trained([NOISED])).delta == 1e-5
    assert said(trained([NOISED])).epsilon < many.epsilon


@pytest.mark.parametrize(
    ("after", "why"),
    [
        (("secure_sum", {}), None),
        (("top_k", {"share": 0.5}), None),
        (("quantise", {}), None),
        (("without_bias", {}), None),
        (("soteria", {}), reason("reads_more", wrappers=("Soteria",))),
    ],
)
def test_what_follows_the_noise_adds_nothing_unless_it_may_read_data(trained, after, why):
    found, alone = said(trained([NOISED, after])), said(trained([NOISED]))
    assert found.why == why
    assert found.epsilon == (None if why else alone.epsilon)


def test_what_comes_before_the_noise_is_bounded_with_the_message(trained):
    before = said(trained([("soteria", {}), NOISED]))
    assert before.epsilon == said(trained([NOISED])).epsilon
    twice = said(trained([NOISED, ("clip_noise", {"clip": 9.0, "noise": 1.0})]))
    assert twice.epsilon == before.epsilon  # the noisier of the two


def test_no_epsilon_where_something_else_is_sent(trained):
    assert said(trained([NOISED], average="weighted")).why == reason(
        "not_covered", kinds=("count",)
    )
    proxies = said(trained([NOISED], defense="fedproto"))
    assert proxies.epsilon is None
    assert proxies.why.code == "not_covered"
    part = said(trained([("clip_noise", {**NOISED[1], "kinds": ["prototype"]})], "fedproto"))
    assert part.epsilon is None


def test_without_noise_it_is_infinite(trained):
    found = said(trained([("clip_noise", {"clip": 1.0, "noise": 0.0})]))
    assert (found.epsilon, found.why) == (None, reason("no_noise"))
    assert found.messages == 2


def test_a_run_of_which_nothing_is_claimed_has_none(trained):
    assert said(trained([])) is None
    assert said(trained([("top_k", {"share": 0.5})])) is None


def test_only_wrappers_that_say_so_claim_anything():
    own = {n: registry.load_plugin("wrappers", n) for n in registry.names("wrappers")}
    told = {n: type(w.build({}, n).mechanism()).__name__ for n, w in own.items()}
    assert {n for n, name in told.items() if name == "Gaussian"} == {"clip_noise"}
    assert {n for n, name in told.items() if name == "NoneType"} == {"active_server", "soteria"}


def test_senders_that_the_record_does_not_tell(trained, monkeypatch):
    run = trained([NOISED])
    lost = {k: v for k, v in run.meta["files"].items() if "rounds.safetensors" not in k}
    assert said(replace(run, meta={**run.meta, "files": lost})).why == reason("senders_unknown")


# an audit of a run --------------------------------------------------------------------------------
@pytest.fixture(scope="module")
def lied(trained):
    """A run whose wrapper declares noise and adds none; who was a member is guessed from truth."""
    api.plugin(Path(__file__).parents[2] / "benchmarks" / "planted_noise.py")
    lie = {"clip": 1.0, "noise": 30.0, "added": 0.0}
    run = trained([("planted_noise", lie)], held_out=20)
    api.attack(run, "membership", signal="span", updates=1)
    return load(run.path)


def test_pairs_are_of_one_client_and_as_many_as_its_members(lied):
    (folder,) = asked_of_members(lied)
    gap = audit.pair_gaps(lied, folder)
    member = lied.tree("truth/data.safetensors")[0]["member"] >= 0
    assert len(gap) == int(member.sum()) == len(member) / 2 == 200
    assert torch.equal(gap, audit.pair_gaps(lied, folder))


def test_a_claim_that_is_refuted_is_a_red_line_everywhere(lied, monkeypatch):
    (folder,) = asked_of_members(lied)
    right = torch.arange(1, 201, dtype=torch.float64)
    honest = collect([lied])
    assert [p.broken for p in honest.privacy] == [False]
    assert "claims too much" not in render(report(honest, "title"))
    monkeypatch.setattr(audit, "pair_gaps", lambda run, attack: right)  # all members found
    tables = collect([lied])
    (found,), (setting,) = tables.privacy, tables.settings
    assert found.attack == folder.path.name
    assert found.broken
    assert found.proven > 3 > 1 > found.epsilon
    page = render(report(tables, "title"))
    assert "(seed 0) claims too much." in page
    assert "Privacy is claimed that is not there." in page
    (row,) = tables.rows("privacy")
    assert (row["broken"], row["proven"]) == (True, found.proven)
    assert [why.code for why in broken(setting)] == ["claim_broken"]
    questions = find_questions(tables.settings, tables.missing)
    for judged in (j for q in questions for j in q.judged):
        assert found.breach in judged.evidence.gaps
    limits = broken_claims(tables.settings)
    assert [x.state for x in limits] == ["breached"]
    assert check([], Baseline(()), claims=limits).exit_code == 1
    said = api.check(tables, baseline=None)
    assert said.exit_code == 1
    assert any("proves, with 95 %" in line for line in said.lines)
    assert api.check(honest, baseline=None).exit_code == 3


def test_candidates_that_no_coin_drew_prove_nothing(lied):
    spec = lied.spec
    params = {k: v for k, v in spec["task"]["params"].items() if k != "held_out"}
    meta = {**lied.meta, "spec": {**spec, "task": {**spec["task"], "params": params}}}
    with pytest.raises(NotMeasured, match="not drawn by a coin"):
        audit.audited(replace(lied, meta=meta), 1e-5)


def test_an_older_run_says_nothing_of_privacy(trained):
    run = trained([])
    edited(run.path / "run.json", lambda meta: meta.pop("pooled", None))
    assert collect([load(run.path)]).privacy == ()
