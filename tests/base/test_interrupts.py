"""Ctrl-C, SIGTERM and SIGHUP: what a library makes of one is never taken for a result."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
import types
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec

import pytest
import torch

from leakbench.base import interrupts
from leakbench.base.errors import BrokenFile, MethodError, UsageError
from leakbench.base.files import read_tree, write_bytes, write_json, write_tree
from leakbench.base.jobs import Job, Outcome, do, run_jobs


@pytest.fixture
def listening():
    """As in a command; afterwards as it was."""
    before = {s: signal.getsignal(s) for s in interrupts.SIGNALS}
    hook = sys.unraisablehook
    for s in before:  # a shell's background jobs ignore some of them
        signal.signal(s, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupts.listen()
    yield
    for s, handler in before.items():
        signal.signal(s, handler)
    sys.unraisablehook = hook
    interrupts._Heard.signal = None


def hear(which=signal.SIGINT):
    """A signal that some library swallows."""
    with suppress(KeyboardInterrupt):
        os.kill(os.getpid(), which)
        time.sleep(5)  # it is handled at once


def swallowed(kind):
    """A job in which a library makes an error of its own of Ctrl-C, as torch's asarray does."""

    def work(*, progress):
        hear()
        raise kind("could not determine the shape of object type 'torch.storage.UntypedStorage'")

    return Job("reads", work, ())


@pytest.mark.parametrize("kind", [BrokenFile, UsageError, MethodError, OSError, MemoryError])
def test_an_error_made_of_an_interrupt_is_the_interrupt(listening, kind):
    with pytest.raises(KeyboardInterrupt):
        do(swallowed(kind), lambda *_: None)


def test_the_jobs_after_it_are_not_begun(listening):
    begun = []
    later = Job("later", lambda *, progress: begun.append(1), ())
    with pytest.raises(KeyboardInterrupt):
        run_jobs([swallowed(BrokenFile), later])
    assert begun == []


def test_a_job_that_lost_one_ends_at_its_next_step_and_its_value_is_none(listening):
    steps = []

    def work(*, progress):
        hear()
        progress(1, 2, "on it goes")
        steps.append(1)

    with pytest.raises(KeyboardInterrupt):
        do(Job("deaf", work, ()), lambda *_: steps.append(0))
    assert steps == []
    with pytest.raises(KeyboardInterrupt):
        do(Job("deaf", lambda *, progress: 3, ()), lambda *_: None)


def test_nothing_is_written_any_more(listening, tmp_path):
    write_json(tmp_path / "attack.json", {"status": "done"})
    hear(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt):
        write_json(tmp_path / "attack.json", {"status": "failed: ValueError: no shape"})
    assert [p.name for p in tmp_path.iterdir()] == ["attack.json"]
    assert "done" in (tmp_path / "attack.json").read_text()


def test_what_is_half_written_is_taken_away(tmp_path, monkeypatch):
    def interrupted(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_bytes(tmp_path / "a.csv", b"half a fi")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("which", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)]
)
def test_the_exit_code_is_the_shells(listening, which, code):
    hear(which)
    assert (interrupts.heard(), interrupts.signal_exit_code()) == (which, code)


def test_one_that_is_ignored_stays_ignored(listening):
    """As `nohup` has it."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    interrupts.listen()
    os.kill(os.getpid(), signal.SIGHUP)
    assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    assert interrupts.heard() is None


def test_one_that_is_raised_where_nothing_can_is_not_printed(listening, capsys):
    class Late:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)

    Late()
    assert capsys.readouterr().err == ""
    with pytest.raises(KeyboardInterrupt):
        interrupts.heed()


@contextmanager
def bombarded(seconds):
    """SIGINT every half millisecond."""
    until, stop = time.monotonic() + seconds, threading.Event()

    def send():
        while not stop.is_set() and time.monotonic() < until:
            time.sleep(0.0005)
            os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=send)
    thread.start()
    try:
        yield until
    finally:
        stop.set()
        thread.join()


def test_a_file_that_is_read_is_never_called_damaged(tmp_path):
    """Without anybody who remembers, as in a notebook: torch answers one of forty Ctrl-C inside
    ``asarray`` with a ValueError.
    """
    path = tmp_path / "a.safetensors"
    write_tree(path, {str(i): torch.ones(3) for i in range(40)}, {"round": 1})
    raised, armed = [], False

    def handler(*_):
        if armed:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handler)
    try:
        with bombarded(1.0) as until:
            while time.monotonic() < until:
                try:
                    armed = True
                    read_tree(path)
                    armed = False
                except BaseException as error:
                    armed = False
                    raised.append(type(error))
    finally:
        signal.signal(signal.SIGINT, before)
    assert set(raised) == {KeyboardInterrupt}
    assert len(raised) > 20


def test_a_refusal_of_the_system_fails_a_job_in_a_sentence():
    def work(*, progress):
        raise OSError(28, "No space left on device", "runs/x")

    assert do(Job("full", work, ()), lambda *_: None) == Outcome(
        "full",
        error="runs/x: No space left on device. Give a path that can be read and written, or make"
        " room there.",
        wrong=True,
    )


def _as_a_shell():
    """What a command that is typed begins with."""
    for s in interrupts.SIGNALS:
        signal.signal(s, signal.SIG_DFL)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("which", "code", "said"),
    [
        (signal.SIGINT, 130, "leakbench: interrupted. "),
        (signal.SIGTERM, 143, "leakbench: interrupted by SIGTERM. "),
        (signal.SIGHUP, 129, "leakbench: interrupted by SIGHUP. "),
    ],
)
def test_a_real_one_while_torch_is_imported_is_one_sentence(tmp_path, which, code, said):
    line = [sys.executable, "-m", "leakbench", "train", "-d", "fedgn", "-o", str(tmp_path)]
    # A shell's background jobs, and what they start, ignore some of them.
    process = subprocess.Popen(line, stderr=subprocess.PIPE, text=True, preexec_fn=_as_a_shell)
    time.sleep(1.0)
    process.send_signal(which)
    _, err = process.communicate(timeout=120)
    assert process.returncode == code, err
    assert err.splitlines()[-1].startswith(said)
    assert "Traceback" not in err


def test_one_that_comes_while_torch_is_imported_waits_for_the_end_of_that(listening, monkeypatch):
    # C++ that imports a module of torch answers an exception with the end of the process.
    half = types.ModuleType("torch.half_imported")
    half.__spec__ = ModuleSpec("torch.half_imported", None)
    half.__spec__._initializing = True
    monkeypatch.setitem(sys.modules, "torch.half_imported", half)
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(0.1)
    assert interrupts.heard() is signal.SIGTERM

    def imported():
        half.__spec__._initializing = False
        time.sleep(5)

    with pytest.raises(KeyboardInterrupt):
        imported()
