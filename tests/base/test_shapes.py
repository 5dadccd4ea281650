"""What is no plain file, or no file of ours, is refused before it is read."""

import os

import pytest
import torch
from pydantic import Field

from leakbench.base import files
from leakbench.base.errors import BrokenFile
from leakbench.base.shapes import Name, Shape, check_shape
from leakbench.record.policy import Policy


@pytest.mark.parametrize(
    "read",
    [files.read_json, files.read_sealed, files.read_tree, files.read_meta, files.file_digest],
    ids=["json", "sealed", "tree", "meta", "digest"],
)
def test_a_pipe_a_device_and_a_folder_are_not_opened(tmp_path, read):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "device").symlink_to("/dev/zero")
    (tmp_path / "folder").mkdir()
    for name in ("pipe", "device", "folder"):
        with pytest.raises(BrokenFile, match=f"{name} is damaged .it is no plain file"):
            read(tmp_path / name)
    with pytest.raises(BrokenFile, match="is missing"):
        read(tmp_path / "nothing")


def test_a_csv_that_is_a_pipe_is_not_opened(tmp_path):
    os.mkfifo(tmp_path / "units.csv")
    with pytest.raises(BrokenFile, match="no plain file"):
        files.read_csv(tmp_path / "units.csv", ())


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * 100 + "]" * 100, "more than 60 objects and lists"),
        ('{"a": 1e999}', "1e999 is too large"),
        ('{"a": ' + "1" * 5000 + "}", "damaged"),
    ],
)
def test_json_that_nobody_writes_is_one_sentence(tmp_path, text, said):
    (tmp_path / "x.json").write_text(text)
    with pytest.raises(BrokenFile, match=said):
        files.read_json(tmp_path / "x.json")


def test_a_json_larger_than_any_of_ours_is_not_read(tmp_path):
    with (tmp_path / "x.json").open("wb") as file:
        file.truncate(files.LARGEST_JSON + 1)
    with pytest.raises(BrokenFile, match="it has 256 MiB, expected at most 256"):
        files.read_json(tmp_path / "x.json")


def test_a_tensor_in_the_place_of_a_group_is_one_sentence(tmp_path):
    from safetensors.torch import save_file

    leaves = {"0": torch.zeros(1), "0/payload": torch.zeros(1)}
    save_file(leaves, tmp_path / "x.safetensors", {"leakbench": "{}"})
    with pytest.raises(BrokenFile, match="named like a group"):
        files.read_tree(tmp_path / "x.safetensors")


class _Told(Shape):
    name: Name
    count: int = Field(0, ge=0, le=5)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"name": 1}, "name: input should be a valid string, got 1"),
        ({"name": "a", "count": True}, "count: input should be a valid integer, got True"),
        ({"name": "a", "count": 10**30}, "count: input should be less than or equal to 5"),
        ({"name": "a", "count": None}, "count: input should be a valid integer, got None"),
        ({}, "name: field required"),
        ([], "the whole: "),
    ],
)
def test_a_sentence_names_the_key_what_was_expected_and_what_came(tmp_path, value, said):
    check_shape(_Told, {"name": "a", "more": 1}, tmp_path / "x.json")
    with pytest.raises(BrokenFile, match=said) as raised:
        check_shape(_Told, value, tmp_path / "x.json")
    assert "\n" not in str(raised.value)


def test_the_log_spaced_rounds_are_the_same_as_ever():
    policy, stages = Policy(decade=20), {1, 10**5, 5 * 10**5}
    grid = {round(10 ** (i / 20)) for i in range(140)}
    assert {t for t in range(1, 3000) if policy.surveys(t, 10**6)} == {t for t in grid if t < 3000}
    assert all(policy.surveys(t, 10**6) for t in stages)
