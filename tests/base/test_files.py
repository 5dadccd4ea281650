"""Fast ways to read files, held to what the plain ones say."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from leakbench.base.errors import BrokenFile
from leakbench.base.files import (
    DEEPEST,
    all_inside,
    inside,
    pack_json,
    read_csv,
    read_json,
    write_csv,
)

HERE = (
    *("a.txt", "room/b.txt", "room/c.txt", "room/inner/d.txt", "room/../a.txt", "link-in.txt"),
    *("room/..", "not-there", "room/not-there", "linked-in/b.txt"),
)
ELSEWHERE = ("link-out.txt", "room/link-out.txt", "linked/e.txt", "..", "../a.txt", "circle")
KNOWN = ("a.txt", "room/b.txt", "linked-in/b.txt")  # whose folders are followed by then


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files, folders and links that lead in, out, and in a circle."""
    run, outside = tmp_path / "run", tmp_path / "outside"
    for path in (run / "a.txt", run / "room/b.txt", run / "room/inner/d.txt", outside / "e.txt"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(path.name, encoding="utf-8")
    (run / "link-in.txt").symlink_to(run / "room/b.txt")
    (run / "link-out.txt").symlink_to(outside / "e.txt")
    (run / "room/link-out.txt").symlink_to(outside / "e.txt")
    (run / "linked").symlink_to(outside)
    (run / "linked-in").symlink_to(run / "room")
    (run / "circle").symlink_to(run / "circle")
    return run


@pytest.mark.parametrize("name", HERE)
def test_many_names_are_followed_as_one_is(folder: Path, name: str) -> None:
    assert all_inside(folder, [*KNOWN, name]) == tuple(inside(folder, n) for n in (*KNOWN, name))


@pytest.mark.parametrize("name", ELSEWHERE)
def test_among_many_names_one_that_leads_out_is_refused(folder: Path, name: str) -> None:
    with pytest.raises(BrokenFile) as one:
        inside(folder, name)
    with pytest.raises(BrokenFile) as several:
        all_inside(folder, [*KNOWN, name])
    assert str(several.value) == str(one.value)


@pytest.mark.parametrize(
    "text",
    [
        "a,b\n1,2\n",
        'a,b\r\n"x, ""y""",\'=1\r\n\r\n\'\'-2,3\r\n',
        'a,b\n"two\nlines",4\n',
        "b,a\n",
        "a,b,a\n1,2,3\n",
    ],
)
def test_a_table_is_read_as_the_csv_module_reads_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8", newline="")
    with path.open(newline="", encoding="utf-8") as file:
        plain = list(csv.DictReader(file))
    marked = {"'=1": "=1", "''-2": "'-2"}
    assert read_csv(path, ["a"]) == [{k: marked.get(v, v) for k, v in r.items()} for r in plain]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "no column a"),
        ("\n", "no column a"),
        ("b\n1\n", "no column a"),
        ("a,b\n1\n", "a line is cut"),
        ("a,b\n1,2,3\n", "a line is cut"),
    ],
)
def test_a_damaged_table_is_refused(tmp_path: Path, text: str, why: str) -> None:
    path = tmp_path / "table.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BrokenFile, match=why):
        read_csv(path, ["a"])


def test_a_table_that_changes_is_read_again(tmp_path: Path) -> None:
    for value in ("1", "2"):
        write_csv(tmp_path / "t.csv", ["a"], [{"a": value}])
        assert read_csv(tmp_path / "t.csv", ["a"]) == [{"a": value}]


@pytest.mark.parametrize("lists", [True, False])
def test_json_may_be_as_deep_as_said(tmp_path: Path, lists: bool) -> None:
    path = tmp_path / "x.json"

    def nested(deep: int) -> str:
        if lists:
            return "[" * deep + "]" * deep
        return '{"a":' * (deep - 1) + "{}" + "}" * (deep - 1)

    path.write_text(nested(DEEPEST), encoding="utf-8")
    read_json(path)
    path.write_text(nested(DEEPEST + 1), encoding="utf-8")
    with pytest.raises(BrokenFile, match="in each other"):
        read_json(path)


class Named(str):
    """No plain text to ``json``'s fast way."""


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        (),
        {"b": [1, 2.5, -0.0, 1e300, 5e-324, 10**30], "a": {"c": None, "d": [True, False, []]}},
        {'é\u2028"\\\n': ("x", {}), "": [[], [[{}]]]},
        [{"z": 1, "é": 2, "A": 3}, "text", None],
        {2: "a", 10: "b"},
        {"a": {Named("k"): Named("v")}},
        {"a": {None: 1}},
        3,
        "plain",
    ],
)
def test_json_is_written_as_the_json_module_writes_it(value: object) -> None:
    assert pack_json(value).decode() == json.dumps(value, sort_keys=True, indent=1) + "\n"


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {"a": [float("-inf")]}])
def test_no_number_of_json_is_endless(value: object) -> None:
    with pytest.raises(ValueError, match="Out of range"):
        pack_json(value)
