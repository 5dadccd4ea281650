"""One writer at a time in a run folder; who is refused is told by whom."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from leakbench.base import locks
from leakbench.base.errors import UsageError
from leakbench.base.files import digests

HOLD = """
import sys, time
from pathlib import Path
from leakbench.base import locks
with locks.{kind}(Path(sys.argv[1]){more}):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture(autouse=True)
def shortly(monkeypatch):
    monkeypatch.setattr(locks, "WAIT", 0.1)


def elsewhere(run, kind="attacking", more=', "a-1"'):
    """A process that holds a lock, as soon as it does."""
    line = [sys.executable, "-c", HOLD.format(kind=kind, more=more), str(run)]
    process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def test_who_holds_it_is_said_and_a_killed_process_holds_nothing(tmp_path):
    process = elsewhere(tmp_path)
    try:
        told = (
            rf"{tmp_path}/attacks/a-1 is being made by process {process.pid}: wait until it has"
            r" ended, or end it, and give the same command again; it goes on from what is there\."
        )
        with pytest.raises(UsageError, match=told), locks.attacking(tmp_path, "a-1"):
            pytest.fail("two at once")
        told = rf"is being attacked \(a-1\) by process {process.pid}"
        with pytest.raises(UsageError, match=told), locks.training_lock(tmp_path):
            pytest.fail("trained while it is attacked")
        with locks.attacking(tmp_path, "b-1"):
            pass  # another attack goes beside
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()
    with locks.attacking(tmp_path, "a-1"), locks.attacking(tmp_path, "b-1"):
        pass
    with locks.training_lock(tmp_path):
        pass


def test_a_run_that_is_trained_is_not_attacked_and_not_trained_twice(tmp_path):
    process = elsewhere(tmp_path, "training_lock", "")
    try:
        for writer in (locks.training_lock(tmp_path), locks.attacking(tmp_path, "a-1")):
            with (
                pytest.raises(UsageError, match=rf"being trained by process {process.pid}"),
                writer,
            ):
                pytest.fail("two at once")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def test_who_comes_when_the_other_is_about_to_end_waits(tmp_path, monkeypatch):
    monkeypatch.setattr(locks, "WAIT", 20.0)
    script = HOLD.replace("time.sleep(60)", "time.sleep(0.3)")
    script = script.format(kind="attacking", more=', "a-1"')
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "held\n"
    begun = time.monotonic()
    with locks.attacking(tmp_path, "a-1"):
        assert time.monotonic() - begun < 15
    process.wait()
    process.stdout.close()


def test_locks_are_hidden_no_part_of_the_folder_and_gone_when_nobody_writes(tmp_path):
    (tmp_path / "x.csv").write_text("x\n")
    with locks.attacking(tmp_path, "a-1"):
        assert set(digests(tmp_path)) == {"x.csv"}
        assert [p.name for p in (tmp_path / "attacks").iterdir()] == [".a-1.lock"]
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["attacks", "x.csv"]


def test_many_that_wait_for_each_other_are_never_two_at_once(tmp_path, monkeypatch):
    """A lock file that is deleted is not another lock for who has it open still."""
    monkeypatch.setattr(locks, "WAIT", 60.0)
    inside, most = [], []

    def write(i):
        for _ in range(10):
            with locks.attacking(tmp_path, "a-1"):
                inside.append(i)
                most.append(len(inside))
                time.sleep(0.001)
                inside.pop()

    writers = [threading.Thread(target=write, args=(i,)) for i in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert (len(most), max(most)) == (40, 1)


def test_a_link_in_place_of_a_lock_leads_nowhere(tmp_path):
    """A run folder may come from a stranger."""
    mine = tmp_path / "mine.txt"
    mine.write_text("dear diary\n")
    run = tmp_path / "run"
    run.mkdir()
    (run / ".lock").symlink_to(mine)
    with pytest.raises(UsageError, match="could spoil each other"), locks.training_lock(run):
        pytest.fail("locked through a link")
    assert mine.read_text() == "dear diary\n"


def test_where_nothing_can_be_written_what_is_there_can_be_read(tmp_path, monkeypatch):
    def refused(self, *args, **kept):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(locks.FileLock, "acquire", refused)
    entered = []
    with locks.attacking(Path(tmp_path), "a-1"):
        entered.append(True)
    assert entered
