"""Labels from updates of many rounds, noised or summed: what is found, and what is not."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest
import torch
from helpers.small_runs import messages_in, trained
from torch import nn
from torch.nn.functional import cross_entropy

from attacks import _class_mixtures
from attacks._class_mixtures import Equation
from attacks._disaggregation import weights_of
from leakbench import api
from leakbench.attacking.guessing import saved
from leakbench.attacking.transcript import Transcript
from leakbench.record.folders import load

ONE_STEP = {"steps": 1, "optimizer": "sgd", "lr": 0.1, "fraction": 0.5}
DIR = {"split": "dir", "split_param": 0.3}
CLIENTS, CLASSES = 6, 4


def dice(seed=0):
    return torch.Generator().manual_seed(seed)


def shares(seed=0):
    held = torch.rand(CLIENTS, CLASSES, generator=dice(seed), dtype=torch.float64) ** 4
    return held / held.sum(1, keepdim=True)


def equations(cohorts, held, noise=0.0, seed=1):
    """What each cohort's mean update says, of classes whose own updates change by round."""
    out = []
    for t, cohort in enumerate(cohorts):
        alone = torch.randn(CLASSES, 50, generator=dice(100 * seed + t), dtype=torch.float64)
        sent = held[cohort].mean(0) @ alone
        sent += noise * torch.randn(50, generator=dice(7000 * seed + t), dtype=torch.float64)
        parts = dict.fromkeys(cohort, 1 / len(cohort))
        length = float(sent.square().sum())
        out.append(Equation(parts, alone @ alone.T, alone @ sent, length, len(sent)))
    return out


def found(known):
    made = _class_mixtures.pooled_of(known, range(CLIENTS))
    return torch.stack([made[i] for i in range(CLIENTS)])


def overlap(a, b):
    return float(torch.minimum(a, b).sum(1).mean())


def cohorts(rounds, seed=0, size=3):
    return [
        torch.randperm(CLIENTS, generator=dice(seed + t))[:size].tolist() for t in range(rounds)
    ]


def test_sums_over_changing_company_are_told_apart():
    held = shares()
    assert overlap(found(equations(cohorts(40), held)), held) > 0.97


def test_company_that_never_changes_tells_only_what_it_holds_together():
    held = shares()
    told = found(equations([[0, 1, 2], [3, 4, 5]] * 20, held))
    for group in ([0, 1, 2], [3, 4, 5]):
        mean = held[group].mean(0)
        assert torch.allclose(told[group], mean.expand(3, -1), atol=0.05)


def test_noise_that_is_drawn_anew_cancels():
    held = shares()
    few, many = (
        overlap(found(equations([[i] for i in range(CLIENTS)] * n, held, noise=2.0)), held)
        for n in (1, 60)
    )
    assert many > 0.9
    assert many > few + 0.1


def test_one_message_that_went_astray_does_not_drown_the_others():
    held = shares()
    known = equations([[i] for i in range(CLIENTS)] * 20, held)
    e, far = known[7], 1e30
    known[7] = replace(e, seen=far * e.seen, length=far**2 * e.length)
    assert overlap(found(known), held) > 0.97


def named(shares, held):
    """The mean share of the classes named or held that are both."""
    both, either = (shares > 0) & (held > 0), (shares > 0) | (held > 0)
    return float((both.sum(1) / either.sum(1)).mean())


def test_a_class_is_denied_only_by_who_knows():
    """One class of four is none. Noise that hides which has all named; less has the three."""
    hidden, clear = [], []
    for seed in range(10):
        held = torch.zeros(CLIENTS, CLASSES, dtype=torch.float64)
        held[:, :3] = 1 / 3
        held = torch.stack([row[torch.randperm(CLASSES, generator=dice(seed))] for row in held])
        alone = [[i] for i in range(CLIENTS)] * 20
        hidden.append(named(found(equations(alone, held, noise=40.0, seed=seed + 1)), held))
        clear.append(named(found(equations(alone, held, noise=0.02, seed=seed + 1)), held))
    assert sum(hidden) / 10 > 0.65  # who names all has 0.75, who guesses three has 0.60
    assert sum(clear) / 10 > 0.95


def test_the_standard_error_is_how_far_off_shares_are():
    held, off, said = shares(3) + 0.2, [], []
    for seed in range(10):
        known = equations(cohorts(60, seed=99 * seed), held, noise=0.3, seed=seed + 1)
        weights = weights_of([e.parts for e in known], range(CLIENTS))
        told, error = _class_mixtures.solved(weights, known)
        off.append((told - held).square().mean())
        said.append(error.square().mean())
    assert 0.5 < (sum(said) / sum(off)) ** 0.5 < 1.5


def test_a_message_that_is_not_explained_counts_less():
    """Twenty clean messages and twenty of other data: shares are those of the clean ones."""
    held = shares()
    clean = equations(cohorts(20), held)
    strange = equations(cohorts(20, seed=50), held, noise=5.0, seed=3)
    assert overlap(found(clean + strange), held) > 0.95


def test_of_noise_alone_nothing_is_found():
    """Ten nulls: less than who gives everybody the same shares."""
    made, blind = [], []
    for seed in range(10):
        held = shares(seed)
        who = cohorts(40, seed=99 * seed)
        blank = equations(who, torch.zeros_like(held), noise=1.0, seed=seed + 1)
        made.append(overlap(found(blank), held))
        blind.append(overlap(held.mean(0).expand(CLIENTS, -1), held))
    assert sum(made) < sum(blind)


def test_of_shuffled_company_nothing_is_found_but_the_mean():
    """Ten nulls."""
    made, blind = [], []
    for seed in range(10):
        held = shares(seed)
        known = equations(cohorts(40, seed=99 * seed), held, seed=seed + 1)
        shuffled = []
        for who, e in zip(cohorts(40, seed=31 * seed + 1000), known, strict=True):
            shuffled.append(replace(e, parts=dict.fromkeys(who, 1 / 3)))
        made.append(overlap(found(shuffled), held))
        blind.append(overlap(held.mean(0).expand(CLIENTS, -1), held))
    assert sum(made) < sum(blind) + 0.1


def test_the_descent_ends_where_the_exact_solution_is():
    from scipy.optimize import nnls

    a = torch.randn(12, 5, generator=dice(4), dtype=torch.float64)
    b = torch.randn(12, generator=dice(5), dtype=torch.float64)
    exact, _ = nnls(a.numpy(), b.numpy())
    made = _class_mixtures.nonnegative(lambda s: a.T @ (a @ s), a.T @ b, torch.ones(5).double())
    assert torch.allclose(made, torch.from_numpy(exact), atol=1e-6)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """{wrapper: an attacked run of FedAvg, a step of SGD a round, on digits of uneven classes}."""
    out = tmp_path_factory.mktemp("pooled")
    made = {}
    for name, wrappers, params in (
        ("sum", [("secure_sum", {})], ONE_STEP),
        ("noise", [("clip_noise", {"noise": 0.03})], ONE_STEP),
        ("adam", [("secure_sum", {})], {"epochs": 2, "optimizer": "adam", "fraction": 0.5}),
    ):
        task = {"model": "mlp", "width": 8, "dim": 8, "evaluations": 10, **DIR}
        made[name] = api.train(
            "fedavg",
            params=params,
            task_params=task,
            wrappers=wrappers,
            rounds=60,
            out=out,
            device="cpu",
        )
    return made


def row(folder, metric="label_overlap"):
    with (folder / "results.csv").open() as f:
        rows = [r for r in csv.DictReader(f) if r["metric"] == metric]
    return next(r for r in rows if r["stage"] == "final")


@pytest.mark.parametrize("name", ["sum", "noise", "adam"])
def test_what_covers_a_message_does_not_cover_all_of_them(runs, name):
    folder = api.attack(runs[name].path, "label_inference", source="pooled").path
    line = row(folder)
    assert float(line["value"]) > float(line["floor"]) + 0.3
    assert float(line["control"]) > float(line["floor"]) + 0.3


def test_a_single_noised_update_told_much_less(runs):
    pooled = row(api.attack(runs["noise"].path, "label_inference", source="pooled").path)
    alone = row(api.attack(runs["noise"].path, "label_inference", source="update").path)
    assert float(pooled["value"]) > float(alone["value"]) + 0.2


def test_every_client_of_a_sum_is_a_unit(runs):
    folder = api.attack(runs["sum"].path, "label_inference", source="pooled").path
    units = {g.guess.unit for g in saved(folder) if g.role == "attack" and g.stage == "final"}
    assert units == {f"client/{i}" for i in range(10)}


def test_the_record_keeps_what_adds_up(runs):
    sums = [m for m in messages_in(runs["sum"].path / "transcript") if m.kind == "sum"]
    assert {m.round for m in sums} == set(range(1, 61))
    models = [m for m in messages_in(runs["sum"].path / "transcript") if m.kind == "model"]
    assert {m.round for m in models if not m.part} >= set(range(1, 61))
    assert load(runs["sum"].path).meta["pooled"] == 60
    singles = [m for m in messages_in(runs["noise"].path / "transcript") if m.kind == "update"]
    assert {m.round for m in singles} >= set(range(1, 61))


def test_where_nothing_covers_updates_no_more_is_kept_than_was(tmp_path):
    run = trained(tmp_path, "fedavg", rounds=12)
    models = [m for m in messages_in(run.path / "transcript") if m.kind == "model" and not m.part]
    assert len({m.round for m in models}) < 12
    assert run.meta["pooled"] == 0


def test_messages_in_memory_are_read_too():
    """They say nothing of who received a model; each client that sent an update is a unit."""
    net = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    x, y = torch.rand(60, 1, 4, 4, generator=dice(6)), torch.arange(60) % 3
    seen = Transcript(net, cross_entropy, shape=(1, 4, 4), lr=0.1, batch=4, aux_data=(x, y))
    for c in range(3):
        mine = (y == c).nonzero().flatten()[:4]
        loss = cross_entropy(net(x[mine]), y[mine])
        update = [-0.1 * g for g in torch.autograd.grad(loss, [*net.parameters()])]
        seen.add("update", update, sender=f"client/{c}", labels=y[mine])
    made = seen.attack("label_inference", source="pooled")
    assert [g.unit for g in made] == ["client/0", "client/1", "client/2"]
    for c, g in enumerate(made):
        assert int(g.tensors["shares"].argmax()) == c
        assert float(g.tensors["shares"][c]) > 0.8
