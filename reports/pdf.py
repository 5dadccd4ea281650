"""Two pages for people who will not open HTML, printed by the browser that is there."""

from __future__ import annotations

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
FLAGS = ("--headless", "--disable-gpu", "--no-sandbox", "--no-pdf-header-footer")


class Pdf(Report):
    """`report.pdf`: the verdict, the chart, the list, and what stronger attackers gain."""

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
        with tempfile.TemporaryDirectory() as folder:
            page, printed = Path(folder) / "brief.html", Path(folder) / "report.pdf"
            page.write_text(brief(data), encoding="utf-8")
            own = f"--user-data-dir={folder}/browser"
            line = [browser, *FLAGS, own, f"--print-to-pdf={printed}", page.as_uri()]
            try:
                subprocess.run(line, capture_output=True, check=False, timeout=PATIENCE)  # noqa: S603
            except (OSError, subprocess.TimeoutExpired) as error:
                raise UsageError(f"{browser} did not print: {error}. Print index.html.") from None
            if not printed.is_file():
                raise UsageError(f"{browser} printed nothing. Print index.html from it by hand.")
            write_bytes(out / "report.pdf", printed.read_bytes())
        return [out / "report.pdf"]
