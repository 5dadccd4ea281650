"""Looks: which seeds they use, that they keep the level, and which seeds are to be trained next."""

import pytest
from helpers.gate_rows import check, row, scores, update, utility

from leakbench.base.errors import BrokenFile
from leakbench.gate.baseline import Baseline, load_baseline, save_baseline
from leakbench.gate.looks import default_looks, next_seeds, sides

LOOKS = (5, 8, 12, 20)


def looked(now, then):
    return [(count, share) for share, _, count in sides(now, then, LOOKS)]


def of(seeds, p=0.2, **kept):
    return row(p, scores=scores(p, seeds), **kept)


def test_a_baselines_looks_go_by_its_seeds():
    assert default_looks(1) == ()
    assert default_looks(3) == (3,)
    assert default_looks(5) == (5,)
    assert default_looks(8) == (5, 8)
    assert default_looks(20) == LOOKS
    fresh, _ = update([of(range(20)), utility()], None)
    assert fresh.looks == LOOKS
    # They stay, and may be given.
    assert update([of(range(20)), utility()], fresh)[0].looks == LOOKS
    assert update([of(range(20))], None, looks=(3, 20))[0].looks == (3, 20)


def test_the_looks_that_seeds_have_reached():
    then = of(range(20))
    assert looked(of(range(5)), then) == [(5, 0.5)]
    assert looked(of(range(7)), then) == [(5, 0.5)]
    assert looked(of(range(12)), then) == [
        (5, 0.5),
        (8, pytest.approx(0.5 / 6)),
        (12, pytest.approx(1 / 6)),
    ]
    assert sum(share for _, share in looked(of(range(20)), then)) <= 1
    # Fewer than the first look's.
    assert looked(of(range(3)), then) == [(3, 0.5)]


def test_other_seeds_share_the_first_look():
    then = of(range(20))
    assert looked(of(range(30, 35)), then) == [(5, 0.25)]
    assert looked(of(range(30, 45)), then) == [(15, 0.25)]  # looked at once, as at first
    assert looked(of([30, 3]), of([3])) == [(2, 0.5)]  # one other seed is no other side
    both = of([*range(5), *range(30, 35)])
    assert looked(both, then) == [(5, 0.25)]
    assert set(sides(both, then, LOOKS)[0][1].units.scores) == set(range(5))


def test_without_looks_there_is_one_at_all_there_is():
    assert [(c, s) for s, _, c in sides(of(range(7)), of(range(7)), ())] == [(7, 1.0)]


def test_the_seeds_that_come_next():
    then = of(range(20))
    assert next_seeds(of(range(5)), then, LOOKS) == (5, 6, 7)
    assert next_seeds(of(range(8)), then, LOOKS) == (8, 9, 10, 11)
    assert next_seeds(of(range(20)), then, LOOKS) == ()
    assert next_seeds(of(range(30, 35)), then, LOOKS) == (0, 1, 2, 3, 4)
    assert next_seeds(of(range(30, 35)), of(range(5)), (5,)) == (0, 1, 2, 3, 4)
    assert next_seeds(of([0, 2]), None, ()) == (1,)


def test_an_undecided_row_names_the_next_seeds_and_a_settled_one_none():
    then = Baseline.of([of(range(20))], looks=LOOKS)
    middle = row(0.24, scores=scores(0.24, range(5), start=50))
    got = check([middle], then).rows[0]
    assert (got.state, got.more, got.look) == ("cannot tell", (5, 6, 7), 5)
    fine = check([of(range(5), 0.1)], then).rows[0]
    assert (fine.state, fine.more) == ("fine", ())


def test_a_look_that_finds_more_is_not_undone_by_another_and_undoes_a_fine_one():
    then = Baseline.of([of(range(20), 0.4)], looks=LOOKS)
    early = {**scores(0.1, range(5)), **scores(0.9, range(5, 20))}
    got = check([row(scores=early, value=0.7)], then).rows[0]
    assert got.state == "leaks more"
    assert got.look > 5
    late = {**scores(0.9, range(5)), **scores(0.1, range(5, 20))}
    got = check([row(scores=late, value=0.3)], then).rows[0]
    assert (got.state, got.look) == ("leaks more", 5)


def test_the_same_seeds_again_are_unchanged_whatever_else_is_there():
    then = of(range(5))
    fresh = of(range(30, 35), 0.24, guesses={s: [f"new {s}"] for s in range(30, 35)})
    before = check([fresh], Baseline.of([then], looks=(5,)))
    assert before.exit_code == 3
    assert before.rows[0].more == (0, 1, 2, 3, 4)
    both = {**then.units.scores, **fresh.units.scores}
    hashes = {**then.units.guesses, **fresh.units.guesses}
    truths = {s: ["truth"] for s in both}
    spent = row(scores=both, guesses=hashes, truths=truths)
    assert check([spent], Baseline.of([then], looks=(5,))).exit_code == 0


@pytest.mark.parametrize("looks", ["[5, 3]", "[5, 5]", "[1]", "[2.5]", '"5"', "[true, 2]"])
def test_looks_that_are_none_are_damage(tmp_path, looks):
    path = tmp_path / "leakage.json"
    save_baseline(path, Baseline.of([row()], looks=(5,)))
    path.write_text(path.read_text().replace('"looks": [5]', f'"looks": {looks}'))
    with pytest.raises(BrokenFile, match="looks"):
        load_baseline(path)
