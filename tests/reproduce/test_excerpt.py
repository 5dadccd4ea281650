"""An excerpt is a run: small, honest about what it lacks, and attacked with the same numbers as the
run it comes from.
"""

from __future__ import annotations

import re
import shutil
from functools import partial
from pathlib import Path

import pytest
import torch
from helpers.run_folders import edited
from helpers.small_runs import FEW_PROBES, copied, trained, tree_of

from leakbench import api
from leakbench.attacking import choices
from leakbench.base.errors import UsageError
from leakbench.base.files import file_digest, read_tree
from leakbench.cli import run as cli
from leakbench.record import excerpts
from leakbench.record.columns import MISSING
from leakbench.record.folders import Run, load, read_table
from leakbench.record.parts import RunPart, lost_parts
from leakbench.record.recording import Recording
from leakbench.reproduce.excerpt import excerpt, excerpt_attacks
from leakbench.scoring.truth import Truth

GONE = (
    "this run is an excerpt that kept only messages of kind model, prototype of rounds 21 to 40 and"
    " aux_data; the attack also reads messages of kind update, labels"
)
INFERRED = GONE.replace("labels", "sizes")  # told how many, not which
PAIRS = {"width": 16, "dim": 32}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A hundred clients, ten a round in turn, over 40 rounds: 20 messages of the last 20 rounds are
    two of each client.
    """
    return api.train(
        "fedgn",
        task="digit-pairs",
        task_params=PAIRS,
        params={"sigma": 0.3},
        rounds=40,
        out=tmp_path_factory.mktemp("whole"),
        device="cpu",
        record=FEW_PROBES,
    )


@pytest.fixture(scope="module")
def small(whole, tmp_path_factory):
    return excerpt(whole, tmp_path_factory.mktemp("small") / "excerpt", rounds=20)


def rows(run, name, **params):
    """{(metric, stage): the row without where and when it was made}, of stages at the end."""
    found = api.attack(run, name, device="cpu", **params).rows
    return {(r["metric"], r["stage"]): r for r in found if r["stage"] in ("final", "all")}


@pytest.mark.parametrize(
    ("name", "params"), [("prototype_leakage", {}), ("prototype_averaging", {"window": 2})]
)
def test_attacks_give_the_same_numbers_bit_for_bit(whole, small, name, params):
    expected, got = rows(whole, name, **params), rows(small, name, **params)
    assert expected
    assert got == expected
    for metric, _ in expected:
        folders = [next(f for f in r.attacks if f.name == name) for r in (whole, small)]
        lines = [
            [
                u
                for u in f.table("units.csv", ("unit",))
                if (u["metric"], u["round"]) == (metric, 40)
            ]
            for f in folders
        ]
        assert lines[0] == lines[1]


def test_public_candidates_need_the_model_and_the_auxiliary_data_which_fit_here(whole, small):
    params = {"candidates": "public"}
    assert rows(small, "prototype_leakage", **params) == rows(whole, "prototype_leakage", **params)


def test_a_longer_mean_sees_fewer_messages_and_the_excerpt_says_so(whole, small):
    assert rows(whole, "prototype_averaging", window=4) != rows(
        small, "prototype_averaging", window=4
    )
    assert [m for m in small.meta["missing"] if "2 messages of a client at most" in m["reason"]]


def test_the_whole_command_line_reads_it(small, tmp_path, capsys):
    where = shutil.copytree(small.path, tmp_path / "x")
    assert cli(["attack", str(where), "-q"]) == 0
    assert cli(["report", str(where), "-o", str(tmp_path / "report"), "-q"]) == 0
    lines = [
        r
        for r in read_table(tmp_path / "report" / "missing.csv", MISSING)
        if r["attack"] == "gradient_inversion"
    ]
    assert [r["reason"] for r in lines] == [GONE, INFERRED]  # once each, of three settings
    assert not list((where / "attacks").glob("gradient_inversion*"))


@pytest.mark.parametrize("attacker", ["naive", "joint"])
def test_an_attack_on_what_it_lacks_is_refused_at_once_and_by_name(
    small, tmp_path, capsys, attacker
):
    where = shutil.copytree(small.path, tmp_path / "x")
    words = ["-a", "gradient_inversion", "-s", f"gradient_inversion.attacker={attacker}", "-q"]
    assert cli(["attack", str(where), *words]) == 2
    said = capsys.readouterr().err
    assert said.endswith(f"gradient_inversion does not fit {small.id}: {GONE}.\n")
    assert said.count("\n") == 1
    assert not list((where / "attacks").glob("gradient_inversion*"))


def test_an_excerpt_misses_no_kind_that_nobody_sent_and_no_attack_that_its_run_has_not(
    small, whole
):
    # Of features, generators and so on not a word.
    assert choices.Fits().unfit(small)["gradient_inversion"].startswith(f"{GONE};")
    assert (
        choices.Fits().unfit(small)["distance_correlation"]
        == choices.Fits().unfit(whole)["distance_correlation"]
    )
    assert not any(m["attack"] == "distance_correlation" for m in small.meta["missing"])


def test_auxiliary_data_that_the_blind_guess_alone_reads_are_missed_too(small, tmp_path):
    assert lost_parts(small, ("prototype", "model"), ("aux_data", "facts")) == ""
    bad = copied(small, tmp_path)
    meta = {
        **bad.meta,
        "files": {n: h for n, h in bad.meta["files"].items() if not n.startswith("known/")},
    }
    assert lost_parts(Run(bad.path, meta), ("prototype",), ("facts", "aux_data")).endswith(
        "; the attack also reads aux_data"
    )


def test_what_it_says_of_itself(whole, small):
    about = small.meta["excerpt"]
    assert (about["of"], about["rounds"]) == (whole.id, [21, 40])
    assert about["run_json"] == file_digest(whole.path / "run.json")
    assert small.id == whole.id
    assert small.status == "done"
    assert small.meta["stages"] == {"final": 40}
    assert any("stage middle (round 20)" in text for text in about["left_out"])
    small.check()


def test_formats_names_every_key(small):
    text = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
    named = {
        key
        for line in text.splitlines()
        if line.startswith("| `")
        for key in re.findall(r"`(\w+)`", line.split("|")[1])
    }
    assert named >= set(small.meta)
    (said,) = re.findall(r"^\| `excerpt` \|.*", text, re.MULTILINE)
    assert all(f"`{key}`" in said for key in small.meta["excerpt"])


def test_every_file_is_listed_and_the_same_twice(whole, small, tmp_path):
    again = excerpt(whole, tmp_path / "again", rounds=20)
    assert tree_of(again.path) == {
        n: b for n, b in tree_of(small.path).items() if not n.startswith("attacks/")
    }
    names = set(tree_of(again.path)) - {"run.json"}
    assert names == set(again.meta["files"])
    assert not any(n.startswith("known/round") for n in names)


def test_it_holds_bank_prototypes_and_no_images(whole, small):
    truth = Truth(small)
    assert truth.surveyed() == [t for t in Truth(whole).surveyed() if 21 <= t <= 40]
    assert torch.equal(
        truth.round(40)["everyone"]["prototype"], Truth(whole).round(40)["everyone"]["prototype"]
    )
    assert "x" not in truth.data
    banks = [
        m for m in Recording(small).transcript if m.kind == "prototype" and m.sender == "server"
    ]
    assert [m.round for m in banks] == list(range(21, 41))  # all fit here
    assert {m.kind for m in Recording(small).transcript} == {"prototype", "model"}
    assert [m.round for m in Recording(small).transcript if m.kind == "model"] == [40]


def test_images_that_are_left_out_come_from_the_task(whole, small):
    some = torch.tensor([0, 7])
    assert torch.equal(Truth(small).images(some), Truth(whole).images(some))


@pytest.mark.parametrize("limit", [200_000, 140_000])
def test_it_stays_below_the_limit_and_names_what_did_not_fit(whole, tmp_path, monkeypatch, limit):
    monkeypatch.setattr(excerpts, "LIMIT", limit + excerpts.SPARE)
    made = excerpt(whole, tmp_path / "x", rounds=20)
    assert sum(map(len, tree_of(made.path).values())) <= limit + excerpts.SPARE
    assert any("too large" in text for text in made.meta["excerpt"]["left_out"])
    # Each client's newest is always there.
    assert rows(made, "prototype_leakage") == rows(whole, "prototype_leakage")
    assert cli(["attack", str(made.path), "-q"]) == 0
    unfit = {m["attack"] for m in made.meta["missing"]}
    assert "prototype_leakage(candidates=public)" in unfit
    assert not (made.path / "known" / "aux_data.safetensors").exists()
    assert not [m for m in Recording(made).transcript if m.kind == "model"]


def test_a_model_without_the_auxiliary_data_is_not_kept(whole, tmp_path, monkeypatch):
    same = RunPart.same

    def heavy(part, name):
        same(part, name)
        if name.startswith("known/"):
            part.put("too much", lambda: bytes(excerpts.LIMIT))

    monkeypatch.setattr(RunPart, "same", heavy)
    made = excerpt(whole, tmp_path / "x", rounds=3)
    assert "the last model with the auxiliary data: too large" in made.meta["excerpt"]["left_out"]
    assert {m.kind for m in Recording(made).transcript} == {"prototype"}
    assert (
        "kept only messages of kind prototype of rounds 38 to 40; "
        in choices.Fits().unfit(made)["gradient_inversion"]
    )


def test_where_not_even_one_round_fits_that_is_said_and_nothing_is_left(
    whole, tmp_path, monkeypatch
):
    monkeypatch.setattr(excerpts, "LIMIT", excerpts.SPARE + 1000)
    with pytest.raises(UsageError, match="not even one round"):
        excerpt(whole, tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_newest_evaluations_are_kept_where_all_are_too_large(whole, tmp_path, monkeypatch):
    big = sum(
        p.stat().st_size
        for p in excerpt(whole, tmp_path / "one", rounds=1).path.rglob("*")
        if p.is_file()
    )
    assert big < excerpts.LIMIT
    needed = [
        whole.path / "utility.safetensors",
        *(whole.path / "control").glob("*"),
        *(whole.path / "transcript").glob("*40.safe*"),
    ]
    assert all(p.exists() for p in needed)
    size = len((tmp_path / "one" / "utility.safetensors").read_bytes())
    fixed = 0
    for name, data in tree_of(tmp_path / "one").items():
        if name.startswith(("control/", "transcript/round", "truth/round", "diagnostics")):
            fixed += len(data)
    models = len((whole.path / "checkpoint" / "model.safetensors").read_bytes())
    monkeypatch.setattr(excerpts, "LIMIT", excerpts.SPARE + fixed - models + size // 2)
    made = excerpt(whole, tmp_path / "x", rounds=1)
    tree, _ = read_tree(made.path / "utility.safetensors")
    last = read_tree(whole.path / "utility.safetensors")[0]
    assert 1 <= len(tree) < len(last)
    assert max(tree) == "000040"
    assert torch.equal(tree["000040"], last["000040"])
    assert any("utility before round" in text for text in made.meta["excerpt"]["left_out"])


def test_random_clients_older_newest_messages_are_kept(tmp_path):
    run = api.train(
        "fedcs",
        task="digit-pairs",
        task_params=PAIRS,
        params={"cos_theta": 0.3, "select": "random"},
        rounds=30,
        out=tmp_path / "runs",
        device="cpu",
        record=FEW_PROBES,
    )
    made = excerpt(run, tmp_path / "x", rounds=3)
    assert made.meta["excerpt"]["rounds"] == [28, 30]
    assert min(m.round for m in Recording(made).transcript) < 28
    assert rows(made, "prototype_leakage") == rows(run, "prototype_leakage")
    missing = [list(f.meta["missing"]) for r in (run, made) for f in r.attacks]
    assert missing[0] == missing[1]  # how many clients never spoke, or too long ago


def test_curve_points_within_the_excerpt_are_those_of_the_run(tmp_path):
    run = trained(tmp_path / "runs", rounds=12, params={"sigma": 0.5})
    made = excerpt(run, tmp_path / "x", rounds=4)
    found = [
        {
            r["round"]: r
            for r in api.attack(x, "prototype_leakage", device="cpu").rows
            if r["metric"] == "p_leak" and r["round"] >= 9
        }
        for x in (run, made)
    ]
    assert len(found[1]) > 1
    assert found[0] == found[1]


def test_undefended_methods_have_no_control_and_need_none(tmp_path):
    run = trained(tmp_path / "runs", "fedaws", rounds=10)
    made = excerpt(run, tmp_path / "x", rounds=5)
    assert rows(made, "prototype_leakage") == rows(run, "prototype_leakage")


def test_refusals_are_sentences(whole, small, tmp_path):
    with pytest.raises(UsageError, match="is an excerpt of a run already"):
        excerpt(small, tmp_path / "x")
    with pytest.raises(UsageError, match="at least one round"):
        excerpt(whole, tmp_path / "x", rounds=0)
    with pytest.raises(UsageError, match="is there and is no excerpt"):
        excerpt(whole, whole.path)
    with pytest.raises(UsageError, match="share no prototypes"):
        excerpt(trained(tmp_path / "runs", "fedavg", rounds=2), tmp_path / "x")
    bad = copied(whole, tmp_path)
    edited(bad.path / "run.json", lambda meta: meta.update(status="running"))
    with pytest.raises(UsageError, match="not complete"):
        excerpt(load(bad.path), tmp_path / "x")


def test_of_an_excerpt_a_smaller_one_is_made_that_is_as_honest(small, tmp_path):
    """The way in which the excerpts in results/runs were made as small as they are."""

    def made(of, where):
        about = partial(excerpt_attacks, of)
        return excerpts.write_excerpt(of, where, 10, ("model",), about)

    made_once = made(small, tmp_path / "x")
    about, before = made_once.meta["excerpt"], small.meta["excerpt"]
    assert about["rounds"] == [31, 40]
    assert {k: about[k] for k in ("of", "run_json")} == {k: before[k] for k in ("of", "run_json")}
    stages = [text for text in before["left_out"] if text.startswith("stage ")]
    assert {*stages, "who holds which rows", "the final model"} <= set(about["left_out"])
    assert "what the server sent of prototypes in 10 of 10 rounds" in about["left_out"]
    assert any(text.startswith("utility before") for text in about["left_out"])
    assert sum("an excerpt:" in m["reason"] for m in made_once.meta["missing"]) == 1
    refused = {m["attack"]: m["reason"] for m in made_once.meta["missing"] if m["attack"]}
    assert refused.pop("gradient_inversion") in (
        GONE.replace("21", "31"),
        INFERRED.replace("21", "31"),
    )
    drawn = "prototype_picture(source=update)"
    assert refused.keys() == {"prototype_from_update", drawn}
    assert all(why.endswith("reads messages of kind update") for why in refused.values())
    sent = Recording(made_once).transcript
    assert [m.kind for m in sent if m.sender == "server"] == ["model"]
    assert len({m.sender for m in sent if m.kind == "prototype"}) == 100
    assert rows(made_once, "prototype_leakage") == rows(small, "prototype_leakage")
    params = {"candidates": "public"}
    assert rows(made_once, "prototype_leakage", **params) == rows(
        small, "prototype_leakage", **params
    )
    again = made(made_once, tmp_path / "y")
    assert tree_of(again.path) == {
        n: b for n, b in tree_of(made_once.path).items() if not n.startswith("attacks/")
    }


def test_a_damaged_run_is_not_copied(whole, tmp_path):
    bad = copied(whole, tmp_path)
    path = next((bad.path / "control").glob("*.safetensors"))
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    with pytest.raises(UsageError, match="changed or damaged"):
        excerpt(bad, tmp_path / "x")


def test_its_attacks_are_those_that_can_be_made_of_it(small):
    fit = {"prototype_leakage", "prototype_averaging", "prototype_centring", "prototype_picture"}
    assert {a.name for a in Recording(small).spec.attacks} == fit
    assert {name for name, _ in choices.Fits().fitting(small)} == fit


def test_an_excerpt_never_passes_for_the_run(whole, small, tmp_path):
    """A mean over 20 messages would see fewer of them, and leakage look smaller than it is."""
    from leakbench.reproduce.plan import complete

    spec = Recording(whole).spec.model_copy(update={"seed": whole.spec["seed"]})
    shutil.copytree(small.path, tmp_path / whole.path.name)
    assert complete(spec, whole.path.parent)
    assert not complete(spec, tmp_path)
    with pytest.raises(UsageError, match="is an excerpt of this run"):
        api.train(
            "fedgn",
            task="digit-pairs",
            task_params=PAIRS,
            params={"sigma": 0.3},
            rounds=40,
            out=tmp_path,
            device="cpu",
            record=FEW_PROBES,
        )
