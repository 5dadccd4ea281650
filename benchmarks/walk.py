"""How many files one number passes, from the command to its sentence.

    python benchmarks/walk.py

One federation of two rounds is trained, attacked and reported. Each time a step of one number is
done (its message is written, its guess, its score, its line; it is read, pooled, judged, said,
drawn) the files of the product that are on the call stack are counted: who follows the number by
hand has to open these. Files that only define what others hand over are not among them.
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
PACKAGES = ("leakbench", "attacks", "defenses", "reports")
# Command -> the functions that do a step of a number.
STEPS = {
    "train": (
        "defenses.fedgn.proxy",
        "leakbench.record.messages.write_messages",
        "leakbench.base.files.write_csv",
    ),
    "attack": (
        "leakbench.record.messages.read_messages",
        "leakbench.attacking.view.messages",
        "attacks.prototype_leakage.run",
        "leakbench.metrics.prototypes._p_leak",
        "leakbench.attacking.guessing._save",
        "leakbench.scoring.score._measured",
        "leakbench.scoring.score._row",
        "leakbench.base.files.write_csv",
    ),
    "report": (
        "leakbench.results.units._measured",
        "leakbench.results.units.mean_of_units",
        "leakbench.results.pooling.power",
        "leakbench.judging.verdict.judge_evidence",
        "leakbench.words.verdicts.sentence",
        "leakbench.words.headlines.headline",
        "leakbench.results.cells._values",
        "leakbench.base.files.write_csv",
        "reports._page.summary.table",
    ),
}
COMMANDS = {
    "train": ["train", "-d", "fedgn", "-t", "digit-pairs", "--rounds", "2", "-q", "-o", "runs"],
    "attack": ["attack", "runs", "-a", "prototype_leakage", "-q"],
    "report": ["report", "runs", "--format", "html", "-o", "page"],
}


def followed(command: str) -> tuple[set[str], set[str]]:
    """Files on the stack at any step of a command, and the steps that were met."""
    files: set[str] = set()
    met: set[str] = set()
    wanted = {name.rpartition(".")[2] for name in STEPS[command]}

    def told(frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or frame.f_code.co_name not in wanted:
            return
        name = f"{module_of(frame.f_code)}.{frame.f_code.co_name}"
        if name in STEPS[command]:
            met.add(name)
            above: FrameType | None = frame
            while above is not None:
                if module_of(above.f_code):
                    files.add(module_of(above.f_code))
                above = above.f_back

    from leakbench.cli import main

    sys.argv = ["leakbench", *COMMANDS[command]]
    sys.setprofile(told)
    try:
        main()
    except SystemExit as ended:
        if ended.code:
            raise
    finally:
        sys.setprofile(None)
    return files, met


def module_of(code: CodeType) -> str:
    """The dotted name of a file of the product, "" of all others."""
    path = Path(code.co_filename)
    if not path.is_relative_to(ROOT) or path.relative_to(ROOT).parts[0] not in PACKAGES:
        return ""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(p for p in parts if p != "__init__")


def main() -> int:
    sys.path[:0] = [str(ROOT)]
    every: set[str] = set()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        for command, steps in STEPS.items():
            files, met = followed(command)
            if lost := set(steps) - met:
                raise SystemExit(f"{command} did not pass {', '.join(sorted(lost))}")
            every |= files
            print(f"{command:8} {len(files):3} files", file=sys.stderr)
            print(*sorted(files), sep="\n")
    print(f"in all   {len(every):3} files", file=sys.stderr)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
