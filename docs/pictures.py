"""The pictures of README and of the site: the first screen of the demo's report, light and dark.

    leakbench demo -o demo
    python docs/pictures.py demo/report

Needs playwright and chromium. The demo trains on scikit-learn's digits: no photograph is in them.
"""

from __future__ import annotations

import argparse
import io
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

IMAGES = Path(__file__).parent / "images"
SCREEN = {"width": 1280, "height": 860}
NAMES = {"light": "report.png", "dark": "report-dark.png"}
COLOURS = 96  # a page of flat colours: a third of the bytes, and nothing that an eye would miss


def main() -> None:
    """Both pictures, from one report's folder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("report", type=Path, help="the demo's report folder")
    page = parser.parse_args().report.resolve() / "index.html"
    browsers = filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=next(browsers), args=["--no-sandbox"])
        for scheme, name in NAMES.items():
            seen = browser.new_page(viewport=SCREEN, color_scheme=scheme)
            seen.goto(page.as_uri())
            seen.wait_for_timeout(500)
            shot = Image.open(io.BytesIO(seen.screenshot())).convert("RGB")
            shot.quantize(COLOURS).save(IMAGES / name, optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
