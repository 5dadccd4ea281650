"""What a card says was learnt is what its tables say, no more."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from leakbench.reproduce import cards, catalogue, learnt
from leakbench.reproduce.row import Measurement, Row
from leakbench.reproduce.statements import FAILS, HOLDS

RESULTS = Path(__file__).resolve().parents[2] / "results"
COUNTED = re.compile(r"\*\*(Holds[^*]*|Does not hold|Nobody can tell yet)\*\* \((\d+) of (\d+)")


@pytest.fixture(scope="module")
def rows():
    return cards.committed_rows(RESULTS)


def of_paper(rows, paper):
    return [r for r in rows if cards.paper_of(r.recipe) == paper]


@pytest.mark.parametrize("paper", cards.TITLES)
def test_every_statement_is_counted_once(rows, paper):
    text = "\n".join(learnt.learnt(of_paper(rows, paper)))
    counts = {head: (int(n), int(every)) for head, n, every in COUNTED.findall(text)}
    assert counts.keys() >= {"Holds", "Does not hold", "Nobody can tell yet"}
    (every,) = {every for _, every in counts.values()}
    assert sum(n for n, _ in counts.values()) == every


def gained(scale, label, value, **more):
    """A row of FLea's Table 1: the best accuracy on UCI-HAR, over three seeds."""
    told = {"recipe": "flea-table1", "dataset": "uci-har, Qua(2)", "task": "uci-har"}
    told |= {"measure": "best", "metric": "accuracy", "method": "fedavg", "seeds": (0, 1, 2)}
    ours = Measurement(value=value, low=value - 0.01, high=value + 0.01, n=900, unit="test unit")
    return Row(**{**told, **more}, scale=scale, label=label, params={}, ours=ours)


def test_the_largest_scale_alone_speaks():
    smoke = [gained("smoke", "FedAvg", 0.5), gained("smoke", "FLea", 0.6)]
    small = [gained("small", "FedAvg", 0.6), gained("small", "FLea", 0.5)]
    assert verdict(smoke) == HOLDS
    assert verdict([*smoke, *small]) == verdict(small) == FAILS
    assert all("small" in j.place for j in learnt.statements([*smoke, *small]))


def test_a_larger_scale_that_lacks_a_row_leaves_the_word_to_a_smaller():
    small = [gained("small", "FedAvg", 0.5), gained("small", "FLea", 0.6)]
    full = [gained("full", "FLea", 0.5)]
    assert verdict([*small, *full]) == HOLDS


def test_what_stands_in_speaks_beside_the_papers_own_data():
    small = [gained("small", "FedAvg", 0.6), gained("small", "FLea", 0.5)]
    other = {"flags": {"stand_in_data"}, "task": "digits"}
    smoke = [gained("smoke", "FedAvg", 0.5, **other), gained("smoke", "FLea", 0.6, **other)]
    said = [
        j for j in learnt.statements([*smoke, *small]) if j.statement.text == "FLea beats FedAvg"
    ]
    assert sorted(j.statement.verdict for j in said) == sorted([HOLDS, FAILS])


def verdict(rows):
    (found,) = [j for j in learnt.statements(rows) if j.statement.text == "FLea beats FedAvg"]
    return found.statement.verdict


def test_a_decided_statement_has_its_numbers_its_stand_in_and_its_seeds():
    mark = {"flags": {"stand_in_data", "mixed_code", "stale_run"}}
    rows = [gained("small", "FedAvg", 0.5, **mark), gained("small", "FLea", 0.6, **mark)]
    (line,) = [x for x in learnt.learnt(rows) if x.startswith("* FLea beats FedAvg: ")]
    assert "FedAvg 0.500 [0.490, 0.510], FLea 0.600 [0.590, 0.610]" in line
    assert "beyond their intervals; mixed code; stale run (" in line
    where = "uci-har, Qua(2), in its place uci-har, [flea-table1, small]"
    assert where in line
    assert line.endswith("3 seeds)")


def test_what_is_open_says_what_it_takes():
    rows = [gained("small", "FedAvg", 0.5), gained("small", "FLea", 0.6, flags={"undertrained"})]
    (line,) = [x for x in learnt.learnt(rows) if x.startswith("* uci-har, Qua(2)")]
    assert "more rounds (1)" in line
    assert "runs that are there (" in line


def test_no_attack_is_said():
    assert learnt.learnt([])[0].startswith("**Leaks**: no attack has a number")


def named(label, attack, value, measure, **params):
    """A row of FedHide's Table 4: a share of a hundred clients, over three seeds."""
    told = {"recipe": "fedhide-table4", "scale": "smoke", "dataset": "cifar100", "task": "t"}
    told |= {"measure": measure, "metric": "p_leak", "seeds": (0, 1, 2), "method": "fedgn"}
    told |= {"attack": attack, "attack_params": params, "floor": 0.01, "control": 1.0}
    ours = Measurement(value=value, low=value - 0.01, high=value, n=300, unit="client")
    return Row(**told, label=label, ours=ours)


FALLING = [f"FedGN(0.{k})" for k in range(1, 6)]
PAPERS = [named(x, "prototype_leakage", 0.9 - 0.15 * i, "p_leak") for i, x in enumerate(FALLING)]


def rivals_of_the_papers():
    """Its measure by all other attackers whom the recipe asks of this method: they get as much."""
    measures = catalogue.find_recipe("fedhide-table4").measures
    asked = [m for m in measures if m.attack and m.asks("fedgn") and m.key != "p_leak"]
    for m in asked:
        if (m.metric, m.stage, m.probe) == ("p_leak", "", False):
            alike = {"attack": m.attack, "measure": m.key, "attack_params": dict(m.params)}
            yield from (r.model_copy(update=alike) for r in PAPERS)


def test_who_asked_no_attack_but_the_papers_has_no_protection():
    """All lines of the others taken out of a table, it says less than before."""
    text = "P_leak falls with σ"
    assert section_of(text, [*PAPERS, *rivals_of_the_papers()]) == "Holds"
    assert section_of(text, PAPERS) == "Holds by the paper's own attack, not by the strongest tried"
    (found,) = [j for j in learnt.statements(PAPERS) if j.statement.text == text]
    assert found.statement.strongest.needs.attacks == tuple(FALLING)


def test_what_holds_by_the_weak_attack_alone_is_no_protection():
    """The paper's measure falls with the noise; who averages names everybody."""
    text = "P_leak falls with σ"
    others = [r for r in rivals_of_the_papers() if r.measure != "p_leak_mean"]
    strong = [named(x, "prototype_averaging", 1.0, "p_leak_mean") for x in FALLING]
    both = [*PAPERS, *others, *strong]
    assert section_of(text, both) == "Holds by the paper's own attack, not by the strongest tried"
    (line,) = [x for x in learnt.learnt(both) if x.startswith(f"* {text}")]
    assert "FedGN(0.5) 0.300" in line
    assert "by the strongest" in line
    assert "FedGN(0.5) 1.000" in line
    (found,) = [j for j in learnt.statements(both) if j.statement.text == text]
    assert "By the strongest attack tried: does not hold here" in found.statement.sentence


def test_an_attack_that_one_of_them_was_spared_lets_nothing_hold():
    """Who averages names everybody, but was not asked where the noise is largest."""
    others = [r for r in rivals_of_the_papers() if r.measure != "p_leak_mean"]
    strong = [named(x, "prototype_averaging", 1.0, "p_leak_mean") for x in FALLING[:-1]]
    both = [*PAPERS, *others, *strong]
    text = "P_leak falls with σ"
    assert section_of(text, both) == "Holds by the paper's own attack, not by the strongest tried"
    (found,) = [j for j in learnt.statements(both) if j.statement.text == text]
    assert found.statement.strongest.needs.attacks == (FALLING[-1],)


@pytest.mark.parametrize("flag", ["control_failed", "no_control", "loss_did_not_fall"])
def test_who_was_attacked_too_weakly_has_no_protection(flag):
    """Rivals that find nothing where nothing is hidden, or no end, count as not tried."""
    weak = [named(x, "prototype_averaging", 0.02, "p_leak_mean") for x in FALLING]
    weak = [r.model_copy(update={"flags": frozenset({flag})}) for r in weak]
    others = [r for r in rivals_of_the_papers() if r.measure != "p_leak_mean"]
    found = section_of("P_leak falls with σ", [*PAPERS, *others, *weak])
    assert found == "Holds by the paper's own attack, not by the strongest tried"


def test_a_stronger_attack_at_another_stage_is_another_question():
    early = [named(x, "prototype_leakage", 1.0, "p_leak_early") for x in FALLING]
    both = [*PAPERS, *rivals_of_the_papers(), *early]
    assert section_of("P_leak falls with σ", both) == "Holds"


def section_of(text, rows):
    """Under which head of what was learnt a statement stands."""
    head = ""
    for line in learnt.learnt(rows):
        head = line[2:].partition("**")[0] if line.startswith("**") else head
        if line.startswith(f"* {text}"):
            return head
    return None
