"""The command line: `leakbench` and `python -m leakbench`.

Nothing heavy is imported before a command needs it.
"""

from __future__ import annotations

import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from leakbench.base.errors import LeakbenchError
from leakbench.base.printable_text import printable

INTERRUPTED, OUR_FAULT = 130, 70


def main(argv: list[str] | None = None) -> None:
    """Run a command and leave with its exit code.

    An error is one sentence on stderr, never a traceback.
    """
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: list[str]) -> int:
    """The exit code of `leakbench ARGV`."""
    try:
        return _run(argv)
    except KeyboardInterrupt:
        _say("interrupted. What was finished is kept; the same command goes on from there.")
        return INTERRUPTED


def _run(argv: list[str]) -> int:
    import typer
    import typer.main

    from leakbench.cli.app import app

    # Some versions of typer bring click along, others carry it inside.
    bad_usage: Any = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
    command = typer.main.get_command(app)
    if not argv:  # nothing was asked for: the help, but not as an answer
        context = typer.Context(command, info_name="leakbench")
        sys.stderr.write(command.get_help(context) + "\n")
        return 2
    try:
        result = command.main(argv, prog_name="leakbench", standalone_mode=False)
        if result == INTERRUPTED:  # typer's own way of telling
            raise KeyboardInterrupt
        return result if isinstance(result, int) else 0
    except LeakbenchError as error:
        _say(str(error))
        return error.exit_code
    except typer.Exit as error:
        return error.exit_code
    except bad_usage as error:
        text = error.format_message().strip()
        end = "" if text.endswith((".", "?")) else "."
        _say(f"{text[:1].lower()}{text[1:]}{end} See leakbench {_command(error)}--help.")
        return 2
    except typer.Abort:
        raise KeyboardInterrupt from None
    except BrokenPipeError:  # `leakbench ... | head`
        return 0
    except Exception:  # the last line of defence: one sentence and a log
        log = Path(tempfile.mkstemp(prefix="leakbench-", suffix=".log")[1])
        log.write_text(traceback.format_exc(), encoding="utf-8")
        _say(f"a fault of leakbench itself; please report it with the log {log}.")
        return OUR_FAULT


def _command(error: Any) -> str:
    """The command whose help says more: "train "."""
    path = error.ctx.command_path.split()[1:] if getattr(error, "ctx", None) else []
    return " ".join([*path, ""])


def _say(text: str) -> None:
    sys.stderr.write(f"leakbench: {printable(text)}\n")
