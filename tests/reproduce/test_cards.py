"""docs/cards is what the committed tables say, and never kinder."""

from __future__ import annotations

import csv
import math
import re
import shutil
from pathlib import Path

import pytest

from leakbench.reproduce import cards, fitting, row
from leakbench.reproduce.row import Row
from leakbench.reproduce.strongest import rivals, rung, share, spelled, worst

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "results"


def cells(text: str, *begins: str) -> list[list[str]]:
    lines = [[c.strip() for c in x.strip("| ").split(" | ")] for x in text.splitlines()]
    return [line for line in lines if tuple(line[: len(begins)]) == begins]


def listed(text: str) -> dict[tuple[str, str, str], dict[str, str]]:
    """(method, task, measure) -> the cells of the index by the head of their column."""
    out, task, heads = {}, "", []
    for line in text.split("## By paper")[0].splitlines():
        if line.startswith("## "):
            task, heads = line[3:], []
        elif line.startswith("| "):
            found = [c.strip() for c in line.strip("| ").split(" | ")]
            if heads:
                named = dict(zip(heads, found, strict=True))
                key = (named["method"], task, named["measure"].strip("`"))
                assert key not in out
                out[key] = named | {"leaked": named["leaked"].strip("*")}
            else:
                heads = found
    return out


@pytest.fixture(scope="module")
def made():
    return cards.pages(RESULTS)


@pytest.fixture(scope="module")
def rows():
    return cards.committed_rows(RESULTS)


def test_committed_cards_are_those_of_the_tables(made):
    there = {p.name: p.read_text("utf-8") for p in (ROOT / "docs" / "cards").glob("*.md")}
    assert made == there


def test_every_line_of_a_table_has_the_cells_of_its_head(made):
    """A bar in a column's name, as in `|D| = 50`, splits no cell."""
    split = 0
    for name, text in made.items():
        for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
            head, *lines = [len(re.split(r"(?<!\\)\|", x)) for x in table.splitlines()]
            assert set(lines) == {head}, name
            split += table.count("\\|")
    assert split


def test_a_card_by_hand(made):
    """Claimed, measured the same way, strongest: read with nothing but csv."""
    path = RESULTS / "findings-fedhide" / "smoke.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["label"] == "FedGN(0.5)" and r["value"]]
    named = [r for r in rows if r["metric"] == "p_leak"]
    (claimed,) = {r["claimed"] for r in named if r["claimed"]}
    (same,) = [r for r in named if r["claimed"]]
    best = max(named, key=lambda r: float(r["value"]))
    (line,) = [
        x
        for x in cells(made["fedhide.md"], "FedGN(0.5)", "digit-pairs for cifar100", "`p_leak`")
        if "findings-fedhide" in x[-1]
    ]
    assert float(line[3]) == pytest.approx(float(claimed), abs=5e-4)
    assert float(line[4].split()[0]) == pytest.approx(float(same["value"]), abs=5e-4)
    assert float(line[5].strip("*").split()[0]) == pytest.approx(float(best["value"]), abs=5e-4)
    assert float(best["value"]) > float(same["value"])


def test_no_number_of_the_papers_kind_beats_the_papers_column(made):
    """Read with nothing but csv: gradient inversion as in FedHide, before and after training."""
    with (RESULTS / "fedhide-table2" / "smoke.csv").open(encoding="utf-8", newline="") as file:
        told = [r for r in csv.DictReader(file) if r["measure"].startswith("naive_psnr")]
    labels = {r["label"] for r in told}
    assert len(labels) == 13
    for label in labels:
        best = max(float(r["value"]) for r in told if r["label"] == label)
        (line,) = [
            x
            for x in cells(made["fedhide.md"], label, "digit-pairs for cifar100", "`psnr`")
            if "table2" in x[-1]
        ]
        assert float(line[4].split()[0]) == pytest.approx(best, rel=5e-3), label


def test_nothing_beats_the_column_of_the_strongest(rows):
    seen = 0
    for q in rivals(rows):
        sign = {"up": 1, "down": -1}[
            next(m.meaning.direction for m in attack_metrics(q.best) if m.name == q.best.metric)
        ]
        assert all(sign * r.ours.value <= sign * q.best.ours.value for r in q.rows)
        seen += 1
    assert seen > 200


def attack_metrics(r: Row):
    from leakbench.base import registry

    return registry.load_plugin("attacks", r.attack).metrics


def test_only_the_papers_measure_is_not_called_the_strongest(made, rows):
    """The smallest number of fedmetric-figure3 is that of an attack as weak as the paper's own."""
    (line,) = cells(made["fedmetric.md"], "proxy, s = 3", "cifar10", "`p_leak`")
    assert line[5:7] == ["not run", "-"]
    assert "`prototype_spheres`" in line[10]
    bare = {q.rows[0].recipe for q in rivals(rows) if q.only_paper}
    assert {"fedmetric-figure3", "fedhide-figure3"} <= bare


def test_every_attacked_method_is_listed(made, rows):
    where = {(q.best.label, q.best.task, q.best.metric) for q in rivals(rows)}
    attacked = {q.best.method for q in rivals(rows)}
    assert {"flea", "fedmix", "feddata", "fedaa"} <= attacked
    found = listed(made["index.md"])
    named = {(k[0].removesuffix(" (dead run)"), *k[1:]) for k in found}
    assert named <= where
    assert attacked == {
        q.best.method for q in rivals(rows) if q.best.label in {k[0] for k in named}
    }
    for q in rivals(rows):
        if q.best.recipe not in cards.SWEEPS:
            assert (q.best.label, q.best.task, q.best.metric) in named
    assert all(f"`{name}`" in made["index.md"] for name in cards.SWEEPS)
    assert found["FedMix", "uci-har", "exposure"]["leaked"] == "1.00"


def test_a_share_short_of_all_is_a_lower_bound(made):
    words = {"dead run", "more than a blind guess", "too weak or too few to judge"}
    few = re.compile(
        r"(more than a blind guess|too weak or too few to judge) \(\S+, undefended \S+\)"
    )
    found = listed(made["index.md"])
    assert len(found) > 100
    for key, cell in found.items():
        text = cell["leaked"]
        told = text in words or few.fullmatch(text) or text.startswith("at least 0.")
        assert told or float(text) >= 1, key


def test_what_few_units_say_is_told_with_what_nothing_defended_gives(made):
    """FLea's context attacker finds nearly everything, of a dozen people."""
    found = listed(made["index.md"])
    cells = [c["leaked"] for (name, task, _), c in found.items() if name.startswith("FLea")]
    assert any(re.fullmatch(r"more than a blind guess \(0\.9\d*, undefended 1\)", c) for c in cells)
    every = [c["leaked"] for c in found.values()]
    assert any(c.startswith("too weak or too few to judge") for c in every)


def test_who_was_asked_as_in_the_paper_alone_is_said_in_the_list_too(made, rows):
    found = listed(made["index.md"])
    assert found["FedAA", "digits", "recognised"]["the strongest tried"].startswith(
        "the paper's own"
    )
    for q in worst([q for q in rivals(rows) if q.best.recipe not in cards.SWEEPS]):
        key = (q.best.label + " (dead run)" * q.dead, q.best.task, q.best.metric)
        said = found[key]["the strongest tried"].startswith("the paper's own alone")
        assert said == q.only_paper, key


def on_its_scale(metric, value):
    """Samples are compared by their logarithms; of 30 dB an image is as good as the original."""
    if metric == "samples_to_90":
        return math.log(value)
    return min(value, 30.0) if metric.endswith("psnr") else value


def test_the_worst_of_all_tables_stands_in_the_list(made, rows):
    """No share of any live row, by hand, is above what the list says of its case."""
    found = listed(made["index.md"])
    seen = 0
    for q in rivals(rows):
        key = (q.best.label, q.best.task, q.best.metric)
        if q.dead or key not in found:
            continue
        told = found[key]["leaked"].removeprefix("at least ")
        for r in q.rows:
            if "control_failed" in r.flags or None in (r.floor, r.control) or r.floor == r.control:
                continue
            got, blind, best = (
                on_its_scale(r.metric, v) for v in (r.ours.value, r.floor, r.control)
            )
            by_hand = (got - blind) / (best - blind)
            assert by_hand <= float(told) + 0.005, (key, r.recipe)
            seen += 1
    assert seen > 300


def most(rows):
    """(label, task, metric) -> the most that any table of a live run with power has, by hand."""
    found = {}
    for q in rivals(rows):
        if q.dead or "control_failed" in q.best.flags or q.best.floor == q.best.control:
            continue
        key, sign = (q.best.label, q.best.task, q.best.metric), -1 if q._sign < 0 else 1
        found[key] = sign * max(sign * q.best.ours.value, sign * found.get(key, sign * -1e9))
    return found


def first_number(cell):
    told = re.search(r"-?[\d,.]+(e-?\d+)?", cell.replace("at least", ""))
    return float(told.group().replace(",", "")) if told else None


def test_no_card_is_kinder_about_a_case_than_another_table(made, rows):
    """FedHide(0.01, 10) on CIFAR-100: 0.13 in one table, every client in another."""
    worst_of = most(rows)
    directions = {q.best.metric: q._sign for q in rivals(rows)}
    seen = 0
    for name in cards.TITLES:
        for line in cells(made[f"{name}.md"]):
            if len(line) != 14 or not line[2].startswith("`"):
                continue
            key = (line[0].removesuffix(" (dead run)"), line[1].split(" for ")[0], line[2][1:-1])
            key = (key[0], key[1].split(", ")[0], key[2])
            numbers = [first_number(line[i]) for i in (4, 5, 7) if line[i] not in ("-", "not run")]
            sign = directions[key[2]]
            if key in worst_of:
                told = max(sign * n for n in numbers)
                assert told >= sign * worst_of[key] - 0.006 * abs(worst_of[key]), (name, line)
                seen += 1
    assert seen > 200
    (line,) = [
        x
        for x in cells(made["fedhide.md"], "FedHide(0.01, 10)", "cifar100", "`p_leak`")
        if "fedhide-table4, small" in x[-1]
    ]
    assert line[5].startswith("**0.1")
    assert line[7].startswith("**1 [0.964, 1]** `prototype_unmixing`, cifar100, [fedhide-20000")


def test_no_finding_is_kinder_about_a_case_than_another_table(rows):
    """Nor is README of the demo's runs."""
    worst_of, seen = most(rows), 0
    text = (ROOT / "docs" / "findings.md").read_text("utf-8").split("## Records")[0]
    for line in cells(text):
        if len(line) != 7 or not line[1].startswith("`"):
            continue
        label = re.sub(r" \((dead run|undertrained)\)", "", line[0])
        found = worst_of.get((label, line[1].split(", ")[-1], "p_leak"))
        if found is not None:
            told = [first_number(line[i]) for i in (3, 4, 6)]
            assert max(n for n in told if n is not None) >= found - 0.006, line
            seen += 1
    assert seen > 30
    titles = {"fedaws": "FedAwS", "fedgn": "FedGN", "fedcs": "FedCS", "fedhide": "FedHide"}
    demo = (ROOT / "README.md").read_text("utf-8").split("## What the demo shows")[1]
    for line in cells(demo.split("Blind guess")[0]):
        name = re.match(r"`(\w+)`, (.*)", line[0])
        if name:
            values = ", ".join(re.findall(r"[\d.]+", name[2]))
            label = titles[name[1]] + (f"({values})" if values else "")
            told = max(first_number(c) for c in line[2:] if c)
            assert told >= worst_of.get((label, "digit-pairs", "p_leak"), 1.0) - 0.006, line


def test_an_attack_without_power_acquits_nobody(made):
    """0.02 and 0.1 of a control that gets no more: no share, and no 1.00 either."""
    found = listed(made["index.md"])
    for name in ("FedMetric pos", "FedMetric pos+neg(true)"):
        cell = found[name, "digits", "recovered"]
        assert cell["leaked"].startswith("too weak or too few to judge (0.")
        assert "control failed" in cell["to know"]


def test_a_working_control_elsewhere_is_not_hidden_by_a_failed_one(made):
    """The best dB of these is at a stage where the control failed; at another it did not."""
    cell = listed(made["index.md"])["FedCS(0.5)", "digit-pairs", "psnr"]
    assert float(cell["leaked"]) >= 1
    assert "control failed" not in cell["to know"]


def test_flags_of_a_number_stand_beside_it(made, rows):
    found = listed(made["index.md"])
    cell = found["FedGN(0.1)", "digit-pairs", "psnr"]["to know"].split(", ")
    assert {"one seed", "few units", "probe", "oracle labels", "stand in data"} <= {*cell}
    for paper in cards.TITLES:
        mine = [r for r in rows if cards.paper_of(r.recipe) == paper]
        for q in rivals(mine):
            first = q.best
            (line,) = [
                x
                for x in cells(made[f"{paper}.md"], *names(q), place(first), f"`{first.metric}`")
                if f"[{first.recipe}, {first.scale}]" in x[-1] and x[8:10] == sides(first)
            ]
            told = {*line[12].split(", ")} - {"-"}
            assert {f.replace("_", " ") for f in first.flags - {"dead_run"}} <= told


def test_how_long_it_was_trained_stands_in_every_line(made, rows):
    """Read by the heads of the columns, with the rounds of the row's own table."""
    rounds: dict[tuple[str, str], set[str]] = {}
    for r in rows:
        told = "-" if r.rounds is None else f"{r.rounds:,}"
        rounds.setdefault((r.recipe, r.scale), set()).add(told)
    seen = 0
    for text in made.values():
        heads: list[str] = []
        for line in (x for x in text.splitlines() if x.startswith("|")):
            found = [c.strip() for c in line.strip("| ").split(" | ")]
            if found[0] == "method":
                heads = found
            elif not line.startswith("|---"):
                named = dict(zip(heads, found, strict=True))
                table = re.match(r"\[(\S+), (\w+)\]", named["table"]).groups()
                assert named["rounds"] in rounds[table]
                seen += named["rounds"] != "-"
    assert seen > 300


def test_a_row_of_before_a_flag_has_it_on_the_cards(made):
    """60 of 50,000 rounds, of whose curve the table says nothing."""
    path = RESULTS / "fedhide-figure4" / "smoke.csv"
    assert not any(r.rise for r in row.read_rows(path))
    (cell,) = [v for k, v in listed(made["index.md"]).items() if k == BARELY]
    assert {"undertrained", "curve unknown"} <= {*cell["to know"].split(", ")}
    assert cell["rounds"] == "60"


BARELY = ("FedGN(0.1)", "spoken-speakers", "p_leak")


def place(r: Row) -> str:
    other = not r.dataset.startswith(r.task)
    return f"{r.task} for {r.dataset}" if other else r.dataset


def names(q) -> list[str]:
    return [q.best.label + (" (dead run)" if q.dead else "")]


def sides(r: Row) -> list[str]:
    return ["-" if x is None else short(x) for x in (r.floor, r.control)]


def short(x: float) -> str:
    return f"{x:,.0f}" if x >= 1000 else f"{x:.3g}"


def test_what_a_dead_run_leaks_is_not_told(made):
    """Whichever row of the setting noted that the model learnt nothing."""
    rows = row.read_rows(RESULTS / "findings-fedhide" / "smoke.csv")
    key = ("FedGN(0.5)", "digit-pairs", "p_leak")
    assert float(listed(cards.index(rows, {}))[key]["leaked"]) >= 1
    (found,) = [r for r in rows if r.label == key[0] and r.measure == "utility"]
    ill = found.model_copy(update={"flags": found.flags | {"dead_run"}})
    told = listed(cards.index([ill if r is found else r for r in rows], {}))
    assert told[f"{key[0]} (dead run)", *key[1:]]["leaked"] == "dead run"
    assert "(dead run)" in made["fedhide.md"]


def test_a_live_table_comes_before_a_dead_one_and_a_stronger_before_a_longer():
    rows = row.read_rows(RESULTS / "findings-fedhide" / "smoke.csv")
    key = ("FedHide(0.1, 5)", "digit-pairs", "p_leak")
    mine = [r for r in rows if r.label == key[0] and (r.attack or r.measure == "utility")]

    def other(r: Row, **changes) -> Row:
        return r.model_copy(update={"recipe": "made-up", **changes})

    strong = [r for r in mine if r.attack == "prototype_unmixing" and r.metric == "p_leak"]
    weak = [
        r for r in mine if not r.attack or r.metric != key[2] or not r.ours or r.ours.value < 0.99
    ]
    short = [other(r) for r in strong]
    found = listed(cards.index([*weak, *short], {}))[key]
    assert float(found["leaked"]) >= 1
    assert "made-up" in found["table"]
    dead = [other(r, flags=r.flags | {"dead_run"}) for r in mine]
    for both in ([*dead, *weak], [*weak, *dead]):
        cell = listed(cards.index(both, {}))[key]
        assert "made-up" not in cell["table"]


def question(*changes: dict[str, object]) -> list[Row]:
    """Rows of one question, whose metric leaks upwards from a floor of 0."""
    known = row.read_rows(RESULTS / "findings-fedhide" / "smoke.csv")
    first = next(r for r in known if r.metric == "p_leak" and r.ours)
    return [first.model_copy(update={"flags": frozenset(), "floor": 0.0, **x}) for x in changes]


def at(value: float, low: float, high: float, **changes):
    """What ``question`` changes in a row."""
    known = row.read_rows(RESULTS / "findings-fedhide" / "smoke.csv")
    ours = next(r.ours for r in known if r.ours and r.attack)
    return {"ours": ours.model_copy(update={"value": value, "low": low, "high": high}), **changes}


WEAK = {"control": 0.0, "flags": frozenset({"control_failed"})}
NOTHING = at(0.0, 0.0, 0.1, control=1.0)  # a share of 0.00
LEAKS = at(0.4, 0.3, 0.5, **WEAK)  # leaves the blind guess behind, and has no share
BLIND = at(0.0, 0.0, 0.1, **WEAK)


def test_a_failed_controls_leak_is_not_hidden_behind_a_zero():
    """Within a question: an attack of no share that leaks, beside one that gets nothing."""
    (q,) = rivals(question(NOTHING, LEAKS))
    assert q.verdict() == "more than a blind guess"
    (q,) = rivals(question(NOTHING, BLIND))
    assert q.verdict() == "at least 0.00"
    (q,) = rivals(question(BLIND))
    assert q.verdict() == "too weak or too few to judge"


@pytest.mark.parametrize("kinder", [NOTHING, BLIND, at(0.004, 0.0, 0.1, control=1.0)])
def test_a_failed_controls_leak_in_another_table_is_not_hidden(kinder):
    """Between tables, in either order, it comes before one that found nothing."""
    mild = question({**kinder, "recipe": "mild"})
    loud = question({**LEAKS, "recipe": "loud"})
    for both in ([*mild, *loud], [*loud, *mild]):
        (q,) = worst([*rivals(both)])
        assert q.best.recipe == "loud"
        assert q.verdict() == "more than a blind guess"


@pytest.mark.parametrize(("few", "many"), [(0.3, 0.29), (0.7, 0.69)])
def test_a_sure_number_is_not_hidden_behind_a_larger_one_that_tells_nothing(few, many):
    """Of five clients and of five hundred."""
    unsure = question({**at(few, 0.0, 0.95, control=1.0), "recipe": "unsure"})
    sure = question({**at(many, many - 0.04, many + 0.04, control=1.0), "recipe": "sure"})
    for both in ([*unsure, *sure], [*sure, *unsure]):
        (q,) = worst([*rivals(both)])
        assert q.best.recipe == "sure"


def test_a_number_with_power_comes_before_one_without():
    able, unable = question({**NOTHING, "recipe": "able"}), question({**BLIND, "recipe": "unable"})
    for both in ([*able, *unable], [*unable, *able]):
        (q,) = worst([*rivals(both)])
        assert q.best.recipe == "able"


def test_settings_are_compared_whole():
    """Two that differ in a third setting are spelled alike; the one that did not run is named."""
    asked = {**NOTHING, "attack": "gradient_inversion", "metric": "psnr"}
    settings = ({"targets": 4, "steps": 100, "restarts": n} for n in (3, 4))
    ran, other = question(*({**asked, "attack_params": p} for p in settings))
    assert spelled(ran) == spelled(other)
    (q,) = rivals([ran])
    assert q.untried([ran, other], {}) == [spelled(other)]
    assert q.untried([ran, ran.model_copy(update={"recipe": "another"})], {}) == []


def test_of_equals_one_whose_control_worked_is_shown():
    rows = row.read_rows(RESULTS / "fedhide-table4" / "smoke.csv")
    (q,) = [q for q in rivals(rows) if q.best.label.startswith("collapse: FedHide(0.1, 10)")]
    assert any("control_failed" in r.flags for r in q.rows)
    assert "control_failed" not in q.best.flags
    assert share(q.best) is not None


def test_what_was_not_tried_is_named(made, rows):
    """Other metrics of an attack count, and so do other settings of one that was tried."""
    (cell,) = [v for k, v in listed(made["index.md"]).items() if k == COSINE]
    assert "`prototype_averaging`" in cell["not tried"]
    cell = listed(made["index.md"])["FedAwS", "spoken-speakers", "p_leak"]
    assert cell["attack"] == "`prototype_averaging`"
    assert "`prototype_averaging(window=5)`" in cell["not tried"].split(", ")
    assert "`gradient_inversion`" in cell["not tried"]


def test_what_fits_and_ran_on_the_method_in_no_table_is_named(made):
    """Read with nothing but csv: FedAA sends updates, and nobody inverted them in a table."""
    psnr = FITTING["fedaa", "{}", "psnr"]
    tried = set()
    for path in RESULTS.glob("fedaa-*/s*.csv"):
        with path.open(encoding="utf-8", newline="") as file:
            tried |= {r["attack"] for r in csv.DictReader(file) if r["metric"] == "psnr"}
    assert psnr - tried == {"gradient_inversion"}
    assert (
        listed(made["index.md"])["FedAA", "digits", "psnr"]["not tried"] == "`gradient_inversion`"
    )
    (line,) = cells(made["fedaa.md"], "FedAA", "digits for cifar10", "`psnr`")
    assert line[10] == "`gradient_inversion`"


def test_what_does_not_fit_is_not_named(made):
    """FedMetric's positive loss sends no prototype, though FedMetric itself does."""
    (line,) = cells(made["fedmetric.md"], "FedMetric pos", "digits for mnist", "`p_leak`")
    assert line[10] == "`gradient_inversion`"
    assert "prototype_averaging" in FITTING["fedmetric", '{"variant":"proxy"}', "p_leak"]


def _fitting() -> dict[tuple[str, str, str], set[str]]:
    out: dict[tuple[str, str, str], set[str]] = {}
    with (RESULTS / "fitting.csv").open(encoding="utf-8", newline="") as file:
        for r in csv.DictReader(file):
            for metric in r["metrics"].split("|"):
                out.setdefault((r["method"], r["params"], metric), set()).add(r["attack"])
    return out


FITTING = _fitting()


def test_it_is_known_of_every_attacked_method_what_fits(rows):
    assert set(fitting.ways(rows)) == set(fitting.read_fits(RESULTS / cards.FITTING))


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(m, marks=[] if m in ("fedmetric", "fedmix") else pytest.mark.slow)
        for m in sorted({m for m, _, _ in FITTING})
    ],
)
def test_what_fits_is_what_two_rounds_say(method):
    known = fitting.read_fits(RESULTS / cards.FITTING)
    mine = {way: fit for way, fit in known.items() if way[0] == method}
    assert {way: fitting.fitting_attacks(*way) for way in mine} == mine


@pytest.mark.parametrize("paper", cards.TITLES)
def test_no_two_lines_of_a_card_look_alike(made, paper):
    """A paper's numbers on several data sets stand beside one set of ours."""
    lines = [x for x in made[f"{paper}.md"].splitlines() if x.startswith("| ")]
    named = [(c[0], c[1], c[2], c[-1]) for c in cells("\n".join(lines))]
    assert len(set(named)) == len(named) - ("## What is gained" in made[f"{paper}.md"])


def test_a_large_number_has_no_power_of_ten(made):
    assert not any("e+" in text for text in made.values())


COSINE = ("FedCS(0.5)", "cifar100", "prototype_cosine")


def test_an_attack_is_spelled_with_its_own_settings_only(rows):
    told = {spelled(r) for r in rows if r.attack and r.ours}
    assert {"prototype_averaging", "prototype_averaging(window=5)"} <= told
    assert not any("seed" in name for name in told)
    assert {rung(r) for r in rows if r.attack == "prototype_leakage"} == {"paper"}


def test_smaller_is_worse_where_the_metric_says_so(made):
    key = ("FedMetric pos+neg(proxy)", "digits", "centre_error")
    rows = row.read_rows(RESULTS / "findings-fedmetric" / "smoke.csv")
    errors = [
        r.ours.value
        for r in rows
        if (r.label, r.metric) == (key[0], key[2]) and r.attack and r.ours
    ]
    assert len(errors) > 1
    told = listed(made["index.md"])[key]["the strongest tried"]
    assert float(told.split()[0]) == pytest.approx(min(errors), rel=1e-2)


def test_the_strongest_attack_gone_moves_the_number(tmp_path):
    """A card follows its table: without un-mixing FedHide would look better, and says so."""
    name = "findings-fedhide"
    for recipe in (name, "findings-digits"):
        shutil.copytree(RESULTS / recipe, tmp_path / recipe)
    path = tmp_path / name / "smoke.csv"
    kept = [r for r in row.read_rows(path) if r.attack != "prototype_unmixing"]
    kept = [r for r in kept if r.attack != "prototype_from_update"]
    row.write_rows(path, kept)
    found = listed(cards.pages(tmp_path)["index.md"])["FedHide(0.1, 5)", "digit-pairs", "p_leak"]
    assert found["leaked"].startswith("at least 0.")
    assert "`prototype_unmixing`" in found["not tried"]


def test_methods_that_nobody_attacked_are_named(made, rows):
    attacked = {r.method for r in rows if r.attack and r.ours}
    lost = {r.method for r in rows if r.ours and r.method} - attacked
    assert lost
    text, partly = made["index.md"].split("## Not attacked")[1].split("Attacked in some")
    assert all(f"`{name}`" in text for name in lost)
    assert not any(f"`{name}`" in text for name in attacked)
    (line,) = [x for x in partly.splitlines() if x.startswith("* cifar10:")]
    assert {"FedMix", "FLea"} <= {*line.removeprefix("* cifar10: ").split("; ")}
    assert "* mnist:" not in partly  # all of its rows were attacked
