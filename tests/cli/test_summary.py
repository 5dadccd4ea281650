"""The table that `attack`, `report` and `demo` print."""

from helpers.verdicts import number

from leakbench.cli.summary import _line


def test_the_best_real_attacker_is_never_below_one_that_ran():
    """Where no attack accepts a guess the cascade takes its first, which may be the weakest."""
    paper, joined = number(0.35, rung="paper", attack="near"), number(0.3, attack="cascade")
    alone = number(1.0, attack="unmix", width=0.0)
    line = _line([paper, joined, alone, number(1.0, attack="any_attack")], "t", "s")
    assert line["cascade"].startswith("1.00")
    assert line["paper"].startswith("0.35")
    line = _line([paper, joined, number(0.1, attack="unmix")], "t", "s")
    assert line["cascade"].startswith("0.30")
    assert _line([paper], "t", "s")["cascade"] == "none"
