"""The command line: `leakbench` and `python -m leakbench`.

Nothing heavy is imported before a command needs it.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from typing import Any

from leakbench.base import address_space, interrupts, surroundings, terminal
from leakbench.base.errors import OUR_FAULT, LeakbenchError, UsageError, circumstance
from leakbench.base.fault_log import fault_reported
from leakbench.base.raised import is_own_fault, own_imported, raised_text

INTERRUPTED = 130
# Threads that wait for others sleep, unless the user says otherwise: by spinning they would keep
# busy the cores of whatever else runs. Read when torch is loaded: by GNU's OpenMP, by LLVM's.
WAITING = {"OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
_RUNS = "Finished runs are kept, and an unfinished one up to its last checkpoint"
# What an interrupted command leaves, and what to do.
LEFT = {
    "train": f"{_RUNS}; the same command goes on from there.",
    "demo": f"{_RUNS}; the same command goes on from there.",
    "reproduce": f"{_RUNS}; the same command goes on from there.",
    "attack": "Finished attacks are kept; the same command goes on from there.",
    "score": "Finished scores are kept; the same command scores all again.",
    "report": "Files that were written are kept; the same command writes them all.",
    "check": "The baseline is whole; the same command compares again.",
    "ci": f"{_RUNS}; the same command goes on from there. The baseline is whole.",
    "export": "There is no half of an archive; the same command writes it.",
}


def main(argv: list[str] | None = None) -> None:
    """Run a command and leave with its exit code.

    An error is one sentence on stderr, never a traceback.
    """
    interrupts.listen()
    terminal.prepare()
    surroundings.forget()
    for name, value in WAITING.items():
        os.environ.setdefault(name, value)
    sys.meta_path.insert(0, address_space.Room())
    code = run(sys.argv[1:] if argv is None else argv)
    if interrupts.heard():  # what tidies up at the end was perhaps half begun
        os._exit(code)
    sys.exit(code)


def run(argv: list[str]) -> int:
    """The exit code of `leakbench ARGV`."""
    try:
        code = terminal.finish(_run(argv))
        interrupts.heed()
        interrupts.rest(signal.SIG_DFL)
        return code
    except KeyboardInterrupt:
        interrupts.rest(signal.SIG_IGN)
        came = interrupts.heard()
        by = f" by {came.name}" if came and came != signal.SIGINT else ""
        _say(f"interrupted{by}. {LEFT.get(argv[0] if argv else '', '')}".strip())
        return terminal.finish(interrupts.signal_exit_code())


def _run(argv: list[str]) -> int:
    import typer
    import typer.main

    from leakbench.cli.app import app

    # Some versions of typer bring click along, others carry it inside.
    bad_usage: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
    command = typer.main.get_command(app)
    completing = "_LEAKBENCH_COMPLETE" in os.environ  # a shell asks, not a user
    if not argv and not completing:  # nothing was asked for: the help, but not as an answer
        context = typer.Context(command, info_name="leakbench")
        terminal.say_lines(command.get_help(context))
        return UsageError.exit_code
    try:
        _readable(argv)
        result = command.main(argv, prog_name="leakbench", standalone_mode=False)
        if result == INTERRUPTED:  # typer's own way of telling
            raise KeyboardInterrupt
        return result if isinstance(result, int) else 0
    except LeakbenchError as error:
        interrupts.heed()
        _say(str(error))
        return error.exit_code
    except typer.Exit as error:
        return error.exit_code
    except bad_usage as error:
        text = error.format_message().strip()
        end = "" if text.endswith((".", "?")) else "."
        _say(f"{text[:1].lower()}{text[1:]}{end} See leakbench {_command(error)}--help.")
        return UsageError.exit_code
    except typer.Abort:
        raise KeyboardInterrupt from None
    except MemoryError:
        interrupts.heed()
        _say("memory ran out; what was finished is kept. Give it more, or take fewer runs at once.")
        return UsageError.exit_code
    except (Exception, SystemExit) as error:
        interrupts.heed()
        if isinstance(error, SystemExit) and not is_own_fault(error):
            raise  # a shell that asks for completions is answered so
        return _fault(error)


def _fault(error: BaseException) -> int:
    """The exit code of what nobody raised on purpose: of somebody's own code, the system or us."""
    if is_own_fault(error):
        _say(f"a method of your own failed: {raised_text(error)}.")
        return UsageError.exit_code
    if isinstance(error, OSError):  # a full disk, a path that is too long, no permission
        _say(circumstance(error))
        return UsageError.exit_code
    if (
        why := address_space.address_space_lacking()
    ) and "torch._C" not in sys.modules:  # half loaded
        _say(why)
        return UsageError.exit_code
    # The last line of defence: one sentence and a log.
    text = "".join(traceback.format_exception(error))
    _say(fault_reported(raised_text(error), text, own_imported()))
    return OUR_FAULT


def _readable(argv: list[str]) -> None:
    """Every word is text.

    Raises:
        UsageError: one has bytes that are no UTF-8: safetensors could never open a file below it.
    """
    for word in argv:
        if word != word.encode(errors="replace").decode():
            raise UsageError(f"{word} is not UTF-8, so files below it cannot be read. Rename it.")


def _command(error: Any) -> str:
    """The command whose help says more: "train "."""
    path = error.ctx.command_path.split()[1:] if getattr(error, "ctx", None) else []
    return " ".join([*path, ""])


def _say(text: str) -> None:
    terminal.say(f"leakbench: {text}")
