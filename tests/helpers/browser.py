"""A real browser for the tests of the page, where there is one."""

from __future__ import annotations

import importlib.util
import shutil
from contextlib import contextmanager

import pytest

CHROMIUM = next(
    (p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome")) if p), None
)
WHY_NOT = (
    "the Python package playwright is not installed"
    if importlib.util.find_spec("playwright") is None
    else (
        "no browser: none of chromium, chromium-browser, google-chrome is here"
        if CHROMIUM is None
        else ""
    )
)
needs_browser = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


@contextmanager
def started():
    """A headless browser that reaches nothing but what a test opens."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Containers run as root and have no GPU: without these two the browser does not start
        # there.
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"]
        )
        yield browser
        browser.close()


@contextmanager
def opened(browser, path, width=1280, height=900, **context):
    """A page that fails the test on any error it reports and on any request that
    leaves the file.
    """
    own = browser.new_context(viewport={"width": width, "height": height}, **context)
    page, said, asked = own.new_page(), [], []
    page.on("console", lambda message: said.append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(path.as_uri())
    yield page
    own.close()
    assert said == []
    assert [
        url for url in asked if url.split("#")[0] != path.as_uri() and not url.startswith("data:")
    ] == []
