"""What the user gave is wrong: one sentence on stderr, exit 2, no traceback, nothing half-written,
nothing overwritten.
"""

from __future__ import annotations

import os
import shutil

import pytest
from helpers.run_folders import called
from helpers.small_runs import ON_THE_LINE, copied, trained, tree_of

from leakbench import api
from leakbench.base.files import read_sealed, write_sealed
from leakbench.cli import run


@pytest.fixture(scope="module")
def attacked(tmp_path_factory):
    out = tmp_path_factory.mktemp("attacked")
    one = trained(out / "runs", rounds=3, params={"sigma": 0.5}, record="standard")
    api.attack(one, "prototype_leakage")
    return one


@pytest.fixture
def own(attacked, tmp_path):
    """A copy to be spoilt."""
    return copied(attacked, tmp_path / "own")


@pytest.fixture
def refused(capsys):
    """Run a command that must be refused with one sentence; returns it. ``kept``: a folder that
    must stay as it is.
    """

    def call(*argv, kept=None, lines=1):
        before = tree_of(kept) if kept else {}
        capsys.readouterr()
        code = run([str(a) for a in argv])
        out, err = capsys.readouterr()
        said = [
            line
            for line in err.splitlines()
            if not line.startswith("[") and ": about " not in line and "attacks on" not in line
        ]
        assert (code, out) == (2, ""), err
        assert len(said) == lines, err
        for line in said:
            assert line.startswith("leakbench: ")
            assert line.endswith((".", "?"))
            assert not any(w in line for w in ("Traceback", "Error(", "?.", " None.")), line
            assert ".." not in line.replace("...", ""), line
        if kept:
            assert tree_of(kept) == before
        return "\n".join(said).removeprefix("leakbench: ")

    return call


TRAIN = ["train", "-d", "fedgn", *ON_THE_LINE, "--rounds", "2"]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["trian"], "no such command 'trian'. Did you mean 'train'? See leakbench --help."),
        (["train", "-d", "fedgm"], "unknown defense 'fedgm'. Did you mean 'fedgn'?"),
        (["train"], "no defense was given. Name one with -d"),
        (
            [*TRAIN, "-s", "sigm=1"],
            "defense fedgn: unknown parameter 'sigm'. Did you mean 'sigma'?",
        ),
        (
            [*TRAIN, "-w", "top_k", "-s", "share=0.1"],
            "'share' is a parameter of the wrapper top_k; write -s top_k.share=...",
        ),
        ([*TRAIN, "-s", "k=1"], "unknown parameter 'k'. Known: average, batch"),
        ([*TRAIN, "-s", "sigma=-1"], "sigma = -1: input should be greater than or equal to 0."),
        ([*TRAIN, "-s", "sigma=a"], "sigma = 'a': input should be a valid number."),
        ([*TRAIN, "-s", "sigma=true"], "sigma = True: input should be a valid number."),
        ([*TRAIN, "-s", "batch=1.5"], "batch = 1.5: input should be a valid integer"),
        ([*TRAIN, "-s", "sigma=NaN"], "sigma = nan: expected finite numbers"),
        ([*TRAIN, "-s", "sigma"], "-s 'sigma': expected KEY=VALUE, for example -s sigma=0.1."),
        (
            [*TRAIN, "-s", "sigma=1", "-s", "sigma=2"],
            "-s sigma was given twice; sweep with a comma list",
        ),
        (
            [*TRAIN, "-s", "tsk.dim=3"],
            "-s tsk.dim: 'tsk' is no part of this run. Did you mean 'task'?",
        ),
        (
            [*TRAIN, "-s", "task.dims=3"],
            "task digits: unknown parameter 'dims'. Did you mean 'dim'?",
        ),
        (
            ["train", "-d", "fedgn", "-s", "task.model=lnet"],
            "task.model = 'lnet': unknown model. Did you mean 'lenet'?",
        ),
        ([*TRAIN, "-t", "digts"], "unknown task 'digts'. Did you mean 'digits'?"),
        ([*TRAIN, "-w", "clip_nois"], "unknown wrapper 'clip_nois'. Did you mean 'clip_noise'?"),
        ([*TRAIN, "--rounds", "0"], "invalid value for '--rounds'"),
        ([*TRAIN, "--rounds", "many"], "invalid value for '--rounds'"),
        ([*TRAIN, "--rouds", "3"], "no such option: --rouds"),
        ([*TRAIN, "--seeds", "2-1"], "--seeds '2-1': expected a seed, a range or a list"),
        (
            [*TRAIN, "--engine", "quick"],
            "engine 'quick' is not known. Use auto, loop, fused, parallel, stacked or threads.",
        ),
        ([*TRAIN, "--device", "tpu"], "device 'tpu' is not known. Use auto, cpu or cuda."),
        ([*TRAIN, "--dtype", "float8"], "dtype 'float8' is not known."),
        ([*TRAIN, "--record", "some"], "--record: name = 'some'"),
        (
            [*TRAIN, "-s", "record.clients=7,2"],
            "serves all runs; give a list in brackets, -s 'record.clients=[7,2]'.",
        ),
        (
            [*TRAIN, "-s", "record.clients=[2,99]"],
            "record.clients: there is no client 99; the 10 clients are 0 to 9.",
        ),
        (["train", "none.toml"], "none.toml does not exist: expected the path of a file"),
        (
            ["attack", "nowhere"],
            "nowhere does not exist: expected a run folder, a folder that holds some, or a glob.",
        ),
        (["attack", "nowhere/*"], "nowhere/* does not exist"),
        (["attack"], "missing argument 'RUN...'. See leakbench attack --help."),
        (["score", "nowhere"], "nowhere does not exist"),
        (["report", "nowhere"], "nowhere does not exist"),
        (["check", "nowhere"], "nowhere does not exist"),
        (["list", "defences"], "there is no list of 'defences'. Did you mean 'defenses'?"),
        (["show", "fedgm"], "unknown name 'fedgm'. Did you mean 'fedgn'?"),
        (["show"], "missing argument 'NAME'. See leakbench show --help."),
    ],
    ids=lambda v: " ".join(map(str, v[-2:])) if isinstance(v, list) else "",
)
def test_misspelt_and_out_of_range(refused, tmp_path, monkeypatch, argv, said):
    monkeypatch.chdir(tmp_path)
    assert said in refused(*argv)
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_attack_or_parameter(refused, attacked):
    kept = attacked.path
    assert "unknown attack 'prototype_leak'. Did you mean 'prototype_leakage'?" in refused(
        "attack", kept, "-a", "prototype_leak", kept=kept
    )
    assert "unknown parameter 'sed'. Did you mean 'seed'?" in refused(
        "attack", kept, "-a", "prototype_leakage", "-s", "sed=1", kept=kept
    )
    assert "seed = -1" in refused(
        "attack", kept, "-a", "prototype_leakage", "-s", "seed=-1", kept=kept
    )
    assert "input should be 'true' or 'public'" in refused(
        "attack", kept, "-a", "prototype_leakage", "-s", "candidates=all", kept=kept
    )
    assert "does not fit" in refused("attack", kept, "-a", "distance_correlation", kept=kept)
    assert "unknown attack 'x'" in refused("score", kept, "-a", "x", kept=kept)


@pytest.mark.parametrize("out", ["a/file", "/proc/nothing/here"])
def test_a_place_that_cannot_be_written(refused, attacked, tmp_path, out):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "file").write_text("mine")
    place = out if out.startswith("/") else tmp_path / out
    said = refused(*TRAIN, "-o", place)
    assert f"cannot write {place}/digits-fedgn-" in said
    assert "Make it writable" in said
    assert f"cannot write {place}/" in refused("report", attacked.path, "-o", place)
    assert f"cannot write {place}" in refused(
        "check", attacked.path, "--update", "--baseline", f"{place}/leakage.json"
    )
    assert (tmp_path / "a" / "file").read_text() == "mine"
    assert [p for p in tmp_path.rglob("*") if p.is_file()] == [tmp_path / "a" / "file"]


def test_a_run_folder_whose_attacks_cannot_be_written(refused, own):
    shutil.rmtree(own.path / "attacks")
    (own.path / "attacks").write_text("a file")
    assert f"cannot write {own.path}/attacks" in refused(
        "attack", own.path, "-a", "prototype_leakage", kept=own.path
    )


class TestRunJson:
    def spoilt(self, refused, own, said, text=None, **changed):
        file = own.path / "run.json"
        if text is None:
            write_sealed(file, {**own.meta, **changed})
        else:
            file.write_text(text)
        for argv in (
            ["attack", own.path],
            ["score", own.path],
            ["report", own.path, "-o", own.path.parent / "rep"],
            ["check", own.path],
        ):
            sentence = refused(*argv, kept=own.path.parent)
            assert str(file) in sentence
            assert said in sentence

    def test_not_json(self, refused, own):
        self.spoilt(refused, own, "is damaged", text="{'status': done}")

    def test_cut(self, refused, own):
        self.spoilt(refused, own, "is damaged", text=(own.path / "run.json").read_text()[:200])

    def test_not_an_object(self, refused, own):
        self.spoilt(refused, own, "is damaged (not a JSON object)", text="[1, 2]")

    def test_with_a_nan(self, refused, own):
        self.spoilt(refused, own, "is damaged (NaN is not allowed)", text='{"status": NaN}')

    def test_from_a_newer_schema(self, refused, own):
        self.spoilt(
            refused,
            own,
            "has schema 3, this leakbench reads schema 2 and older. Update leakbench.",
            schema=3,
        )

    def test_with_a_schema_that_is_no_number(self, refused, own):
        self.spoilt(refused, own, "schema", schema="one")

    @pytest.mark.parametrize("key", ["status", "spec", "files", "utility"])
    def test_without_a_key(self, refused, own, key):
        text = {k: v for k, v in own.meta.items() if k != key}
        write_sealed(own.path / "run.json", text)
        assert f"(no '{key}" in refused("attack", own.path, kept=own.path)

    def test_of_a_spec_that_is_not_known_here(self, refused, own):
        spec = {**own.spec, "defense": {"name": "fedsomething", "params": {}}}
        write_sealed(own.path / "run.json", {**own.meta, "spec": spec, "id": called(spec)})
        assert "unknown defense 'fedsomething'" in refused(
            "attack", own.path, "-a", "prototype_leakage", kept=own.path
        )
        spec = {**own.spec, "surprise": 1}
        write_sealed(own.path / "run.json", {**own.meta, "spec": spec, "id": called(spec)})
        assert "unknown parameter 'surprise'" in refused("attack", own.path, kept=own.path)

    def test_training_does_not_write_over_it(self, refused, own):
        (own.path / "run.json").write_text("{")
        line = [
            "train",
            "-d",
            "fedgn",
            *ON_THE_LINE,
            "--rounds",
            "3",
            "-s",
            "sigma=0.5",
            "-o",
            own.path.parent,
        ]
        assert f"{own.path / 'run.json'} is damaged" in refused(*line, kept=own.path.parent)


def flip(path):
    data = bytearray(path.read_bytes())
    data[len(data) * 2 // 3] ^= 4
    path.write_bytes(data)


def cut(path):
    path.write_bytes(path.read_bytes()[:-5])


def empty(path):
    path.write_bytes(b"")


@pytest.mark.parametrize(
    "spoil", [flip, cut, empty, os.remove], ids=["flipped", "cut", "empty", "gone"]
)
class TestArtifacts:
    @pytest.mark.parametrize(
        "name",
        ["transcript/round-000003", "transcript/rounds", "control/round-000003", "known/aux_data"],
    )
    def test_what_attacks_read(self, refused, own, spoil, name):
        shutil.rmtree(own.path / "attacks")
        file = own.path / f"{name}.safetensors"
        spoil(file)
        params = ["-s", "candidates=public"] if "known" in name else []
        said = refused("attack", own.path, "-a", "prototype_leakage", *params, kept=own.path)
        assert str(file) in said
        assert "is missing" in said or "damaged" in said

    def test_the_truth(self, refused, own, spoil):
        file = own.path / "truth" / "round-000003.safetensors"
        spoil(file)
        assert str(file) in refused("score", own.path, kept=own.path)

    @pytest.mark.parametrize(
        "name", ["guess.safetensors", "units.csv", "results.csv", "attack.json"]
    )
    def test_an_attacks_files(self, refused, own, spoil, name):
        (folder,) = own.attacks
        file = folder.path / name
        spoil(file)
        assert str(file) in refused(
            "report", own.path, "-o", own.path.parent / "rep", kept=own.path.parent
        )
        if name in ("guess.safetensors", "attack.json"):
            assert str(file) in refused("score", own.path, kept=own.path.parent)
        # Without it there is no attack: it is simply run.
        if not (name == "attack.json" and spoil is os.remove):
            assert str(file) in refused(
                "attack", own.path, "-a", "prototype_leakage", kept=own.path.parent
            )

    def test_utility(self, refused, own, spoil):
        file = own.path / "utility.csv"
        spoil(file)
        assert str(file) in refused(
            "report", own.path, "-o", own.path.parent / "rep", kept=own.path.parent
        )


def test_one_damaged_run_among_several_is_named_and_the_others_are_attacked(
    attacked, own, tmp_path, capsys
):
    fine = copied(attacked, tmp_path / "fine")
    for r in (own, fine):
        shutil.rmtree(r.path / "attacks")
    file = own.path / "transcript" / "round-000003.safetensors"
    cut(file)
    assert run(["attack", str(own.path), str(fine.path), "-a", "prototype_leakage", "-q"]) == 2
    out, err = capsys.readouterr()
    assert len(out.splitlines()) > 1
    assert err.count("\n") == 1
    assert str(file) in err
    assert (fine.path / "attacks").exists()


def test_several_attacks_on_one_damaged_file_say_it_once(refused, own):
    shutil.rmtree(own.path / "attacks")
    flip(own.path / "transcript" / "round-000003.safetensors")
    refused("attack", own.path, kept=own.path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "is damaged"),
        ('{"rows": 3}', "no list of rows"),
        ('{"rows": [{"task": "digits"}]}', "is damaged"),
        ('{"rows": [], "schema": 9}', "has schema 9"),
        ("\x00\xff", "is damaged"),
    ],
)
def test_a_damaged_baseline(refused, attacked, tmp_path, text, said):
    file = tmp_path / "leakage.json"
    file.write_bytes(text.encode("latin-1"))
    for more in ([], ["--update"]):
        sentence = refused("check", attacked.path, "--baseline", file, *more, kept=tmp_path)
        assert str(file) in sentence
        assert said in sentence


def test_a_baseline_that_is_a_folder(refused, attacked, tmp_path):
    assert str(tmp_path) in refused("check", attacked.path, "--baseline", tmp_path)


def test_an_empty_folder_holds_no_run(refused, tmp_path):
    assert refused("report", tmp_path).startswith(f"{tmp_path} holds no run: expected a run folder")


def test_a_spec_that_is_a_folder(refused, tmp_path):
    assert "cannot be read as TOML" in refused("train", tmp_path)


def test_the_same_run_given_twice_counts_once_and_a_copy_is_refused(refused, attacked, own, capsys):
    assert (
        run(
            [
                "attack",
                str(attacked.path),
                str(attacked.path.parent),
                "-a",
                "prototype_leakage",
                "-q",
            ]
        )
        == 0
    )
    assert capsys.readouterr().out.count("final") == 2
    said = refused("report", attacked.path, own.path, "-o", own.path.parent / "rep")
    assert "seed" in said
    assert not (own.path.parent / "rep").exists()


def test_nothing_hidden_is_left_behind(attacked):
    assert list(attacked.path.parent.rglob(".*")) == []
    assert read_sealed(attacked.path / "run.json")["status"] == "done"


def test_a_spec_that_has_no_end(refused):
    assert "cannot be read as TOML (it is no file)" in refused("train", "/dev/zero")
