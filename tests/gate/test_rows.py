"""What a row of the gate says of the attacks behind it."""

from __future__ import annotations

from helpers.run_folders import add_attack, make_run, measure

from leakbench.gate.rows import gate_rows
from leakbench.record.attack_code import PARTS
from leakbench.record.folders import find
from leakbench.results.tables import collect


def code_of(place, *beside):
    """What is said of the code of an attack on a seed each; ``beside``: what else each names."""
    for seed, more in enumerate(beside):
        run = make_run(place, seed=seed)
        rows = [measure("p_leak", [1.0] * 8 + [0.0] * 2, 0.1, [1.0] * 10)]
        sources = {PARTS[0]: "1c", **more}
        add_attack(run, "unmix", rows, rung="method", sources=sources)
    rows = gate_rows(collect(find([place])).settings)
    (row,) = [r for r in rows if r.attacks]
    return row.units.code


def test_the_method_that_one_seed_alone_names_is_no_other_attack(tmp_path):
    """Guesses that somebody submitted were made without it."""
    plain = code_of(tmp_path / "a", {}, {})
    assert len(plain) == 1
    assert code_of(tmp_path / "b", {"method": "0a"}, {}) == plain
    assert code_of(tmp_path / "c", {"method": "0a"}, {"method": "0b"}) == plain
