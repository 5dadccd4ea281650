"""What a check said as SARIF 2.1.0: a result for all that is not fine, at the baseline's file."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

from leakbench.base.files import pack_json
from leakbench.base.printable_text import printable, printable_json
from leakbench.base.version import __version__
from leakbench.cli.check_cases import LEVELS, CheckCase

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
# verdict: (id, what the rule asks)
RULES = {
    "leaks more": ("leaks-more", "A row leaks more than the baseline, by more than its margin."),
    "loses utility": ("loses-utility", "A setting lost utility against the baseline."),
    "breached": ("limit-breached", "A number is beyond its limit."),
    "cannot tell": ("cannot-tell", "The runs do not tell whether it leaks more."),
    "new": ("new-row", "A row is not in the baseline, so nothing holds it."),
    "unfinished": ("run-unfinished", "A run failed or is not finished, so it has no rows."),
}


def sarif(cases: Sequence[CheckCase], baseline: str, code: int) -> bytes:
    """One run of one tool.

    Args:
        cases: of the check; what passed gives no result.
        baseline: the path of the file that was compared with; "" where there is none.
        code: the exit code.
    """
    found = [c for c in cases if c.came in LEVELS]
    rules = list(dict.fromkeys(c.verdict for c in found))
    place = {"artifactLocation": {"uri": _uri(baseline)}, "region": {"startLine": 1}}
    where = {"physicalLocation": place}
    driver = {"name": "leakbench", "version": __version__, "rules": [_rule(v) for v in rules]}
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True, "exitCode": code}],
        "results": [_result(c, rules.index(c.verdict), where) for c in found],
        "columnKind": "unicodeCodePoints",
    }
    return pack_json(printable_json({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}))


def _rule(verdict: str) -> dict[str, Any]:
    name, text = RULES[verdict]
    return {"id": name, "name": name.title().replace("-", ""), "shortDescription": {"text": text}}


def _result(case: CheckCase, rule: int, where: Any) -> dict[str, Any]:
    text = ". ".join(t for t in (case.text, case.advice) if t)
    # By it a server knows the result again in the next run.
    same = hashlib.sha256(f"{case.group}\n{printable(case.name)}".encode()).hexdigest()
    return {
        "ruleId": RULES[case.verdict][0],
        "ruleIndex": rule,
        "level": LEVELS[case.came],
        # A link may stand in a message, and none of ours does.
        "message": {"text": text.replace("](", "] (")},
        "locations": [where],
        "partialFingerprints": {"leakbench/v1": same},
    }


def _uri(baseline: str) -> str:
    """Relative to the folder in which the command runs; of a file elsewhere its name alone."""
    path = Path(baseline or "leakage.json")
    if path.is_absolute():
        here = Path.cwd()
        path = path.relative_to(here) if path.is_relative_to(here) else Path(path.name)
    return quote(path.as_posix())
