"""What a shell is offered after a few letters."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from leakbench.base import plugins
from leakbench.base.errors import UsageError
from leakbench.cli import completion


def offered(*words: str) -> list[str]:
    """What bash gets for the last of ``words``."""
    asked = {
        "_LEAKBENCH_COMPLETE": "complete_bash",
        "COMP_WORDS": " ".join(["leakbench", *words]),
        "COMP_CWORD": str(len(words)),
    }
    line = [sys.executable, "-c", "from leakbench.cli import main; main()"]
    done = subprocess.run(line, env={**os.environ, **asked}, capture_output=True, text=True)
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "among"),
    [
        (("tra",), ["train"]),
        (("train", "-d", "fedc"), ["fedcs", "fedcs_once"]),
        (("train", "-d", "fedgn,fedc"), ["fedgn,fedcs", "fedgn,fedcs_once"]),
        (("train", "-t", "digit"), ["digit-pairs", "digits"]),
        (("attack", "runs", "-a", "prototype_av"), ["prototype_averaging"]),
        (("train", "--plu"), ["--plugin"]),
    ],
)
def test_names_are_offered(words, among):
    assert offered(*words) == among


def test_the_lists_are_offered():
    assert completion.kinds("a") == ["attacks"]
    assert completion.completion_of("wrappers")("clip") == ["clip_noise"]


def test_nothing_is_offered_where_names_cannot_be_had(monkeypatch):
    monkeypatch.setenv(plugins.VARIABLE, "/nowhere.py")
    with pytest.raises(UsageError):
        plugins.plugin_files()
    assert completion.completion_of("attacks")("") == []
