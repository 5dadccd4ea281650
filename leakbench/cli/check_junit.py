"""What a check said as JUnit XML, which every CI server counts and shows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from leakbench.base.printable_text import SHOWN, printable
from leakbench.cli.check_cases import Came, CheckCase

# XML 1.0 has no way to write any other character.
_FORBIDDEN = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# "cannot tell" is an error of the test, not a finding about what it tests; and it is not green.
TAGS: dict[Came, str] = {"failed": "failure", "undecided": "error", "warned": "skipped"}


def junit(cases: Sequence[CheckCase]) -> bytes:
    """A suite with a test case for every case."""
    count = Counter(TAGS.get(c.came, "") for c in cases)
    total = {"tests": len(cases), "failures": count["failure"], "errors": count["error"]}
    counts = {k: str(v) for k, v in total.items()}
    root = Element("testsuites", {"name": "leakbench check", **counts})
    skipped = {"skipped": str(count["skipped"])}
    suite = SubElement(root, "testsuite", {"name": "leakbench", **counts, **skipped})
    for case in cases:
        # Servers take what stands before the last dot for a package.
        group = f"leakbench.{case.group}".replace(".", "·").replace("·", ".", 1)
        names = {"classname": _text(group), "name": _text(case.name)}
        node = SubElement(suite, "testcase", {**names, "time": "0"})
        if case.came in TAGS:
            said = {"message": _text(case.text)}
            # Of a skipped case the schema knows no type.
            said |= {"type": case.verdict} if case.came != "warned" else {}
            told = SubElement(node, TAGS[case.came], said)
            told.text = _text("\n".join(t for t in (case.text, case.advice) if t))
    indent(root, " ")
    return tostring(root, encoding="utf-8", xml_declaration=True) + b"\n"


def _text(text: str) -> str:
    return _FORBIDDEN.sub(SHOWN, printable(text))
