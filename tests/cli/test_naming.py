"""train --as, and name and as in a SPEC.toml: one name is one setting's."""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.small_runs import ON_THE_LINE

from leakbench.base.errors import UsageError
from leakbench.base.files import read_sealed
from leakbench.cli import options, run
from leakbench.record import naming
from leakbench.record.folders import find
from leakbench.record.runspec import RunSpec, make_spec

UNSAID = dict.fromkeys(("task", "rounds", "engine", "dtype", "record"))
TWO = '[[defense]]\nname = "fedgn"\nas = "{}"\n[[defense]]\nname = "fedhide"\nas = "{}"\n'


def planned(tmp_path: Path, text: str, called: str | None = None, *given: str) -> list[RunSpec]:
    path = tmp_path / "SPEC.toml"
    path.write_text(text, encoding="utf-8")
    plan = options.read_spec(path)
    options.amend(plan, [], [], list(given), UNSAID, None, called=called)
    return naming.distinct_specs(make_spec(**one) for one in plan.specs())


def names(specs: list[RunSpec]) -> list[tuple[str, str, int]]:
    return [(s.defense.name, s.name, s.seed) for s in specs]


def test_a_name_is_for_all_seeds_and_outlives_a_parameter(tmp_path: Path) -> None:
    text = 'name = "release"\nseeds = [0, 1]\n[[defense]]\nname = "fedgn"\nsigma = 0.3\n'
    first, second = planned(tmp_path, text), planned(tmp_path, text, None, "sigma=0.1")
    assert names(first) == names(second) == [("fedgn", "release", s) for s in (0, 1)]
    assert first[0].identity() != second[0].identity()


def test_each_table_has_its_own_and_one_may_have_none(tmp_path: Path) -> None:
    both = TWO.format("release", "next")
    assert names(planned(tmp_path, both)) == [("fedgn", "release", 0), ("fedhide", "next", 0)]
    one = both.replace('as = "next"\n', "")
    assert names(planned(tmp_path, one)) == [("fedgn", "release", 0), ("fedhide", "", 0)]


def test_what_is_typed_wins(tmp_path: Path) -> None:
    text = '[[defense]]\nname = "fedgn"\n'
    assert names(planned(tmp_path, 'name = "old"\n' + text, "new")) == [("fedgn", "new", 0)]
    assert names(planned(tmp_path, text + 'as = "old"\n', "new")) == [("fedgn", "new", 0)]
    with pytest.raises(UsageError, match="would be the name of 2 settings"):
        planned(tmp_path, TWO.format("a", "b"), "new")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'name = "x"\n[[defense]]\nname = "fedgn"\nsigma = [0.1, 0.3]\n',
            "'x' would be the name of 2 settings (sigma = 0.1, 0.3)",
        ),
        (
            '[[defense]]\nname = "fedgn"\nas = "x"\nsigma = [0.1, 0.2, 0.3, 0.4, 0.5]\n',
            "of 5 settings (sigma = 0.1, 0.2, 0.3, and 2 more)",
        ),
        (
            'name = "x"\ntask = {name = "digits", dim = [8, 16]}\n[[defense]]\nname = "fedgn"\n',
            "of 2 settings (task.dim = 8, 16)",
        ),
        (
            'name = "x"\n[[wrapper]]\nname = "clip_noise"\nclip = [1.0, 2.0]\n[[defense]]\n'
            'name = "fedgn"\n',
            "of 2 settings (clip_noise.clip = 1.0, 2.0)",
        ),
        (TWO.format("x", "x"), "of 2 settings (defense = fedgn, fedhide"),
        (TWO.format("x", "y").replace("fedhide", "fedgn"), "would be called both 'x' and 'y'"),
        ('name = "x"\n' + TWO.format("y", "z"), "give one of them"),
        ('name = "a b"\n[[defense]]\nname = "fedgn"\n', "name = 'a b': expected a name of"),
        ("name = 3\n[[defense]]\nname = 'fedgn'\n", "name = 3: expected text"),
        (TWO.format("x", "*"), "defense: as = '*': expected a name of"),
        ("[[defense]]\nname = 'fedgn'\nas = ['a', 'b']\n", "expected text"),
        ("[[wrapper]]\nname = 'clip_noise'\nas = 'x'\n[[defense]]\nname = 'fedgn'\n", "'as'"),
    ],
)
def test_what_is_not_one_name_of_one_setting_is_one_sentence(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(UsageError) as error:
        planned(tmp_path, text)
    assert said in str(error.value)
    assert "\n" not in str(error.value)


def test_the_same_setting_twice_in_one_sweep_is_no_second_one(tmp_path: Path) -> None:
    text = 'name = "x"\n[[defense]]\nname = "fedgn"\nsigma = [0.1, 0.1]\n'
    assert names(planned(tmp_path, text)) == [("fedgn", "x", 0)]
    half = TWO.format("x", "y").replace("fedhide", "fedgn").replace('as = "y"\n', "")
    assert names(planned(tmp_path, half)) == [("fedgn", "x", 0)]


def test_the_command_names_renames_and_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def train(*more: str) -> tuple[int, str]:
        words = ["train", "-d", "fedgn", *ON_THE_LINE, "--rounds", "2", "--seeds", "0,1", *more]
        code = run([*words, "-o", str(tmp_path / "r"), "-q"])
        return code, capsys.readouterr().err

    def called() -> list[str]:
        paths = sorted((tmp_path / "r").iterdir())
        return [read_sealed(p / "run.json")["spec"].get("name", "") for p in paths]

    code, said = train("--as", "release", "-s", "sigma=0.1,0.3")
    assert (code, "(sigma = 0.1, 0.3)" in said) == (2, True)
    code, said = train("--as", "a/b")
    assert (code, "--as 'a/b': expected a name" in said) == (2, True)
    assert not (tmp_path / "r").exists()
    assert train("--as", "old")[0] == 0
    assert called() == ["old", "old"]
    code, said = train("--as", "release")
    told = [line for line in said.splitlines() if "now called" in line]
    ids = [r.id for r in find([tmp_path / "r"])]
    assert (code, told) == (0, [f"{i}: now called 'release' (was 'old')" for i in ids])
    assert train()[0] == 0
    assert called() == ["release", "release"]
