"""The forms that machines read: CSV always, JSON with what the page shows; Markdown for a pull
request, LaTeX for a paper.
"""

import base64
import csv
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest
from helpers.page import EMPTY
from helpers.report_data import SETTINGS, built, curve, report_data, row, run_json, setting

from leakbench.base import registry
from leakbench.base.errors import UsageError
from leakbench.metrics.prototypes import P_LEAK
from leakbench.record.columns import TABLES
from leakbench.reporting.check_data import Check, CheckLimit, CheckRow
from leakbench.reporting.check_lines import heading, row_line
from leakbench.reporting.data import Clients, ReportData
from reports import latex, markdown
from reports.html import render


def whole():
    """The made-up report; one setting alone has a curve and clients, others than usual."""
    ends = {"low": (0.0, 0.8), "high": (0.2, 1.0), "floor": (0.05, 0.05)}
    about = {"rounds": (100, 300), "by": "unmix", "rung": "method"}
    found = curve("p_leak", (0.1, 0.9), **about, **ends)
    own = {
        "curves": (found,),
        "clients": (Clients(metric="p_leak", probe=False, shares=(1.0, None, 0.5)),),
    }
    data, none = report_data(), dict.fromkeys(own, ())
    settings = []
    for s in data.settings:
        settings.append(s.model_copy(update=own if s.key == SETTINGS[4][0].key else none))
    return data.model_copy(update={"settings": tuple(settings)})


@pytest.fixture(scope="module")
def data():
    return whole()


@pytest.fixture(scope="module")
def written(data, tmp_path_factory):
    out = tmp_path_factory.mktemp("report")
    for name in ("csv", "json", "markdown", "latex"):
        for path in registry.load_plugin("reports", name).build({}, name).write(data, out):
            assert path.is_file()
    return out


@pytest.fixture(scope="module")
def found(written):
    return json.loads(
        (written / "report.json").read_text(),
        parse_constant=lambda c: pytest.fail(f"{c} in report.json"),
    )


class Text(HTMLParser):
    def __init__(self, html):
        super().__init__(convert_charrefs=True)
        self.parts, self.ids = [], set()
        self.feed(html)
        self.text = " ".join("".join(self.parts).split())

    def handle_data(self, data):
        self.parts.append(data)

    def handle_starttag(self, tag, attrs):
        self.ids.add(dict(attrs).get("id"))


# CSV


def test_csv_holds_the_tables(data, written):
    for name, columns in TABLES.items():
        with (written / f"{name}.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        table = data.tables.rows(name)
        assert len(rows) == len(table)
        for line, same in zip(rows, table, strict=True):
            assert list(line) == list(columns)
            assert line == {c: text(same[c]) for c in columns}
    numbers = [n for s in data.settings for n in s.numbers]
    assert [r["value"] for r in data.tables.rows("tradeoff")] == [n.value.value for n in numbers]
    assert len(data.tables.rows("results")) == 3 * len(numbers)


def text(value):
    return (
        {True: "true", False: "false"}[value]
        if isinstance(value, bool)
        else repr(value)
        if isinstance(value, float)
        else str(value)
    )


# JSON


def keeps_to(value, schema, defs, at="report.json"):
    """Is this what the schema says, with every property that it knows and no other?"""
    if "$ref" in schema:
        return keeps_to(value, defs[schema["$ref"].removeprefix("#/$defs/")], defs, at)
    for several in ("anyOf", "oneOf"):
        if several in schema:
            fits = [keeps_to(value, one, defs, at) == [] for one in schema[several]]
            return [] if any(fits) else [at]
    if "enum" in schema or "const" in schema:
        return [] if value in schema.get("enum", [schema.get("const")]) else [at]
    kinds = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
    kinds |= {"integer": int, "number": (int, float)}
    if "type" in schema and not isinstance(value, kinds[schema["type"]]):
        return [f"{at} is no {schema['type']}"]
    if isinstance(value, bool) and schema.get("type") in ("integer", "number"):
        return [f"{at} is no number"]
    out = []
    if isinstance(value, dict):
        known, rest = schema.get("properties", {}), schema.get("additionalProperties", False)
        for name, inner in value.items():
            if name in known:
                out += keeps_to(inner, known[name], defs, f"{at}.{name}")
            elif isinstance(rest, dict):
                out += keeps_to(inner, rest, defs, f"{at}.{name}")
            elif not rest:
                out.append(f"{at}.{name} is unknown")
        out += [f"{at}.{name} is missing" for name in known.keys() - value.keys()]
    elif isinstance(value, list):
        firsts = schema.get("prefixItems", [])
        for i, inner in enumerate(value):
            item = firsts[i] if i < len(firsts) else schema.get("items", {})
            out += keeps_to(inner, item, defs, f"{at}[{i}]")
    return out


def test_json_keeps_to_its_documented_form(found):
    schema = ReportData.model_json_schema(mode="serialization", by_alias=True)
    assert keeps_to(found, schema, schema["$defs"]) == []
    assert keeps_to(found | {"more": 1}, schema, schema["$defs"]) == ["report.json.more is unknown"]
    assert set(schema["properties"]) == set(found)
    shorter = {k: v for k, v in found.items() if k != "title"}
    assert keeps_to(shorter, schema, schema["$defs"]) == ["report.json.title is missing"]
    assert keeps_to(found | {"title": 3}, schema, schema["$defs"]) != []


def test_json_says_what_it_is(data, found):
    assert (found["schema"], found["title"], found["redacted"]) == (2, data.title, False)
    assert found["made"] == {
        "version": data.made.version,
        "commit": data.made.commit,
        "dirty": True,
        "at": data.made.at,
        "code": data.made.code,
    }
    assert found["check"]["exit"] == 1
    assert found["check"]["lines"] == list(data.check.lines)
    assert found["against"] is None


def test_page_and_json_cannot_disagree(data, found):
    """Every sentence, name and number of the file is on the page, and every verdict of the page in
    the file.
    """
    page = Text(render(data))

    def shown(sentence):
        assert " ".join(sentence.split()) in page.text, sentence

    def whole_of(spans):
        return "".join(s["text"] for s in spans)

    shown(whole_of(found["headline"]))
    names = {s["id"]: s for s in found["settings"]}
    for q in found["questions"]:
        shown(whole_of(q["headline"]))
        shown(whole_of(q["lede"]))
        assert {j["setting"] for j in q["judged"]} == names.keys()
        for j in q["judged"]:
            shown(j["sentence"])
            shown(j["verdict"]["word"])
    for s in found["settings"]:
        assert s["id"] in page.ids
        shown(s["name"])
        shown(s["command"])
        for number in s["numbers"]:
            shown(number["command"])
    told_ = [len(s["numbers"]) for s in found["settings"]]
    assert sum(told_) == len(data.tables.rows("tradeoff"))
    assert [(q["label"], q["metric"], q["probe"]) for q in found["questions"]] == [
        (q.label, q.metric, q.probe) for q in data.questions
    ]
    for one, q in zip(found["questions"], data.questions, strict=True):
        assert whole_of(one["headline"]) == "".join(s.text for s in q.headline)
        assert whole_of(one["lede"]) == "".join(s.text for s in q.lede)
        words = {j["setting"]: j["verdict"]["word"] for j in one["judged"]}
        assert words == {j.setting.id: j.verdict.word for j in q.judged}


def test_fronts_hold_live_settings_alone(found):
    question = found["questions"][0]
    names = {s["id"]: s["name"] for s in found["settings"]}
    dead = {s["id"] for s in found["settings"] if s["state"] == "dead"}
    assert {names[i] for i in question["fronts"]["any_attack"]} == {
        "FedAwS",
        "FedAwS + clip_noise",
        "FedHide α 0.01, K 3",
        "FedHide α 0.1, K 3",
    }
    assert dead
    for rung in ("any_attack", "cascade", "paper"):
        assert question["fronts"][rung]
        assert not dead & set(question["fronts"][rung])
    # By its paper's own test FedHide at α 0.01 is beyond every setting of less accuracy but the one
    # under noise.
    assert {names[i] for i in question["fronts"]["paper"]} >= {
        "FedAwS",
        "FedHide α 0.01, K 3",
        "FedAwS + clip_noise",
    }
    assert "FedGN σ 0.3" not in {names[i] for i in question["fronts"]["paper"]}


def test_a_number_has_all_that_stands_beside_it(found):
    one = next(s for s in found["settings"] if s["name"] == "FedHide α 0.1, K 3")
    number = next(n for n in one["numbers"] if n["attacker"]["name"] == "nearest_prototype")
    assert number["value"] == {
        "value": 0.30,
        "low": 0.26,
        "high": pytest.approx(0.34),
        "n": 60,
        "unit": "client",
        "interval": "clopper-pearson",
    }
    assert number["claim"]["value"] == 0.043
    assert number["failed"] == 0
    assert number["provenance"]["guess_sha256"] == ["a" * 64]
    assert number["provenance"]["runs"] == [f"digit-pairs-fedhide-s{i}" for i in range(3)]
    assert number["provenance"]["engine"] == ["fused"]
    made = {
        n["attacker"]["name"]: n["provenance"]["guess_sha256"]
        for n in one["numbers"]
        if n["metric"] == "p_leak"
    }
    assert made["any_attack"] == ["a" * 64, "b" * 64, "c" * 64]
    assert made["cascade"] == ["b" * 64, "c" * 64]  # the paper's own attack never enters it
    assert one["curves"][0]["value"] == [0.1, 0.9]
    assert one["curves"][0]["rung"] == "method"
    assert one["clients"] == [{"metric": "p_leak", "probe": False, "shares": [1.0, None, 0.5]}]


def test_pictures_stand_once_under_their_hash(found, data):
    for digest, coded in found["images"].items():
        assert hashlib.sha256(base64.b64decode(coded)).hexdigest() == digest
    shown = [p for s in found["settings"] for p in s["pictures"]]
    assert len(shown) == sum(len(s.pictures) for s in data.settings) == 96
    assert {p["sha256"] for p in shown} == set(found["images"])
    # Original, floor and control are the same in every setting.
    assert len(found["images"]) < len(shown)


def test_missing_numbers_are_there_with_their_reason(found):
    assert [m["reason"] for m in found["missing"]] == [
        "images are under 32 px: LPIPS does not apply"
    ] * 3
    assert {(m["attack"], m["metric"]) for m in found["missing"]} == {
        ("gradient_inversion", "lpips")
    }
    settings = {s["id"]: s for s in found["settings"]}
    told = [settings[m["setting"]]["configuration"]["defense"] for m in found["missing"]]
    assert told == ["fedaws", "fedgn", "fedgn"]


def dumped(data):
    return data.model_dump(mode="json", by_alias=True)


def test_json_of_a_report_without_attacks():
    file = dumped(EMPTY)
    assert [s["text"] for s in file["headline"]] == [
        "No attack has been run: this report says nothing about privacy."
    ]
    assert (file["tasks"], file["settings"], file["images"]) == ([], [], {})
    alone = dumped(report_data(numbers=(), check=None))
    assert len(alone["settings"]) == 9
    assert all(not s["numbers"] and s["utility"] for s in alone["settings"])
    assert alone["questions"] == []


def test_states_are_told_apart():
    def run(base, seed):
        failed = {"status": "failed: it diverged"} if base.defense == "feduv" else {}
        return run_json(base, seed) | failed

    known = report_data()
    gained = [u for s in known.settings for u in s.utility if s.family != "feduv"]
    gone = built(utility=gained, runs=run, also=[b for b, *_ in SETTINGS])
    states = {s["name"]: (s["state"], s["why"]) for s in dumped(gone)["settings"]}
    assert states["FedUV"] == ("failed", "failed: it diverged")
    assert states["FedAwS"][0] == "done"
    assert {s.state for s in known.settings if s.name == "FedGN σ 3"} == {"dead"}


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "taken").write_text("a file")
    for name in ("json", "markdown", "latex"):
        with pytest.raises(UsageError, match="cannot write"):
            registry.load_plugin("reports", name).build({}, name).write(
                report_data(), tmp_path / "taken"
            )


# Markdown


def checks(code, *verdicts, why="because", command=""):
    known = {"meaning": P_LEAK.meaning, "old": 0.32, "new": 0.6, "difference": 0.28, "low": 0.2}
    known |= {"high": 0.35, "margin": 0.05, "why": why, "command": command}
    rows = tuple(
        CheckRow(verdict=v, row=f"digits: FedGN σ {i}, worst case", ref=f"ref{i}", **known)
        for i, v in enumerate(verdicts)
    )
    urgent = [r for r in rows if r.verdict in ("leaks more", "loses utility", "cannot tell")]
    return Check(
        exit=code,
        lines=tuple(row_line(r).text for r in urgent),
        against="leakage.json made at a1b2c3d",
        heading=heading(code, rows),
        rows=rows,
    )


def page(check, **more):
    return markdown.render(report_data(check=check, **more), markdown.Path("out/index.html"))


@pytest.mark.parametrize(
    ("code", "verdicts", "first"),
    [
        (1, ["leaks more"], "## ❌ Check failed (exit 1): 1 row leaks more."),
        (
            1,
            ["leaks more", "leaks more", "cannot tell", "fine"],
            "## ❌ Check failed (exit 1): 2 rows leak more, 1 cannot tell, 1 fine.",
        ),
        (1, ["loses utility", "fine"], "## ❌ Check failed (exit 1): 1 row loses utility, 1 fine."),
        (3, ["cannot tell", "new"], "## ⚠️ Check undecided (exit 3): 1 cannot tell, 1 new."),
        (
            0,
            ["fine"],
            (
                "## ✅ Check passed: the one gated row is fine. Closest: digits: FedGN σ 0, worst"
                " case, +0.28"
            ),
        ),
        (0, ["fine", "fine"], "## ✅ Check passed: all 2 gated rows fine."),
        (3, [], "## ⚠️ Nothing is gated yet: \\`leakbench check --update\\`."),
    ],
)
def test_the_first_line_is_the_outcome_with_a_sign_and_a_word(code, verdicts, first):
    assert page(checks(code, *verdicts)).startswith(first)


def test_five_lines_and_the_rest_folded():
    text = page(
        checks(
            1, *["leaks more"] * 7, *["fine"] * 20, command="leakbench train -d fedgn --seeds 0-7"
        )
    )
    before, _, folded = text.partition("<details>")
    assert before.count("| **leaks more** |") == 5
    assert "and 2 more" in before
    assert "<summary>All 27 rows</summary>" in folded
    assert folded.split("</details>")[0].count("| **") == 27
    assert "P\\_leak 0.32 → 0.60 | \\+0.28 (+0.20 to +0.35), allowed 0.05 |" in before
    assert before.count("To settle it: `leakbench train") == 1  # one command may settle many rows
    assert before.count("The command above settles it, too") == 4


def test_limits_and_notes_stand_in_the_summary():
    held = {"limit": "p_leak<=0.2", "setting": "release", "meaning": P_LEAK.meaning}
    over = CheckLimit(verdict="breached", value=0.53, low=0.41, high=0.6, attack="unmix", **held)
    told = {"limits": (over,), "notes": ("no baseline",)}
    text = page(checks(1, "fine").model_copy(update=told))
    before, _, folded = text.partition("<details>")
    assert "no baseline" in before
    line = "| **breached** | release: p\\_leak&lt;=0.2: unmix | 0.53 (at least 0.41) |  |  |"
    assert line in before
    assert line in folded
    assert "<summary>All 2 rows</summary>" in folded


def test_without_a_check_the_title_is_the_heading(written):
    text = page(None)
    assert text.startswith("## leakbench report\n")
    assert (
        "4 of 8 defense settings leak most of what there is to leak, 1 in part; left open" in text
    )
    assert "| FedGN σ 3 (dead) | 0.110 (0.090 to 0.130) |" in text
    assert "`out/index.html`" in text
    assert str(written / "index.html") in (written / "report.md").read_text()


def test_no_attack_at_all_is_said():
    assert "No attack has been run" in markdown.render(EMPTY, markdown.Path("index.html"))


@pytest.mark.parametrize("settings", [3, 3000])
def test_a_long_summary_is_cut_with_a_count(settings):
    bases = [setting("fedhide", {"alpha": i / 10_000, "k": 3}) for i in range(settings)]
    rows = [
        row(b, 0.5, a, "method", "p_leak", 0.9)
        for b in bases
        for a in ("unmix", "cascade", "any_attack")
    ]
    check = checks(1, *["leaks more"] * settings, why="w" * 60)
    text = page(check, numbers=rows, utility=(), more={}, runs=None, maps=(), missing=())
    assert len(text) <= len(text.encode()) < 60_000
    left = [int(n) for n in re.findall(r"… and (\d+) more", text)]
    assert bool(left) == (settings > 100)
    assert all(0 < n <= settings for n in left)
    assert text.count("<details>") == text.count("</details>")
    assert "The whole report:" in text
    head, rest = text.split("<details>")[0], text.split("</details>")[1]
    assert head.count("| **leaks more** |") == min(settings, 5)
    shown = sum(line.startswith("| FedHide") for line in rest.splitlines())
    assert shown + (left[-1] if left else 0) == settings


# LaTeX


def test_a_table_per_question_with_the_papers_number_beside_ours(written):
    text = (written / "report.tex").read_text()
    assert text.count("\\begin{tabular}") == text.count("\\end{tabular}") == 2
    for rule in ("toprule", "midrule", "bottomrule"):
        assert text.count(f"\\{rule}") == 2
    line = next(x for x in text.splitlines() if x.startswith("FedHide $\\alpha$ 0.01, K 3"))
    cells = [c.strip() for c in line.removesuffix("\\\\").split(" & ")]
    assert cells[:6] == [
        "FedHide $\\alpha$ 0.01, K 3",
        "0.905 (0.885 to 0.925)",
        "no number",
        "0.10 (0.06 to 0.14)",
        "0.04",
        "0.48 (0.44 to 0.52)",
    ]
    assert cells[7] == "leaks in part"
    assert "clients 100 there, 20 here" in text
    assert all(
        c.strip()
        for x in text.splitlines()
        if x.endswith("\\\\")
        for c in x.removesuffix("\\\\").split(" & ")
    )


def test_many_settings_go_into_several_tables():
    bases = [setting("fedhide", {"alpha": i / 100, "k": 3}) for i in range(90)]
    rows = [
        row(b, 0.5, a, "method", "p_leak", 0.9)
        for b in bases
        for a in ("unmix", "cascade", "any_attack")
    ]
    text = latex.render(built(rows))
    assert text.count("\\begin{table}") == 3
    assert text.count("(continued)") == 2
    assert text.count("FedHide") == 90


def test_latex_of_a_report_without_attacks_says_so():
    assert "No attack has been run" in latex.render(EMPTY)


def test_row_keys_tell_numbers_apart(data):
    keys = [n.key for s in data.settings for n in s.numbers]
    assert len(set(keys)) == len(keys)
