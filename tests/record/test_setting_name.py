"""A setting's name: what it may be, that it changes nothing of a run, and how it is replaced."""

import pytest
from helpers.run_folders import edited

from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.files import read_sealed
from leakbench.base.spec import canonical, fingerprint
from leakbench.record import folders, training
from leakbench.record.run_json import command
from leakbench.record.runspec import RunSpec, make_spec
from leakbench.record.setting_name import LONGEST, well_formed
from leakbench.record.training import train_run

SMALL = {"model": "mlp", "width": 8, "dim": 8, "evaluations": 10}


def spec_of(called="", rounds=3, **more):
    return make_spec("fedavg", task_params=SMALL, rounds=rounds, called=called, **more)


def content(folder):
    """{name: bytes} of every file but run.json."""
    files = (p for p in sorted(folder.rglob("*")) if p.is_file() and p.name != "run.json")
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in files}


def told(folder):
    return read_sealed(folder / "run.json")


@pytest.mark.parametrize("name", ["release", "v1.2_b-3", "0", "_x", "a" * LONGEST])
def test_what_may_be_a_name(name):
    assert well_formed(name, "--as") == name
    assert spec_of(name).name == name


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("", "release"),
        ("-release", "release"),
        ("my release", "my-release"),
        ("a/b", "a-b"),
        ("a*", "a"),
        ("a?b", "a-b"),
        ("a[b]", "a-b"),
        ("größe", "gr-e"),
        ("release\n", "release"),
        ("a" * (LONGEST + 1), "a" * LONGEST),
    ],
)
def test_what_may_not_is_one_sentence_with_one_that_may(name, near):
    with pytest.raises(UsageError, match="expected a name of at most 60 letters") as said:
        well_formed(name, "--as")
    assert str(said.value).endswith(f"for example {near}.")
    assert "\n" not in str(said.value)
    if name:
        with pytest.raises(UsageError, match="expected a name of at most 60 letters"):
            spec_of(name)


def test_a_name_changes_neither_the_fingerprint_nor_what_an_unnamed_run_says():
    plain, named = spec_of(), spec_of("release")
    assert plain.folder() == named.folder()
    assert "name" not in plain.model_dump(mode="json")
    assert named.model_dump(mode="json") == {**plain.model_dump(mode="json"), "name": "release"}
    values = {
        k: v for k, v in plain.model_dump(mode="json").items() if k not in ("seed", "attacks")
    }
    assert plain.identity() == fingerprint(values)
    assert RunSpec.build(named.model_dump(mode="json"), "run") == named
    assert "--as" not in command(plain)
    assert "--as release" in command(named)


def test_the_bytes_of_a_run_are_the_same_under_any_name(tmp_path):
    one, two = (train_run(spec_of(n), tmp_path / (n or "none")).path for n in ("", "release"))
    assert content(one) == content(two)
    assert folders.load(two).spec["name"] == "release"
    assert folders.load(one).content == folders.load(two).content


def test_a_complete_run_is_renamed_and_not_trained_again(tmp_path):
    path = train_run(spec_of(attacks=[("prototype_leakage", {})]), tmp_path).path
    before, heard = content(path), []

    def again(called):
        heard.clear()
        how = {"progress": lambda *_: pytest.fail("it trained"), "say": heard.append}
        assert train_run(spec_of(called), tmp_path, **how).skipped
        return told(path)["spec"].get("name")

    assert (again("old"), heard) == ("old", ["now called 'old'"])
    assert (again("release"), heard) == ("release", ["now called 'release' (was 'old')"])
    assert "--as release" in told(path)["command"]
    assert (again("release"), heard) == ("release", [])
    assert (again(""), heard) == ("release", [])  # a name is replaced by a name alone
    assert [a["name"] for a in told(path)["spec"]["attacks"]] == ["prototype_leakage"]
    assert content(path) == before
    assert folders.load(path).done


def test_what_is_as_it_was_is_not_written(tmp_path):
    path = train_run(spec_of("release"), tmp_path).path / "run.json"
    before = path.stat().st_mtime_ns
    train_run(spec_of("release"), tmp_path)
    train_run(spec_of(), tmp_path)
    assert path.stat().st_mtime_ns == before


def stopped(spec, runs, monkeypatch):
    """Interrupted after round 2, with a checkpoint."""

    def progress(t, *_):
        if t == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr(training, "CHECKPOINT_SHARE", 0)
    with pytest.raises(KeyboardInterrupt):
        train_run(spec, runs, progress=progress)
    assert (runs / spec.folder() / "checkpoint" / "state.safetensors").exists()


@pytest.mark.parametrize(
    ("first", "second", "name", "said"),
    [
        ("old", "release", "release", ["now called 'release' (was 'old')"]),
        ("", "release", "release", ["now called 'release'"]),
        ("release", "", "release", []),
    ],
)
def test_an_unfinished_run_goes_on_under_another_name(
    tmp_path, monkeypatch, first, second, name, said
):
    stopped(spec_of(first, rounds=5), tmp_path / "r", monkeypatch)
    heard, rounds = [], []
    path = train_run(
        spec_of(second, rounds=5),
        tmp_path / "r",
        say=heard.append,
        progress=lambda t, *_: rounds.append(t),
    ).path
    assert min(rounds) == 2  # it went on after round 1
    assert (told(path)["spec"]["name"], heard) == (name, said)
    assert content(path) == content(train_run(spec_of(rounds=5), tmp_path / "whole").path)


def test_what_is_begun_anew_keeps_its_name(tmp_path):
    path = train_run(spec_of("release"), tmp_path).path
    assert not train_run(spec_of(), tmp_path, restart=True).skipped
    assert told(path)["spec"]["name"] == "release"


def test_a_name_edited_by_hand_is_noticed_and_a_wrong_one_even_under_a_new_seal(tmp_path):
    path = train_run(spec_of("release"), tmp_path).path
    text = (path / "run.json").read_text()
    (path / "run.json").write_text(text.replace('"name": "release"', '"name": "other"'))
    with pytest.raises(BrokenFile, match=r"run\.json was changed or damaged"):
        folders.load(path)
    (path / "run.json").write_text(text)
    edited(path / "run.json", lambda meta: meta["spec"].update(name="<script>"))
    with pytest.raises(BrokenFile, match=r"spec\.name"):
        folders.load(path)


def test_a_run_of_before_there_were_names_is_named(tmp_path):
    path = train_run(spec_of(), tmp_path).path
    assert "name" not in canonical(sorted(told(path)["spec"]))
    assert train_run(spec_of("release"), tmp_path).skipped
    assert folders.load(path).spec["name"] == "release"
