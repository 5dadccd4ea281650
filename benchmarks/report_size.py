"""How long a report of many runs takes, how much memory it needs, how large its page is; and what
takes the time.

    python benchmarks/report_size.py [--runs 100] [--attacks 10] [--formats html,csv,json,figures]
    [--keep DIR] [--profile]

The bounds are 60 s, 2 GiB and 15 MB for 100 runs x 10 attacks on two cores. Run folders are made by
the tests' own writers.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECONDS, GIB, MEGABYTES = 60, 2, 15

REPORT = """
import json, sys, time
sys.path.insert(0, {root!r})
begun = time.monotonic()
from leakbench import api
from leakbench.record.folders import find
{before}
api.report(find([{runs!r}]), {out!r}, formats={formats!r}, **{more!r})
{after}
status = dict(line.split(":", 1) for line in open("/proc/self/status") if ":" in line)
kib = int(status["VmHWM"].split()[0])
print(json.dumps({{"seconds": time.monotonic() - begun, "cpu": time.process_time(), "kib": kib}}))
"""
BEFORE = "import cProfile; profile = cProfile.Profile(); profile.enable()"
AFTER = """profile.disable()
import pstats; pstats.Stats(profile, stream=sys.stderr).sort_stats("cumulative").print_stats(60)"""


def measure(
    runs: Path, out: Path, formats: list[str], *, profile: bool = False, **more: object
) -> dict[str, float]:
    """Seconds (on the clock, and on a core) and peak memory of a report made in a process of its
    own.
    """
    around = (BEFORE, AFTER) if profile else ("", "")
    code = REPORT.format(
        root=str(ROOT),
        runs=str(runs),
        out=str(out),
        formats=formats,
        more=more,
        before=around[0],
        after=around[1],
    )
    done = subprocess.run(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    return {"seconds": found["seconds"], "cpu": found["cpu"], "gib": found["kib"] / 1024**2}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--attacks", type=int, default=10)
    parser.add_argument("--formats", default="html,csv,json,figures")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--profile", action="store_true")
    given = parser.parse_args()
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    from helpers.many_runs import many

    with tempfile.TemporaryDirectory() as folder:
        place = given.keep or Path(folder)
        begun = time.monotonic()
        made = 0
        if not (place / "runs").is_dir():
            made = sum(
                1 for _ in many(place / "runs", given.runs, given.attacks, min(3, given.attacks))
            )
        print(f"{made} runs of {given.attacks} attacks made in {time.monotonic() - begun:.0f} s")
        spent = measure(
            place / "runs", place / "report", given.formats.split(","), profile=given.profile
        )
        sizes = {
            p.relative_to(place / "report").as_posix(): p.stat().st_size / 1e6
            for p in (place / "report").rglob("*")
            if p.is_file()
        }
    page = sizes.get("index.html", 0.0)
    print(f"{spent['seconds']:.1f} s of {SECONDS} ({spent['cpu']:.1f} s on a core)", end=", ")
    print(f"{spent['gib']:.2f} GiB of {GIB}, page {page:.2f} MB of {MEGABYTES}")
    print(
        ", ".join(f"{n} {s:.2f} MB" for n, s in sorted(sizes.items(), key=lambda x: -x[1])[:8]),
        f"; {sum(sizes.values()):.1f} MB in all",
    )
    return int(spent["seconds"] > SECONDS or spent["gib"] > GIB or page > MEGABYTES)


if __name__ == "__main__":
    sys.exit(main())
