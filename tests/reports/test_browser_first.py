"""What a reader meets on opening the page: how much it is, that its counts agree, that the list
follows the attacker, and that closed sections open where they should. Skipped without a browser.
"""

from __future__ import annotations

import re

import pytest
from helpers.browser import needs_browser, opened, started
from helpers.report_data import built, report_data, row, setting

from reports.html import Html

pytestmark = [needs_browser, pytest.mark.slow]
WORDS, PIXELS = 1200, 4000  # of the demo's page when it is first opened


def forty():
    """Forty settings of four families."""
    rows = []
    for i in range(40):
        base = setting(("fedgn", "fedcs", "fedhide", "fedmetric")[i % 4], {"sigma": 0.1 + i})
        for attack, rung in (("own", "paper"), ("unmix", "method"), ("any_attack", "method")):
            value = 0.1 + i / 100 if rung == "paper" else 0.5 + i / 100
            rows.append(row(base, 0.5 + i / 100, attack, rung, "p_leak", value))
    return built(rows)


def alone():
    """One setting, attacked once."""
    base = setting("fedgn", {"sigma": 0.1})
    attacks = (("own", "paper", 0.2), ("unmix", "method", 0.9), ("any_attack", "method", 0.9))
    rows = [row(base, 0.8, a, rung, "p_leak", value, floor=0.15) for a, rung, value in attacks]
    return built(rows)


@pytest.fixture(scope="module")
def browser():
    with started() as found:
        yield found


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    made = {
        "full": report_data(),
        "forty": forty(),
        "one": alone(),
        "none": report_data(numbers=(), check=None),
        "redacted": report_data(redacted=True),
    }
    return {k: Html().write(data, tmp_path_factory.mktemp(k))[0] for k, data in made.items()}


@pytest.fixture
def page(browser, paths):
    with opened(browser, paths["full"], reduced_motion="reduce") as found:
        yield found


@pytest.mark.parametrize("name", ["full", "forty", "one", "none", "redacted"])
def test_a_page_opens_short(browser, paths, name):
    with opened(browser, paths[name]) as page:
        words = page.evaluate("document.body.innerText.split(/\\s+/).filter(Boolean).length")
        assert 50 < words <= WORDS
        assert page.evaluate("document.documentElement.scrollHeight") <= PIXELS


@pytest.mark.parametrize("name", ["full", "forty", "one"])
def test_the_verdict_comes_at_once_on_a_desk_and_on_a_phone(browser, paths, name):
    with opened(browser, paths[name]) as page:
        assert page.locator(".top").bounding_box()["height"] < 60  # one row
    with opened(browser, paths[name], 390, 844) as page:
        assert page.locator(".intro:visible h1").bounding_box()["y"] < 160
        assert page.evaluate("document.documentElement.scrollWidth") == 390


def test_the_ends_of_a_ladder_in_the_charts_place_do_not_overlap(browser, paths):
    for width in (1280, 1000, 390):
        with opened(browser, paths["one"], width) as page:
            ends = page.locator(".trade svg.ends text").all()
            boxes = sorted((e.bounding_box() for e in ends), key=lambda box: box["x"])
            assert len(boxes) == 2
            assert boxes[0]["x"] + boxes[0]["width"] < boxes[1]["x"], width


def test_accusations_are_seen_before_anything_is_opened(page):
    seen = page.evaluate("document.body.innerText")
    for words in (
        "4 of 8 defense settings leak",
        "1 dead, 1 not attacked",
        "Check failed (exit 1)",
        "images, on probes: ",  # what the question that is not chosen found
        "Dead run",
        "Failures.",
        "Few units.",
        "Oracle knowledge.",
        "Not tried:",
    ):
        assert words in seen, words


def test_headline_bar_and_list_count_alike(page):
    headline = page.locator(".intro:visible h1").inner_text()
    assert headline.startswith("4 of 8 defense settings leak")
    bar = page.locator(".intro:visible .vbar li").all_inner_texts()
    assert bar[0].strip().startswith("4 and the reference leak:")
    heads = page.locator("#q0 .list > section > h3").all_inner_texts()
    assert heads[0].split()[:4] == ["Leaks", "4", "and", "the"]
    told = sum(int(re.match(r"\s*(\d+)", text)[1]) for text in bar)
    references = sum("reference" in text for text in bar)
    rows = page.locator("#q0 .list a.row").count()
    assert told + references == rows


def lines(page, group):
    """(name, number) of a verdict's settings, from the top."""
    rows = page.locator(f"#q0 .list > section.{group} a.row").all()
    return [(r.locator(".nm").inner_text(), r.locator(".v").inner_text()) for r in rows]


def test_the_switch_moves_the_list_and_leaves_the_verdicts(page):
    worst = lines(page, "leak")
    values = [float(v) for _, v in worst]
    assert values == sorted(values, reverse=True)
    dots = page.locator("#q0 .list section.leak .d:not(.paper)")
    places = dots.evaluate_all("found => found.map(d => d.getAttribute('cx'))")
    page.check("input[name=attacker][value=paper]", force=True)
    assert page.locator("#q0 .list .by").inner_text() == "the paper's own"
    paper = lines(page, "leak")
    assert paper != worst
    assert sorted(n for n, _ in paper) == sorted(n for n, _ in worst)  # nobody is acquitted
    values = [float(v) for _, v in paper]
    assert values == sorted(values, reverse=True)
    assert min(values) < min(float(v) for _, v in worst)
    assert dots.evaluate_all("found => found.map(d => d.getAttribute('cx'))") != places
    page.check("input[name=attacker][value=any_attack]", force=True)
    assert lines(page, "leak") == worst
    assert dots.evaluate_all("found => found.map(d => d.getAttribute('cx'))") == places


OVERLAPS = """() => {
  const boxes = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    const words = node.textContent.trim(), parent = node.parentElement;
    if (!words || parent.closest("script, style, title, .skip, #theme")) continue;
    if (!parent.checkVisibility()) continue;
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const r of range.getClientRects()) {
      if (r.width < 1 || r.height < 1) continue;
      // The letters, not the line's own height.
      const cut = r.height * 0.22;
      boxes.push({ words, left: r.left, right: r.right, top: r.top + cut, bottom: r.bottom - cut });
    }
  }
  // A button that floats covers what is below all of it.
  const switched = document.querySelector("#theme").getBoundingClientRect();
  const { left, right, top, bottom } = switched;
  boxes.push({ words: "the switch of light and dark", left, right, top, bottom });
  const found = [];
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => {
    if (a.words === b.words) return;
    const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
    const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
    if (across > 1.5 && down > 1) found.push([a.words, b.words]);
  }));
  return found;
}"""


@pytest.mark.parametrize("width", [320, 390, 500])
@pytest.mark.parametrize("name", ["full", "forty", "one", "none"])
def test_no_two_texts_overlap_on_a_phone(browser, paths, name, width):
    with opened(browser, paths[name], width=width) as page:
        assert page.evaluate(OVERLAPS) == []


@pytest.mark.parametrize("section", ["table", "methods", "pictures", "rounds", "maps", "again"])
def test_the_menu_opens_the_section_it_leads_to(page, section):
    fold = page.locator(f"#{section} > details")
    assert fold.get_attribute("open") is None
    page.click(f'nav a[href="#{section}"]')
    assert fold.get_attribute("open") is not None
    fold.locator("summary").first.click()
    page.click(f'nav a[href="#{section}"]')  # the same link again
    assert fold.get_attribute("open") is not None


def test_a_closed_section_is_worked_by_key(page):
    page.locator("#table > details > summary").focus()
    page.keyboard.press("Enter")
    assert page.locator("#table .sheet").first.is_visible()


@pytest.mark.parametrize("script", [True, False])
def test_paper_shows_what_is_closed(browser, paths, script):
    with opened(browser, paths["full"], java_script_enabled=script) as page:
        page.emulate_media(media="print")
        if script:
            page.evaluate("dispatchEvent(new Event('beforeprint'))")
        for part in ("#table .sheet", "#methods .card", "#rounds .panels", "#sure .rest ul"):
            found = page.locator(part).first
            assert found.evaluate("e => e.checkVisibility({ contentVisibilityAuto: true })"), part
        if script:
            page.evaluate("dispatchEvent(new Event('afterprint'))")
            assert page.locator("details.fold[open]").count() == 0


def test_without_script_sections_open_all_the_same(browser, paths):
    with opened(browser, paths["full"], java_script_enabled=False) as page:
        page.locator("#rounds > details > summary").click()
        assert page.locator("#rounds svg.lines").first.is_visible()
