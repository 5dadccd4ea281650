"""Sentences about one thing agree: page, report.md and report.json say the same of a setting."""

from __future__ import annotations

import json
import re

import pytest
from helpers.page import Page
from helpers.run_folders import add_attack, make_run, measure

from leakbench.record.folders import find
from leakbench.reporting import write

ALL, N = [1.0] * 100, 100
NAMES = [f"client/{c}/{i}" for c in range(5) for i in range(4)]
OWNERS = [f"client/{c}" for c in range(5) for _ in range(4)]
WORDS = {
    *("held", "leaks", "leaks in part", "cannot tell", "attack too weak", "not finished", "failed"),
    *("not attacked", "nothing to attack", "dead run"),
}


def hits(count):
    return [1.0] * count + [0.0] * (N - count)


# sigma -> clients named by its own paper's attack and by another; the control
CASES = {0.1: (100, 100, 100), 0.2: (10, 40, 100), 0.3: (0, 0, 100), 0.4: (0, 0, 13)}


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A setting of every verdict that an attack on prototypes can end in, two seeds each, one that
    is not finished and one that failed; and one question on images.
    """
    runs, out = tmp_path_factory.mktemp("runs"), tmp_path_factory.mktemp("out")
    for seed in (0, 1):
        about = {"seed": seed, "right": [9], "sent": SENT}
        make_run(runs, defense="fedaws", params={}, hides=False, **about)
        for sigma, (own, real, control) in CASES.items():
            run = make_run(
                runs, params={"sigma": sigma}, seed=seed, right=[9], sent=SENT, audited=5
            )
            near = [measure("p_leak", hits(own), 0.01, hits(control))]
            add_attack(run, "nearest", near, rung="paper")
            for name in ("averaging", "newest"):
                row = measure("p_leak", hits(real), 0.01, hits(control))
                add_attack(run, name, [row], reads=("prototype", "update"))
            zeros, ones = [0.0] * len(NAMES), [1.0] * len(NAMES)
            row = measure("identification", zeros, 0.01, ones, units=NAMES, clusters=OWNERS)
            add_attack(run, "inversion", [row], rung="method")
    dead = make_run(runs, params={"sigma": 9.0}, right=[1])
    add_attack(dead, "averaging", [measure("p_leak", hits(90), 0.01, ALL)])
    make_run(runs, defense="fedcs", params={"cos_theta": 0.5}, status="running", right=[9])
    make_run(runs, defense="flea", params={}, status="failed: the loss is not finite", right=[9])
    tables = write.read_tables(find([runs]))
    formats = ("json", "html", "markdown", "latex")
    return write.write_report(tables, out, title="x", formats=formats)


SENT = [
    {
        "kind": kind,
        "sender": "client",
        "receiver": "server",
        "rounds": 100,
        "messages": 1000,
        "bytes": 1000,
        "covered": False,
    }
    for kind in ("prototype", "update")
]


@pytest.fixture(scope="module")
def file(out):
    return json.loads((out / "report.json").read_text())


@pytest.fixture(scope="module")
def page(out):
    return Page((out / "index.html").read_text())


def verdicts(file):
    """(question's place, setting's name) -> verdict."""
    names = {s["id"]: s["name"] for s in file["settings"]}
    told = {}
    for i, question in enumerate(file["questions"]):
        for j in question["judged"]:
            told[i, names[j["setting"]]] = j
    return told


def test_every_word_is_there_once(file):
    told = {(i, name): j["verdict"]["word"] for (i, name), j in verdicts(file).items()}
    first = {name: word for (i, name), word in told.items() if i == 0}
    assert sorted(first.values()) == sorted(
        (
            *("not attacked", "leaks", "leaks in part", "held", "cannot tell", "dead run"),
            *("not finished", "failed"),
        )
    )


def test_the_sentence_begins_with_the_word(file):
    for j in verdicts(file).values():
        word, sentence = j["verdict"]["word"], j["sentence"].lower()
        assert sentence.startswith("sends no" if word == "nothing to attack" else word)


def test_report_md_says_the_same_word_of_every_setting(out, file):
    text = (out / "report.md").read_text().replace("\\", "")
    blocks = re.split(r"^### ", text, flags=re.MULTILINE)[1:]
    assert len(blocks) == len(file["questions"])
    for (i, name), j in verdicts(file).items():
        lines = [
            x for x in blocks[i].splitlines() if re.match(rf"\| {re.escape(name)}( \(|\s*\|)", x)
        ]
        assert len(lines) == 1, name
        assert lines[0].split("|")[-2].strip().startswith(j["verdict"]["word"])


def test_the_page_says_the_same_word_of_every_setting(page, file):
    """In its first list by the heading that it stands under, and in the record by the sentence."""
    for j in verdicts(file).values():
        assert " ".join(j["sentence"].split()) in page.text
    for name, word in (
        ("fedcs", "not finished: run the same"),
        ("flea", "failed: the loss is not"),
    ):
        assert [
            text for at, text in page.all("a") if at.get("data-family") == name and word in text
        ]
    assert "sends no prototype" not in page.text
    cells = [text for at, text in page.all("td") if "verdict" in (at.get("class") or "").split()]
    assert {c for c in cells if c} <= WORDS


def test_what_the_record_would_have_to_hold_stands_in_all_three(out, page, file):
    hint = (
        "5 clients a round were audited, 30 are needed, and no more than 10 take part: train with"
    )
    assert hint in page.text
    assert hint in (out / "report.md").read_text().replace("\\", "")
    assert any(hint in j["sentence"] for j in verdicts(file).values())


def test_an_attack_is_praised_alone_only_where_no_other_does_as_well(page):
    assert "Read best by averaging, newest, equally well." in page.text
    assert "Read best by averaging." not in page.text


def test_who_leaks_least_is_one_that_was_judged(page, file):
    lede = "".join(s["text"] for s in file["questions"][0]["lede"])
    held = [
        name for (i, name), j in verdicts(file).items() if (i, j["verdict"]["word"]) == (0, "held")
    ]
    assert lede in page.text
    assert f"{held[0]} leaks least" in lede
