"""The documentation's site: it builds, no link of it is broken, and it asks nobody else for
anything.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urldefrag, urljoin

import pytest

ROOT = Path(__file__).resolve().parents[1]
HERE = "leakbench.github.io"  # the site's own address: canonical links name it

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        importlib.util.find_spec("mkdocs") is None,
        reason="no mkdocs here: uv sync --group docs installs what the site is made with",
    ),
]


def build(config: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]  # --quiet would make it blind
    return subprocess.run(
        [*command, "-f", str(config), "-d", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Built here, unless the variable says where it was built a moment ago, as `.ci/run` does."""
    if "LEAKBENCH_SITE" in os.environ:
        return Path(os.environ["LEAKBENCH_SITE"])
    folder = tmp_path_factory.mktemp("site") / "site"
    done = build(ROOT / "mkdocs.yml", folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_every_link_on_the_site_leads_to_a_file_of_it(site):
    pages = [p for p in sorted(site.rglob("*.html")) if p.name != "404.html"]
    assert len(pages) > 60  # docs/ and results/
    checked = 0
    for page in pages:
        address = "http://here/" + page.relative_to(site).as_posix()
        text = page.read_text(encoding="utf-8")
        for target in set(re.findall(r'(?:href|src)="([^"]+)"', text)):
            url, anchor = urldefrag(urljoin(address, target.replace("&amp;", "&")))
            if not url.startswith("http://here/"):
                continue
            file = site / unquote(url.removeprefix("http://here/"))
            file = file / "index.html" if file.is_dir() else file
            assert file.is_file(), f"{page.relative_to(site)}: {target}"
            if anchor and file.suffix == ".html":
                ids = re.findall(r'(?:id|name)="([^"]+)"', file.read_text(encoding="utf-8"))
                known = {*ids, "__top"}  # the theme's own: to the head of the page
                assert unquote(anchor) in known, f"{page.relative_to(site)}: {target}"
            checked += 1
    assert checked > 1000


def test_a_broken_link_stops_the_build(tmp_path):
    """What the build says of itself is worth something."""
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    start = tmp_path / "docs" / "start.md"
    start.write_text(start.read_text("utf-8") + "\n[nowhere](verdicts.md#nowhere)\n", "utf-8")
    text = (ROOT / "mkdocs.yml").read_text("utf-8")
    text = text.replace("docs_dir: docs", f"docs_dir: {tmp_path / 'docs'}")
    text = text.replace("  - docs/site/hooks.py", f"  - {ROOT / 'docs/site/hooks.py'}")
    (tmp_path / "mkdocs.yml").write_text(text.replace('paths: ["."]', f'paths: ["{ROOT}"]'))
    done = build(tmp_path / "mkdocs.yml", tmp_path / "site")
    assert done.returncode != 0
    assert "#nowhere" in done.stdout + done.stderr


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def address(site):
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


# What must be known of a number stands in the last columns: none may have to be scrolled to.
CUT = """() => [...document.querySelectorAll(".md-typeset__scrollwrap")]
  .filter(w => w.scrollWidth > w.clientWidth)
  .map(w => w.innerText.split("\\n")[0])"""


def test_a_walk_through_the_site(address):
    """The first page, a tutorial, findings, a search; on a desk and a phone."""
    names = ("chromium", "chromium-browser", "google-chrome")
    browser_path = next(filter(None, map(shutil.which, names)), None)
    if browser_path is None:
        pytest.skip("no chromium here")
    from playwright.sync_api import sync_playwright

    asked, faults = [], []
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        for width in (1280, 390):
            page = browser.new_page(viewport={"width": width, "height": 900})
            page.on("request", lambda r: asked.append(r.url))
            page.on("pageerror", lambda e: faults.append(str(e)))
            page.on("response", lambda r: faults.append(r.url) if r.status >= 400 else None)
            page.goto(address)
            assert "really leak" in page.inner_text("h1")
            assert page.locator("img:visible").first.evaluate("i => i.naturalWidth") == 1280
            page.locator("article").get_by_role("link", name="reviewing a claim").click()
            page.wait_for_url("**/tutorials/reviewing-a-claim/")
            assert page.inner_text("h1").startswith("Reviewing a claim")
            wide = page.evaluate("document.documentElement.scrollWidth")
            assert wide <= width
            page.goto(f"{address}findings/")
            assert page.locator("table").count() > 3
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            page.goto(f"{address}api/")
            assert "leakbench.api.train" in page.content()
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.on("request", lambda r: asked.append(r.url))
        for card in ("cards/", "cards/fedhide/", "cards/flea/"):
            page.goto(f"{address}{card}")
            page.locator("article .md-typeset__scrollwrap").first.wait_for()
            assert page.evaluate(CUT) == [], card
        page.goto(address)
        page.locator("input.md-search__input").click()
        page.keyboard.type("prototype_averaging")
        page.locator(".md-search-result__item a").first.wait_for()
        browser.close()
    assert faults == []
    assert [u for u in asked if not u.startswith((address, "data:", "blob:"))] == []
