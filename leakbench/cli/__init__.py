"""The command line: `leakbench` and `python -m leakbench`. Nothing heavy is imported before a command needs it."""

from __future__ import annotations

import sys
import tempfile
import traceback
from pathlib import Path

from leakbench.errors import LeakbenchError

INTERRUPTED, OUR_FAULT = 130, 70


def main(argv: list[str] | None = None) -> None:
    """Run a command and leave with its exit code; an error is one sentence on stderr, never a traceback."""
    sys.exit(run(sys.argv[1:] if argv is None else argv))


def run(argv: list[str]) -> int:
    """The exit code of `leakbench ARGV`."""
    import typer
    import typer.main

    from leakbench.cli.app import app

    # Some versions of typer bring click along, others carry it inside.
    bad_usage = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
    try:
        result = typer.main.get_command(app).main(argv, prog_name="leakbench", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except LeakbenchError as error:
        _say(str(error))
        return error.exit_code
    except typer.Exit as error:
        return error.exit_code
    except bad_usage as error:
        _say(error.format_message().rstrip(".") + f". See leakbench {_command(argv)}--help.")
        return 2
    except (KeyboardInterrupt, typer.Abort):
        _say("interrupted. What was finished is kept; the same command goes on from there.")
        return INTERRUPTED
    except BrokenPipeError:  # `leakbench ... | head`
        return 0
    except Exception:  # noqa: BLE001 (the last line of defence: one sentence and a log)
        log = Path(tempfile.mkstemp(prefix="leakbench-", suffix=".log")[1])
        log.write_text(traceback.format_exc(), encoding="utf-8")
        _say(f"a fault of leakbench itself; please report it with the log {log}.")
        return OUR_FAULT


def _command(argv: list[str]) -> str:
    return f"{argv[0]} " if argv and not argv[0].startswith("-") else ""


def _say(text: str) -> None:
    sys.stderr.write(f"leakbench: {text}\n")
