"""What is true of a client, from files that a test makes up: every row worked by hand."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from leakbench.attacking.guess import Guess
from leakbench.attacking.metric import Metric
from leakbench.base.errors import BrokenFile, MethodError, NotMeasured
from leakbench.base.meaning import Meaning
from leakbench.federation.input_range import InputRange
from leakbench.federation.task_data import in_gallery
from leakbench.scoring import flags
from leakbench.scoring.cells import Cell, cells_of
from leakbench.scoring.image_distances import as_images, identification, match, mse
from leakbench.scoring.originals import Originals
from leakbench.scoring.truth import GALLERY, Answer
from leakbench.statistics.intervals import Estimate


class Known:
    """A truth of which a test states what it needs."""

    def __init__(self, y, own, rounds=None, **more):
        self.run = SimpleNamespace(meta={"distance": "euclidean"}, path="a/run")
        rows = torch.tensor([[*o] + [-1] * (len(y) - len(o)) for o in own])
        counts = torch.tensor([len(o) for o in own])
        self.data = {"y": torch.tensor(y), "rows": rows, "counts": counts}
        self.data |= {k: torch.tensor(v) for k, v in more.items()}
        self.rounds = rounds or {}
        self.memo = {}
        self.task = SimpleNamespace(augment=lambda x, rng: x, lies_in=InputRange.unbounded())

    def round(self, t):
        return self.rounds[t]

    def images(self, rows):
        """Example i holds the number 10 * i twice."""
        return (10.0 * rows.double())[:, None].expand(-1, 2)


def gallery(truth, row, client=0):
    found, at = Answer(truth, client, 1).gallery(row, truth.images(torch.tensor([row]))[0])
    assert at == 0
    return [int(v) // 10 for v in found[:, 0]]


def test_an_image_with_several_captions_stands_once_in_a_gallery():
    truth = Known([0] * 7, [[0, 1, 2, 3], [4, 5, 6]], shown=[0, 0, 1, 2, 2, 3, 3])
    found = gallery(truth, 0)
    assert found[0] == 0
    assert sorted(found[1:3]) == [2, 3]  # the client's own come first
    assert found[3:] == [5]
    assert sorted(gallery(truth, 4, client=1)) == [0, 2, 4, 5]


def test_a_gallery_is_of_clients_with_the_same_marker():
    truth = Known([0] * 6, [[0, 1], [2, 3], [4, 5]], context=[1, 0, 1])
    assert sorted(gallery(truth, 0)) == [0, 1, 4, 5]
    assert sorted(gallery(truth, 2, client=1)) == [2, 3]


def test_a_gallery_is_filled_up_to_a_hundred():
    n = 150
    truth = Known([0] * n, [list(range(99)), list(range(99, n))])
    found = gallery(truth, 5)
    assert len(found) == len({*found}) == GALLERY
    assert {*found} > {*range(99)}
    assert len(gallery(truth, 100, client=1)) == GALLERY
    few = Known([0] * 150, [list(range(150))])
    assert len({*gallery(few, 5)}) == GALLERY


def test_look_alikes_are_the_clients_own_then_the_class_then_any():
    y = [0, 0, 0, 1, 0, 1, 0]
    shown = [0, 0, 1, 2, 3, 4, 5]
    truth = Known(y, [[0, 1, 2, 3], [4, 5, 6]], shown=shown)
    rows = in_gallery(truth.data["shown"]).tolist()
    found = [rows[int(p)] for p in Answer(truth, 0, 1).look_alikes(0)]
    assert found[:2] == [0, 2]
    assert sorted(found[2:4]) == [4, 6]
    assert sorted(found[4:]) == [3, 5]
    assert len(found) == 6  # every image once
    # Of an image whose second caption is asked for the image itself is the first.
    again = [rows[int(p)] for p in Answer(truth, 0, 1).look_alikes(1)]
    assert (again[0], again[1]) == (0, 2)


def test_of_many_look_alikes_a_hundred_are_taken():
    n = 130
    truth = Known([0] * 120 + [1] * 10, [list(range(n))], shown=list(range(n)))
    places = Answer(truth, 0, 1).look_alikes(7)
    assert len(places) == len({*places.tolist()}) == GALLERY
    rows = in_gallery(truth.data["shown"])[places]
    assert int(rows[0]) == 7
    assert bool((rows < 120).all())


def step(x, y, rows, **more):
    entry = {"y": torch.tensor(y), "rows": torch.tensor(rows), **more}
    return entry if x is None else {**entry, "x": torch.tensor(x)}


@pytest.fixture
def truth():
    """In round 3 client 1 trains in phases 2 and 10, with a probe in the first."""
    probe = step(None, [7], [4])
    first = step([[1.0], [2.0], [1.0]], [5, 6, 5], [3, 4, 3], probe={"0": probe})
    second = step(None, [9], [5])
    phases = {"10": second, "2": first, "1": {"inputs": {"features": torch.tensor([[30.0, 30.0]])}}}
    older = {"1": {"inputs": {"features": torch.tensor([[50.0, 50.0], [40.0, 40.0]])}}}
    rounds = {1: {"client": {"1": older}}, 3: {"client": {"1": phases}}}
    return Known([0, 1, 2, 3, 4, 5], [[0, 1, 2], [3, 4, 5]], rounds)


def test_the_batch_of_a_phase_or_of_the_first_training(truth):
    answer = Answer(truth, 1, 3)
    x, y, rows = answer.batch()
    assert (x.flatten().tolist(), y.tolist(), rows.tolist()) == ([1, 2, 1], [5, 6, 5], [3, 4, 3])
    assert x.dtype == torch.float64
    x, y, rows = answer.batch(10)  # not kept: the task's own image
    assert (x.tolist(), y.tolist(), rows.tolist()) == ([[50, 50]], [9], [5])
    assert answer.labels(10).tolist() == [9]
    assert answer.labels().tolist() == [3, 4, 5]  # of all that it holds
    assert answer.examples.tolist() == [3, 4, 5]
    assert Answer(truth, 1, 3, probe=0).batch()[1].tolist() == [7]
    for wrong in (Answer(truth, 1, 3, probe=1), Answer(truth, 0, 3)):
        with pytest.raises(BrokenFile):
            wrong.batch()
    with pytest.raises(BrokenFile):
        answer.batch(1)


def test_examples_that_are_trained_on_twice_are_guessed_once(truth):
    answer = Answer(truth, 1, 3)
    labels, rows = answer.classes(Guess("client/1", 3, {"labels": torch.ones(2)}))
    assert (labels.tolist(), rows.tolist()) == ([5, 6], [3, 4])
    found = answer.originals(Guess("client/1", 3, {"x": torch.ones(3, 1)}))
    assert (found.rows.tolist(), found.ordered, found.spare) == ([3, 4], False, True)
    single = Guess("client/1", 3, {"x": torch.ones(1, 2), "phase": torch.tensor(10)})
    found = answer.originals(single)
    assert (found.rows.tolist(), found.spare) == ([5], False)


def test_the_newest_message_of_a_kind_and_its_rows(truth):
    now = Answer(truth, 1, 3)
    assert now.inputs("features").tolist() == [[30, 30]]
    assert now.rows("features").tolist() == [3]
    then = Answer(truth, 1, 2)
    assert then.inputs("features").tolist() == [[50, 50], [40, 40]]
    assert then.rows("features").tolist() == [5, 4]
    several = {"features.rows": torch.tensor([0, 1]), "features.among": torch.tensor([0, 1])}
    assert not then.originals(Guess("client/1", 2, several)).ordered
    chosen = then.originals(Guess("client/1", 2, {"features.rows": torch.tensor([1])}))
    assert (chosen.rows.tolist(), chosen.ordered) == ([4], True)
    among = then.originals(Guess("client/1", 2, {"features.among": torch.tensor([1])}))
    assert (among.rows.tolist(), among.ordered, among.spare) == ([5, 4], False, True)
    with pytest.raises(BrokenFile):
        now.inputs("labels")
    with pytest.raises(NotMeasured):  # of another client
        Answer(Known([0, 1], [[0], [1]], truth.rounds), 1, 3).rows("features")


@pytest.mark.parametrize(
    ("classes", "guesses", "rows"),
    [
        ([0], [[9.0]], [2]),  # of two of the class the nearest one
        ([0, 0, 1], [[9.0], [1.0], [5.0]], [0, 2, 1]),
        ([0, 0, 0], [[9.0], [1.0], [5.0]], [0, 2]),  # more than there are
        ([7, 1], [[9.0], [5.0]], [1]),  # the client has no 7
    ],
)
def test_rows_of_a_class_are_those_that_are_nearest(classes, guesses, rows):
    truth = Known([0, 1, 0], [[0, 1, 2]])
    truth.images = lambda at: torch.tensor([[1.0], [5.0], [9.0]])[at].double()
    sent = {"1": {"inputs": {"statistics": torch.tensor([[1.0], [5.0], [9.0]])}}}
    truth.rounds = {1: {"client": {"0": sent}}}
    guess = {"x": torch.tensor(guesses), "statistics.classes": torch.tensor(classes)}
    found = Answer(truth, 0, 1).originals(Guess("client/0", 1, guess))
    assert sorted(found.rows.tolist()) == sorted(rows)
    assert len(found.beside(guess["x"], clip=False)) == len(rows)


def test_an_input_that_two_examples_share_is_taken_in_order_and_no_more_often():
    truth = Known([0, 0, 0], [[0, 1, 2]])
    truth.images = lambda rows: torch.tensor([[1.0], [1.0], [2.0]])[rows].double()
    sent = {"1": {"inputs": {"features": torch.tensor([[1.0], [2.0], [1.0]])}}}
    truth.rounds = {1: {"client": {"0": sent}}}
    assert Answer(truth, 0, 1).rows("features").tolist() == [0, 2, 1]
    truth.memo.clear()
    sent["1"]["inputs"]["features"] = torch.tensor([[1.0], [1.0], [1.0]])
    with pytest.raises(NotMeasured):
        Answer(truth, 0, 1).rows("features")


def test_directions_have_length_1_and_are_made_once():
    everyone = {"everyone": {"prototype": torch.tensor([[3.0, 4.0], [0.0, 0.0]])}}
    truth = Known([0, 0], [[0], [1]], {2: everyone, 3: {"everyone": {}}})
    answer = Answer(truth, 0, 2)
    assert answer.directions().flatten().tolist() == pytest.approx([0.6, 0.8, 0.0, 0.0])
    assert answer.directions() is Answer(truth, 1, 2).directions()
    with pytest.raises(NotMeasured):
        Answer(truth, 0, 3).prototypes()
    assert answer.distance == "euclidean"
    assert answer.signal


def test_a_place_outside_the_gallery_is_refused():
    images = torch.rand(3, 4)
    for index in (-1, 3):
        with pytest.raises(ValueError, match="0 to 2"):
            identification(images[0], images, index)
    assert identification(images[2], images, 2) == 1.0


def test_batches_have_a_first_side_and_something_in_it():
    for shape in ((3,), (0, 4), (2, 0)):
        with pytest.raises(ValueError, match="expected two batches"):
            mse(torch.ones(shape), torch.ones(shape))
    assert mse(torch.zeros(2, 3), torch.ones(2, 3)).tolist() == [1, 1]
    for guess, true in (((2, 3), (2, 4)), ((1, 3), (2, 3)), ((0, 3), (0, 3)), ((2, 0), (2, 0))):
        with pytest.raises(ValueError, match="cannot be matched"):
            match(torch.ones(guess), torch.ones(true))
    assert as_images(torch.ones(2, 12), (3, 4)).shape == (2, 1, 3, 4)
    assert as_images(torch.ones(2, 12), (3, 2, 2)).shape == (2, 3, 2, 2)
    for shape in ((12,), (1, 3, 2, 2), (3, 5)):
        with pytest.raises(ValueError, match="were expected"):
            as_images(torch.ones(2, 12), shape)


def test_guesses_to_spare_are_left_over_and_too_few_refused():
    x = torch.tensor([[0.1], [0.9]], dtype=torch.float64)
    rows = torch.tensor([0, 1])
    some = Originals(x, rows, ordered=False, spare=True)
    assert some.beside(torch.tensor([0.8, 0.5, 0.2]), clip=True).flatten().tolist() == (
        pytest.approx([0.2, 0.8])
    )
    exact = Originals(x, rows, ordered=False)
    for wrong in (torch.ones(1), torch.ones(3)):
        with pytest.raises(ValueError, match="expected 2 guesses"):
            exact.beside(wrong, clip=True)
    with pytest.raises(ValueError, match="2 guesses or more"):
        some.beside(torch.ones(1), clip=True)
    kept = Originals(x, rows, ordered=True).beside(torch.tensor([0.8, 0.2]), clip=True)
    assert kept.flatten().tolist() == pytest.approx([0.8, 0.2])


# -- cells ---------------------------------------------------------------------------------------

METRIC = Metric(
    Meaning(name="m", direction="up", low=0.0, high=1.0, unit="client"),
    needs=("x",),
    score=lambda guess, answer: [],
)


def said(unit, *names, failed=""):
    return Guess(unit, 1, {n: torch.ones(1) for n in names}, failed=failed)


def cell(attack, floor):
    roles = {"attack": attack, "floor": floor, "control": floor}
    keyed = {role: {(g.unit, 1, None): g for g in of} for role, of in roles.items()}
    return Cell("final", 1, False, keyed)


def test_units_without_a_score_in_any_role_are_left_out_and_counted():
    failed = said("client/1", failed="no step")
    blind = [said("client/0", "x", "y"), said("client/1", failed="no step")]
    found = cell([said("client/0", "x"), failed], blind).scorable(METRIC)
    assert [k[0] for k in found.guesses["attack"]] == ["client/0"]
    assert [k[0] for k in found.guesses["control"]] == ["client/0"]
    assert found.left_out == (failed,)
    assert "1 of 2 " in found.remark
    # A blind guess that says more than the metric needs can stand in its place.
    whole = cell([said("client/0", "x"), failed], [blind[0], said("client/1", "x", "y")])
    assert whole.scorable(METRIC) is whole
    assert whole.remark == ""
    # None has a score: all stay, and the reason is said.
    none = cell([failed], [blind[1]])
    assert none.scorable(METRIC) is none


def test_what_a_cell_lacks_for_a_metric():
    fine = cell([said("client/0", "x")], [said("client/0", "x", "y")])
    assert fine.lacking(METRIC) is None
    other = cell([said("client/0", "y")], [said("client/0", "y")])
    assert other.lacking(METRIC) == ""  # not meant for them
    part = cell([said("client/0", "x"), said("client/1", "y")], [said("client/0", "x")])
    assert "client/1" in part.lacking(METRIC)
    gone = cell([said("client/0", failed="no step")], [said("client/0")])
    assert "no step" in gone.lacking(METRIC)
    empty = cell([said("client/0")], [said("client/0")])
    assert "client/0" in empty.lacking(METRIC)


def guessed(role, unit, value=1.0, probe=None, round_=1, stage="final", failed=""):
    guess = Guess(unit, round_, {"x": torch.tensor([value])}, probe=probe, failed=failed)
    return SimpleNamespace(role=role, stage=stage, guess=guess)


def test_cells_are_sorted_and_cover_the_units_of_every_role():
    roles = ("floor", "control")
    late = [guessed(r, "client/0", round_=2) for r in ("attack", *roles)]
    early = [guessed(r, f"client/{c}") for r in ("attack", *roles) for c in (0, 1)]
    more = [guessed(r, "client/2") for r in roles]  # about whom the attack is silent
    probes = [guessed(r, "client/0", probe=0) for r in ("attack", *roles)]
    found = cells_of([*late, *probes, *more, *early])
    assert [(c.round, c.probe, len(c.guesses["attack"])) for c in found] == [
        *((1, False, 3), (1, True, 1), (2, False, 1))
    ]
    assert [bool(g.failed) for g in found[0].guesses["attack"].values()] == [False, False, True]
    assert found[0].guesses["floor"].keys() == found[0].guesses["attack"].keys()
    assert cells_of(more) == []
    for role in roles:
        without = [g for g in early if g.role != role or g.guess.unit != "client/1"]
        with pytest.raises(MethodError, match=role):
            cells_of(without)
    with pytest.raises(MethodError, match="not finite"):
        cells_of([guessed("attack", "client/0", float("nan")), *early])
    lost = guessed("attack", "client/0", float("nan"), failed="no step")
    assert len(cells_of([lost, *[g for g in early if g.guess.unit == "client/0"][1:]])) == 1


# -- flags ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("units", "clusters", "few"),
    [(50, 10, False), (49, 10, True), (50, 9, True), (49, 9, True), (200, 200, False)],
)
def test_fewer_than_fifty_units_or_ten_clusters_are_few(units, clusters, few):
    owners = [f"client/{i % clusters}" for i in range(units)]
    assert flags.of_units(owners, [False] * units) == ({"few_units"} if few else set())
    assert "failed_units" in flags.of_units(owners, [False] * (units - 1) + [True])


def test_one_and_two_seeds_are_told():
    assert [flags.of_seeds(n) for n in (0, 1, 2, 3)] == [set(), {"one_seed"}, {"few_seeds"}, set()]


@pytest.mark.parametrize(
    ("direction", "floor", "control", "failed"),
    [
        ("up", (0.1, 0.2), (0.21, 0.4), False),
        ("up", (0.1, 0.2), (0.2, 0.4), True),
        ("up", (0.1, 0.2), (0.1, 0.9), True),
        ("down", (0.5, 0.6), (0.1, 0.49), False),
        ("down", (0.5, 0.6), (0.1, 0.5), True),
        ("down", (0.5, 0.6), (0.7, 0.9), True),
    ],
)
def test_a_control_has_to_be_beyond_the_floor(direction, floor, control, failed):
    one, two = (Estimate(sum(e) / 2, *e, 10, "client", "student") for e in (floor, control))
    assert flags.control_failed(direction, one, two) == failed


def test_flags_are_joined_in_their_order_each_once():
    assert flags.join(["zebra", "probe", "few_units", "", "probe", "ape"]).split("|")[-2:] == [
        *("ape", "zebra")
    ]
    assert sorted(flags.split_flags("few_units||probe|")) == ["few_units", "probe"]
    assert flags.split_flags("") == set()
