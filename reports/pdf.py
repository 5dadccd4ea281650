"""Two pages for people who will not open HTML, printed by the browser that is there."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from leakbench.base import UsageError, write_bytes
from leakbench.reporting import Report, ReportData
from reports.html import brief

BROWSERS = (
    *("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome"),
    *("msedge", "microsoft-edge", "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"),
)
PATIENCE = 120  # seconds
PAGES = 2
PAGE = re.compile(rb"/Type\s*/Page\b")
# Lines of a list, until the pages do; beyond the last of these it takes more pages.
ROOM = (None, 24, 12, 6, 3, 1)
FLAGS = ("--headless", "--disable-gpu", "--no-sandbox", "--no-pdf-header-footer")


class Pdf(Report):
    """`report.pdf`: the verdict, the chart, the list, and what stronger attackers gain.

    Lists are as long as two pages allow, and say how much they leave out.
    """

    def write(self, data: ReportData, out: Path) -> list[Path]:
        """Write report.pdf below ``out``.

        Raises:
            UsageError: no browser is here, it printed nothing, or the folder cannot be written.
        """
        browser = next(filter(None, map(shutil.which, BROWSERS)), None)
        if browser is None:
            raise UsageError(
                "the format pdf needs a browser that prints (chromium, google-chrome, msedge), and"
                " none is on the path. Install one, or print index.html from yours."
            )
        for most in ROOM:
            content = _printed(browser, brief(data, most))
            if len(PAGE.findall(content)) <= PAGES:
                break
        write_bytes(out / "report.pdf", content)
        return [out / "report.pdf"]


def _printed(browser: str, text: str) -> bytes:
    """A page as a PDF.

    Raises:
        UsageError: the browser printed nothing.
    """
    with tempfile.TemporaryDirectory() as folder:
        page, printed = Path(folder) / "brief.html", Path(folder) / "report.pdf"
        page.write_text(text, encoding="utf-8")
        own = f"--user-data-dir={folder}/browser"
        line = [browser, *FLAGS, own, f"--print-to-pdf={printed}", page.as_uri()]
        try:
            subprocess.run(line, capture_output=True, check=False, timeout=PATIENCE)  # noqa: S603
        except (OSError, subprocess.TimeoutExpired) as error:
            raise UsageError(f"{browser} did not print: {error}. Print index.html.") from None
        if not printed.is_file():
            raise UsageError(f"{browser} printed nothing. Print index.html from it by hand.")
        return printed.read_bytes()
