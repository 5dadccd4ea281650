"""Re-identification: hand-worked distances, what training changed taken out, and a run in which the
truth decides.
"""

from dataclasses import dataclass, replace

import pytest
import torch
from helpers.small_runs import (
    FEATURES,
    FEW_PROBES,
    again,
    build,
    copied,
    plugged,
    results,
    trained,
    units,
    write_guesses,
)

from attacks.reidentification import Shared, _queries, unlikeness
from leakbench import api
from leakbench.attacking import choices, guessing
from leakbench.attacking.view import ThreatModel
from leakbench.base.errors import MethodError, UsageError
from leakbench.record.messages import Message
from leakbench.scoring import score
from leakbench.scoring.truth import Truth

LOCAL = {"steps": 4, "epochs": 0, "batch": 8, "lr": 0.1}


BOTH = ThreatModel(kinds=("features", "labels"))


@dataclass(frozen=True)
class Seen:
    """What a view shows an attack."""

    sent: tuple[Message, ...]
    round: int = 9
    threat: ThreatModel = BOTH

    def messages(self, kind):
        return [m for m in self.sent if m.kind == kind]


def message(t, client, x, kind="features"):
    return Message(t, 4, f"client/{client}", "server", kind, x)


def shared(x, y):
    return Shared(torch.tensor(x, dtype=torch.float64), torch.tensor(y))


def guesses(seen, **params):
    attack = build("reidentification", **params)
    return {g.unit: g for g in attack.run(replace(seen, threat=attack.threat), torch.Generator())}


def noise(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def federation(drift=None, examples=6):
    """Four clients that share six examples each in rounds 1, 2 and 5; ``drift`` makes the features
    of round 5 of those before.
    """
    sent = []
    for t in (1, 2, 5):
        for c in range(4):
            x = noise(c, examples, 3, 2)
            sent += [
                message(t, c, drift(x) if t == 5 and drift else x),
                message(t, c, torch.arange(examples) % 2, "labels"),
            ]
    return Seen(tuple(sent))


# by hand ------------------------------------------------------------------------------------------


def test_how_unlike_two_sets_are():
    east, north, west = [1.0, 0.0], [0.0, 1.0], [-1.0, 0.0]
    same = shared([east, north], [0, 1])
    # The order of the rows does not matter.
    assert unlikeness(same, shared([north, east], [1, 0])) == 0
    assert unlikeness(same, shared([west, north], [0, 1])) == pytest.approx((2 + 0) / 2)
    assert unlikeness(same, shared([north, north], [0, 1])) == pytest.approx((1 + 0) / 2)
    # A label that does not fit.
    assert unlikeness(same, shared([east, north], [0, 0])) == pytest.approx((0 + 2) / 2)
    # A row left over.
    assert unlikeness(same, shared([east, north, west], [0, 1, 1])) == pytest.approx(
        (0 + 0 + 2) / 3
    )
    # Not each row's nearest, but the cheapest assignment: both rows are nearest to east.
    assert unlikeness(shared([east, east], [0, 0]), shared([east, west], [0, 0])) == pytest.approx(
        (0 + 2) / 2
    )


def test_each_client_is_sought_in_its_newest_round_by_the_one_before():
    some = Shared(torch.zeros(1, 1), torch.zeros(1))
    rounds = {
        t: dict.fromkeys(clients, some)
        for t, clients in {1: (0, 1, 2), 4: (0, 1), 6: (1, 3), 8: (0, 4)}.items()
    }
    assert _queries(rounds) == {8: [(0, 4)], 6: [(1, 4)]}


def test_what_changed_alike_for_everybody_is_taken_out():
    scale, shift = (
        torch.tensor([[1.0, 20], [300, 1], [1, 0.01]]),
        torch.tensor([[5.0, 0], [1, -3], [9, 9]]),
    )
    for unit, g in guesses(federation(lambda x: x * scale + shift)).items():
        assert g.tensors["likeness"][int(unit[-1])] == pytest.approx(0, abs=1e-9)
        assert sorted(g.tensors["likeness"].tolist())[-2] < -0.2
        assert int(g.tensors["round"]) == 5


def test_names_are_not_looked_at():
    """Other names for the same clients: the same likenesses, in the new order."""
    seen, new = federation(lambda x: x + 0.3 * noise(9, *x.shape)), {0: 2, 1: 0, 2: 3, 3: 1}
    renamed = Seen(tuple(replace(m, sender=f"client/{new[int(m.sender[-1])]}") for m in seen.sent))
    before, after = guesses(seen), guesses(renamed)
    for old, name in new.items():
        a, b = (
            before[f"client/{old}"].tensors["likeness"],
            after[f"client/{name}"].tensors["likeness"],
        )
        assert torch.allclose(b[[new[c] for c in range(4)]], a)


def test_labels_tell_apart_what_features_do_not_and_may_be_ignored():
    x, sent = noise(0, 4, 3), []
    for t in (1, 2):
        for c in range(3):
            sent += [message(t, c, x), message(t, c, torch.tensor([c, c, c, 0]), "labels")]
    one = guesses(Seen(tuple(sent)))["client/1"].tensors["likeness"]
    assert one.argmax() == 1
    assert one[1] - one.sort().values[-2] > 0.5
    blind = guesses(Seen(tuple(sent)), labels=False)["client/1"].tensors["likeness"]
    assert torch.allclose(blind, torch.zeros(3, dtype=torch.float64), atol=1e-9)
    assert build("reidentification", labels=False).threat.kinds == ("features",)


def test_features_that_do_not_vary_or_are_missing_say_nothing():
    seen = federation(lambda x: torch.cat([x[..., :1], torch.full_like(x[..., :1], 7.7)], -1))
    found = guesses(seen)
    assert all(bool(g.tensors["likeness"].isfinite().all()) for g in found.values())
    assert [int(g.tensors["likeness"].argmax()) for _, g in sorted(found.items())] == [0, 1, 2, 3]


def test_features_that_are_not_finite_fail_their_round():
    seen = federation()
    spoilt = tuple(
        (
            replace(m, payload=m.payload / 0)
            if (m.round, m.sender, m.kind) == (5, "client/2", "features")
            else m
        )
        for m in seen.sent
    )
    found = guesses(Seen(spoilt))
    assert {g.failed for g in found.values()} == {"the features of round 5 are not finite"}


def test_nobody_to_see_again_is_an_error_not_a_number():
    lonely = Seen(
        tuple(message(t, c, noise(c, 3, 2)) for t, c in ((1, 0), (1, 1), (2, 2), (2, 3), (3, 0)))
    )
    with pytest.raises(
        UsageError,
        match="no client's features were kept in two rounds, so nobody can be seen again",
    ):
        guesses(lonely)


# on runs ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")

    def flea(seed=3, rounds=8, **more):
        task = {"model": "mlp", "width": 16, "clients": 20, "split": "iid", "evaluations": 10}
        return api.train(
            "flea",
            task_params=task,
            params={"fraction": 0.3, "share": 0.2, **LOCAL, **more},
            rounds=rounds,
            out=out,
            seed=seed,
            device="cpu",
            record=FEW_PROBES,
        )

    return {
        "fixed": flea(),
        "other": flea(seed=4),
        "fresh": flea(subset="fresh"),
        "short": flea(rounds=2),
        "one": flea(rounds=1),
    }


def test_the_same_examples_are_known_again_by_their_features_alone(runs):
    row = results(
        api.attack(runs["fixed"], "reidentification", labels=False).path, "reidentified", "all"
    )
    assert (row["rung"], row["interval"], row["unit"], row["observer"]) == (
        "method",
        "clopper-pearson",
        "client",
        "server",
    )
    assert row["floor"] == row["floor_low"] == row["floor_high"] == pytest.approx(1 / 6)
    assert row["control"] == 1
    assert row["low"] > 0.6
    assert "control_failed" not in row["flags"]


def test_other_examples_of_an_even_split_are_hardly_known_again(runs):
    """Clients of an even split do not differ, so a share far above the floor would be a leak of the
    attack itself.
    """
    row = results(api.attack(runs["fresh"], "reidentification").path, "reidentified", "all")
    assert row["low"] <= row["floor"] < 0.5
    assert row["value"] < 0.5
    assert "control_failed" in row["flags"]


def test_scored_with_another_runs_truth_it_falls_to_the_floor(runs, tmp_path):
    run, attack = copied(runs["fixed"], tmp_path), build("reidentification")
    folder = guessing.guess(again(run), "reidentification", attack)
    before = (folder / "guess.safetensors").read_bytes()
    score.score(again(run), "reidentification", attack)
    right = results(folder, "reidentified", "all")
    score.score(again(run), "reidentification", attack, truth=Truth(runs["other"]))
    wrong = results(folder, "reidentified", "all")
    assert (folder / "guess.safetensors").read_bytes() == before
    assert right["value"] > 0.9
    assert wrong["low"] <= wrong["floor"]
    assert wrong["value"] <= 0.35


def test_guesses_are_the_same_again_and_a_blind_guess_knows_nothing(runs, tmp_path):
    attack = build("reidentification")
    folders = [
        guessing.guess(again(copied(runs["fixed"], tmp_path / str(i))), "reidentification", attack)
        for i in range(2)
    ]
    assert (folders[0] / "guess.safetensors").read_bytes() == (
        folders[1] / "guess.safetensors"
    ).read_bytes()
    floor = [g.guess for g in guessing.saved(folders[0]) if g.role == "floor"]
    assert floor
    assert all(not g.tensors["likeness"].any() for g in floor)


def test_a_tie_counts_as_many_parts(runs, tmp_path):
    run, attack = copied(runs["fixed"], tmp_path), build("reidentification")
    folder = guessing.guess(again(run), "reidentification", attack)
    found = guessing.saved(folder)
    none = {"likeness": torch.zeros(6)}
    tied = [(g.role, g.stage, replace(g.guess, tensors=g.guess.tensors | none)) for g in found]
    write_guesses(again(run), "reidentification", attack, tied)
    score.score(again(run), "reidentification", attack)
    assert list(units(folder, "reidentified").values()) == pytest.approx([1 / 6] * len(found[::3]))


def test_clients_seen_once_are_counted_among_the_missing(runs):
    run = runs["short"]
    rows = again(run).traffic["features"]
    first, second = (
        set(rows[(rows[:, 0] == t) & (rows[:, 1] >= 0)][:, 1].tolist()) for t in (1, 2)
    )
    folder = api.attack(run, "reidentification").path
    assert set(units(folder, "reidentified")) == {f"client/{c}" for c in first & second}
    (missing,) = again(run).run.attacks[0].meta["missing"]
    assert missing["reason"].startswith(
        f"{len(first ^ second)} of {len(first | second)} clients: their features were sent"
    )


def test_where_nobody_comes_back_the_attack_does_not_fit(runs):
    assert ("reidentification", {}) in choices.Fits().fitting(runs["fixed"])
    assert (
        choices.Fits().unfit(runs["one"])["reidentification"]
        == "no client sends features in two rounds in which others do, too"
    )


def test_a_likeness_for_every_set_or_none(runs, tmp_path):
    run, attack = copied(runs["fixed"], tmp_path), build("reidentification")
    folder = guessing.guess(again(run), "reidentification", attack)
    found = guessing.saved(folder)
    cut = [
        replace(g, guess=replace(g.guess, tensors=g.guess.tensors | {"likeness": torch.zeros(5)}))
        for g in found
    ]
    write_guesses(again(run), "reidentification", attack, [(g.role, g.stage, g.guess) for g in cut])
    with pytest.raises(MethodError, match="expected a likeness for each of 6 sets"):
        score.score(again(run), "reidentification", attack)


def test_features_without_labels_will_do(tmp_path):
    with plugged("defenses", tmp_path, fedfeatures=FEATURES):
        run = trained(tmp_path, "fedfeatures", 3, params={"noise": 0.01})
        row = results(api.attack(run, "reidentification").path, "reidentified", "all")
    assert row["value"] == 1
    assert row["floor"] == pytest.approx(0.1)
