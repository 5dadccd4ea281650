"""What differs by rounding is near, and nothing else is."""

import json

import numpy as np
import pytest
from helpers.gate_rows import changed, check, row, scores
from safetensors.numpy import save_file

from leakbench.base.errors import BrokenFile
from leakbench.gate.baseline import Baseline, load_baseline, save_baseline
from leakbench.gate.comparison import nearly, unchanged
from leakbench.gate.sketch import sketch

RNG = np.random.default_rng(7)
GUESSES = {f"{i}/prototype": RNG.standard_normal(64).astype(np.float32) for i in range(20)}


def written(path, tensors, **header):
    about = {"guesses": [{"unit": "client/0"}], "transcript": "a hash", **header}
    save_file(tensors, path, metadata={"leakbench": json.dumps(about)})
    return path


def noisy(relative, only=None):
    out = {}
    for name, x in GUESSES.items():
        moved = x * (1 + relative * RNG.standard_normal(x.shape))
        out[name] = (moved if only in (None, name) else x).astype(np.float32)
    return out


def near(tmp_path, tensors, **header):
    one = sketch([written(tmp_path / "guess.safetensors", GUESSES)])
    folder = tmp_path / "other"
    folder.mkdir(exist_ok=True)
    return one.near(sketch([written(folder / "guess.safetensors", tensors, **header)]))


def test_rounding_is_near_and_a_changed_guess_is_not(tmp_path):
    assert near(tmp_path, noisy(1e-6))
    assert near(tmp_path, GUESSES, transcript="of the other machine's bytes")
    assert not near(tmp_path, noisy(1e-2))
    # One guess of twenty, by a hundredth of its length; its sign; its length alone; two swapped.
    assert not near(tmp_path, noisy(1e-2, only="3/prototype"))
    assert not near(tmp_path, {**GUESSES, "3/prototype": -GUESSES["3/prototype"]})
    assert not near(tmp_path, {**GUESSES, "3/prototype": GUESSES["3/prototype"] * 1.01})
    swapped = {"3/prototype": GUESSES["4/prototype"], "4/prototype": GUESSES["3/prototype"]}
    assert not near(tmp_path, {**GUESSES, **swapped})


def test_a_sketch_is_of_directions_and_of_the_logarithms_of_norms(tmp_path):
    """(3, 4) of norm 5, with signs that only the name decides; twice it is the same direction."""
    one = sketch([written(tmp_path / "a.safetensors", {"x": np.array([3.0, 4.0])})])
    two = sketch([written(tmp_path / "a.safetensors", {"x": np.array([6.0, 8.0])})])
    assert (one.tensors, len(one.at)) == (1, 8)
    assert {round(abs(v), 8) for v in one.at[:4]} <= {1.4, 0.2}
    assert np.abs(one.at[4:]) == pytest.approx(np.log(5))
    assert two.at[:4] == one.at[:4]
    assert np.abs(two.at[4:]) == pytest.approx(np.log(10))
    assert one.exact == two.exact
    none = sketch([written(tmp_path / "a.safetensors", {"x": np.zeros(2)})])
    assert none.at[:4] == (0, 0, 0, 0)
    assert np.abs(none.at[4:]) == pytest.approx(-np.log(1e-6 * np.sqrt(2)))
    both = {"x": np.array([3.0, 4.0]), "y": np.array([0.0, 1.0])}
    more = sketch([written(tmp_path / "a.safetensors", both)])
    assert more.tensors == 2
    assert np.abs(np.subtract(more.at, one.at))[:4] == pytest.approx(np.ones(4))  # y is +-1
    assert more.at[4:] == one.at[4:]  # the logarithm of 1
    kept = sketch([written(tmp_path / "b.safetensors", {"x": np.array([3.0, 4.0])})])
    assert kept.exact != one.exact  # files are told apart by their names


def test_what_is_not_real_is_exact(tmp_path):
    assert not near(tmp_path, GUESSES, guesses=[{"unit": "client/1"}])
    assert not near(tmp_path, {**GUESSES, "more": GUESSES["0/prototype"]})
    whole = {**GUESSES, "labels": np.arange(3)}
    assert not near(tmp_path, whole)
    bad = {**GUESSES, "0/prototype": np.full(64, np.nan, np.float32)}
    assert not near(tmp_path, bad)


def test_a_damaged_file_is_one_sentence(tmp_path):
    path = tmp_path / "guess.safetensors"
    path.write_bytes(b"nothing")
    with pytest.raises(BrokenFile, match=r"guess\.safetensors cannot be read"):
        sketch([path])


def made(folder, tensors, **kept):
    """A row of two seeds that rests on guess files, and on truths that are the same."""
    folder.mkdir(exist_ok=True)
    files, guesses = {}, {}
    for seed in range(2):
        path = written(folder / f"{seed}.safetensors", tensors)
        sha = f"{folder.name} {seed}"
        files[sha], guesses[seed] = (path,), [sha]
    return row(0.2, files=files, guesses=guesses, **kept)


def test_rounding_is_unchanged_also_through_the_file(tmp_path):
    own = scores(0.2, range(2), 5)
    then = made(tmp_path / "then", GUESSES, scores=own)
    save_baseline(tmp_path / "leakage.json", Baseline.of([then]))
    read = load_baseline(tmp_path / "leakage.json")
    moved = {s: {u: x + 1e-9 for u, x in of.items()} for s, of in own.items()}
    now = made(tmp_path / "now", noisy(1e-7), scores=moved)
    got = check([now], read)
    assert (got.exit_code, got.rows[0].state) == (0, "fine")
    assert "unchanged up to rounding" in got.rows[0].reason


def test_equal_scores_of_other_guesses_and_other_scores_of_near_guesses_are_not(tmp_path):
    own = scores(0.2, range(2), 5)
    then = made(tmp_path / "then", GUESSES, scores=own)
    assert not nearly(made(tmp_path / "other", noisy(0.1), scores=own), then)
    flipped = {s: {u: 1 - x for u, x in of.items()} for s, of in own.items()}
    assert not nearly(made(tmp_path / "flip", noisy(1e-7), scores=flipped), then)
    same = made(tmp_path / "same", noisy(1e-7), scores=own)
    assert nearly(same, then)
    assert not unchanged(same, then)
    truths = changed(same, truths={s: ["another"] for s in range(2)})
    assert not nearly(truths, then)
    # Of a file that is not there any more nothing is known.
    unknown = same.model_copy(update={"files": {}})
    assert not nearly(unknown, then)
