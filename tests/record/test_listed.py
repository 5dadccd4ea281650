"""What no list names is not read, and its being there is said."""

import shutil

import pytest
import torch
from helpers.small_runs import again, attacked, build, copied

from leakbench import api
from leakbench.attacking import guessing
from leakbench.base.errors import BrokenFile
from leakbench.record.folders import load
from leakbench.record.messages import Message, write_messages
from leakbench.results.tables import collect
from leakbench.scoring import score as scoring
from leakbench.scoring.truth import Truth


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return attacked(tmp_path_factory.mktemp("runs"), rounds=5)


@pytest.fixture
def run(made, tmp_path):
    return copied(made, tmp_path)


def noise(path):
    payload = torch.rand(8, generator=torch.Generator().manual_seed(0))
    write_messages(path, [Message(5, 9, "client/0", "server", "prototype", payload)])


@pytest.mark.parametrize(
    ("room", "opened"),
    [
        ("transcript", lambda r: again(r).transcript),
        ("control", lambda r: again(r).control),
        ("known", lambda r: again(r).known("labels")),
        ("truth", lambda r: Truth(r).rounds),
    ],
)
@pytest.mark.parametrize("name", ["round-000005b.safetensors", "deep/round-000004.safetensors"])
def test_a_file_that_run_json_does_not_list_is_refused_by_name(run, room, opened, name):
    opened(run)
    noise(run.path / room / name)
    with pytest.raises(BrokenFile, match=f"{room}/{name} is not among the files"):
        opened(load(run.path))


def test_thirty_files_of_noise_change_no_number(run, capsys):
    shutil.rmtree(run.path / "attacks")
    for i in range(30):
        noise(run.path / "transcript" / f"round-000005-{i:02d}.safetensors")
    with pytest.raises(BrokenFile, match=r"round-000005-00\.safetensors is not among"):
        api.attack(run.path, "prototype_leakage")
    assert not [p for p in run.path.glob("attacks/*") if not p.name.startswith(".")]


def test_hidden_files_are_work_in_progress(run):
    (run.path / "transcript" / ".round-000005.safetensors.part").write_bytes(b"cut")
    assert again(run).transcript


def test_an_unlisted_file_in_an_attack_folder_is_refused(run):
    (folder,) = run.path.glob("attacks/*")
    (folder / "more.csv").write_text("x\n")
    with pytest.raises(BrokenFile, match=r"more\.csv is not among the files"):
        collect([load(run.path)])


def test_guesses_are_listed_before_they_are_scored(run):
    shutil.rmtree(run.path / "attacks")
    attack = build("prototype_leakage")
    folder = guessing.guess(again(run), "prototype_leakage", attack)
    data = bytearray((folder / "guess.safetensors").read_bytes())
    data[-1] ^= 1
    (folder / "guess.safetensors").write_bytes(data)
    with pytest.raises(BrokenFile, match=r"guess\.safetensors was changed or damaged"):
        scoring.score(again(run), "prototype_leakage", attack)


def test_an_attack_that_fails_leaves_nothing_of_an_earlier_time(run):
    attack = build("prototype_leakage")
    (folder,) = run.path.glob("attacks/*")
    guessing.failed(again(run), "prototype_leakage", attack, "no reason")
    assert [p.name for p in folder.iterdir()] == ["attack.json"]
