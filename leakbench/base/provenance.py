"""Where a number comes from: versions, commit, whether the code was changed, device."""

from __future__ import annotations

import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from leakbench.base.errors import UsageError
from leakbench.base.version import __version__

# Of a checkout. What else lies there makes no number: a table that is written beside the code does
# not change the code of the next one.
_CODE = ("leakbench", "attacks", "defenses", "reports", "benchmarks", "pyproject.toml")
DIRTY = "-dirty"  # how a commit ends whose code was changed and not committed
_PACKAGES = ("torch", "torchvision", "numpy", "breaching", "dcor", "lpips", "scikit-learn")


@cache
def versions() -> dict[str, str]:
    """{"leakbench": ..., "python": ..., and the packages that numbers depend on}."""
    ours = {"leakbench": __version__, "python": platform.python_version()}
    return {**ours, **{p: version(p) for p in _PACKAGES}}


@cache
def source() -> tuple[str, bool]:
    """(commit, dirty) of the checkout that leakbench runs from; ("", False) without one.

    Dirty: a file of its code is not as it was committed, or is in no commit; or git cannot tell.
    """
    root = Path(__file__).resolve().parents[2]
    if not (root / ".git").exists():
        return "", False
    changes = _asked(root, "status", "--porcelain", "--untracked-files=all", "--", *_CODE)
    return _git(root, "rev-parse", "HEAD"), changes != ""


def commit() -> str:
    """The commit as a table names it, with ``DIRTY`` behind it where the code is not it."""
    found, dirty = source()
    return f"{found or 'unknown'}{DIRTY * dirty}"


def committed(folder: Path) -> bool:
    """Does git track something of it? False where there is no git, and no checkout."""
    return bool(_git(folder.absolute().parent, "ls-files", "--", folder.name))


@cache
def day_of(commit: str) -> str:
    """The day of a commit of leakbench, as 2026-11-26; "" where its history is not there."""
    root = Path(__file__).resolve().parents[2]
    clean = commit.partition("-")[0]  # of what was changed and not committed, its base
    if not (root / ".git").exists() or not clean.isalnum():
        return ""
    return _git(root, "show", "--no-patch", "--format=%cs", clean)


def _git(root: Path, *args: str) -> str:
    """What it prints in ``root``; nothing where it fails or is not installed."""
    return _asked(root, *args) or ""


def _asked(root: Path, *args: str) -> str | None:
    """The same; None where it fails or is not installed."""
    line = ["git", "-C", str(root), *args]
    try:
        done = subprocess.run(line, capture_output=True, text=True, check=False)  # noqa: S603
    except OSError:
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def provenance(device: str, dtype: str) -> dict[str, Any]:
    """What stands in run.json and attack.json."""
    commit, dirty = source()
    code = {"versions": versions(), "commit": commit, "dirty": dirty}
    return {**code, "device": device, "dtype": dtype}


def known_device(device: str) -> None:
    """Is there such a --device? Asked before torch is loaded.

    Raises:
        UsageError: the name is unknown.
    """
    if device not in ("auto", "cpu", "cuda"):
        raise UsageError(f"device {device!r} is not known. Use auto, cpu or cuda.")


def device(wanted: str) -> str:
    """The torch device for --device auto, cpu or cuda.

    Raises:
        UsageError: cuda was asked for and there is none, or the name is unknown.
    """
    known_device(wanted)
    import torch

    there = torch.cuda.is_available()
    if wanted == "cuda" and not there:
        raise UsageError(
            "device cuda was asked for, but torch sees no GPU. Use --device auto or cpu, or see"
            " `leakbench doctor`."
        )
    return "cuda" if there and wanted != "cpu" else "cpu"


def device_name(name: str) -> str:
    """The device as run.json names it: cpu, or cuda (NVIDIA H200)."""
    import torch

    return f"cuda ({torch.cuda.get_device_name()})" if name == "cuda" else name
