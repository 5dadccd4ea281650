"""The page in a real browser: what its switches, filters, hover, zoom, keyboard and drawer do.
Skipped where there is none.
"""

from __future__ import annotations

import re

import pytest
from helpers.browser import needs_browser, opened, started
from helpers.report_data import again, built, report_data, row, setting

from reports.html import Html

pytestmark = [needs_browser, pytest.mark.slow]
WIDE = "#q0 svg.wide"
GENEROUS = 250  # ms; 50 are meant, but nothing is timed tightly where other tests run


def two_tasks():
    """The made-up report, and a second task with four settings of two families."""
    data = report_data()
    bases = [
        setting(d, p, task="digits")
        for d, p in (
            ("fedgn", {"sigma": 0.1}),
            ("fedgn", {"sigma": 0.2}),
            ("fedcs", {"cos_theta": 0.3}),
        )
    ]
    more = [
        row(b, 0.8 - 0.1 * i, attack, rung, "p_leak", value)
        for i, b in enumerate(bases)
        for attack, rung, value in (
            ("own", "paper", 0.2),
            ("unmix", "method", 0.9),
            ("cascade", "method", 0.9),
            ("any_attack", "method", 0.95),
        )
    ]
    # Nobody read the record of the other two.
    more.append(row(bases[0], 0.8, "average", "transcript", "p_leak", 0.5))
    more += [again(n, stage="early", value=0.5, low=0.4, high=0.6) for n in more]
    return report_data(numbers=[*(n for s in data.settings for n in s.numbers), *more])


def nothing():
    return built()


def bare():
    """Attacked, but nobody measured what the settings are good for: no chart."""
    attacks = (("own", "paper"), ("any_attack", "paper"))
    rows = [
        row(setting("fedgn", {"sigma": 0.1}), 0.9, attack, rung, "p_leak", 0.9, utility_metric="")
        for attack, rung in attacks
    ]
    return built(rows)


def hundred():
    bases = [setting("fedhide", {"alpha": round(0.01 * i, 2), "k": 3}) for i in range(100)]
    rows = [
        row(b, 0.5 + i / 250, attack, rung, "p_leak", (0.1 if rung == "paper" else 0.5) + i / 250)
        for i, b in enumerate(bases)
        for attack, rung in (
            ("own", "paper"),
            ("average", "transcript"),
            ("unmix", "method"),
            ("regress", "public"),
            ("cascade", "public"),
            ("any_attack", "public"),
        )
    ]
    return built(rows)


@pytest.fixture(scope="module")
def browser():
    with started() as found:
        yield found


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    made = {"two": two_tasks(), "hundred": hundred()}
    return {
        name: Html().write(data, tmp_path_factory.mktemp(name))[0] for name, data in made.items()
    }


@pytest.fixture
def page(browser, paths):
    with opened(browser, paths["two"], reduced_motion="reduce") as found:
        yield found


def choose(page, name, value):
    page.check(f'input[name="{name}"][value="{value}"]', force=True)


def open_chart(page):
    """Where all leak it is closed, below the ladder."""
    page.locator(".view:visible summary", has_text="The same as a chart").click()


def place(page, setting_, svg=WIDE):
    """Where a setting's point is drawn: (x, y) in pixels of the drawing."""
    style = page.locator(f'{svg} .pt[data-id="{number(page, setting_)}"]').get_attribute("style")
    return tuple(float(v) for v in re.findall(r"-?[\d.]+(?=px)", style))


def number(page, name, question="q0"):
    return page.evaluate(
        """([q, name]) => {
            const data = JSON.parse(document.querySelector("#charts").textContent);
            return Object.entries(data.charts[q].settings).find(([, s]) => s.name === name)[0];
        }""",
        [question, name],
    )


def point(page, name, svg=WIDE):
    return page.locator(f'{svg} .pt[data-id="{number(page, name)}"]')


def sideways(page):
    return page.evaluate(
        "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    )


def test_attacker_moves_points_along_their_axis_and_leaves_their_colour(page):
    name = "FedHide α 0.01, K 3"
    right, height = place(page, name)
    colour = point(page, name).locator(".mk").get_attribute("class")
    steps = page.locator(f"{WIDE} .front.now").get_attribute("d")
    choose(page, "attacker", "paper")
    left, same = place(page, name)
    # 0.10 by the paper's own attack.
    assert (left, same) == pytest.approx((52 + 0.1 * 586, height), abs=0.2)
    assert left < right - 100
    assert point(page, name).locator(".mk").get_attribute("class") == colour
    assert page.locator(f"{WIDE} .front.now").get_attribute("d") != steps
    assert page.locator("#who").inner_text() == "The paper's own."
    assert "only looks harmless" in page.locator("#knows").inner_text()
    assert page.locator(".say[aria-live=polite] #knows").count() == 1
    assert (
        point(page, name)
        .get_attribute("aria-label")
        .endswith("The paper's own: 0.10 (0.06 to 0.14).")
    )
    choose(page, "attacker", "any_attack")
    assert place(page, name) == (right, height)
    assert page.locator(f"{WIDE} .front.now").get_attribute("d") == steps


def test_what_the_script_draws_is_what_python_drew(browser, paths):
    with (
        opened(browser, paths["two"], java_script_enabled=False) as still,
        opened(browser, paths["two"], reduced_motion="reduce") as alive,
    ):
        for svg in (WIDE, "#q0 svg.narrow"):
            for part in (".front.now", ".front.claimed", ".lost", ".go .arrow", ".go .across"):
                one, two = (
                    p.locator(f"{svg} {part}").evaluate_all(
                        "found => found.map(e => e.getAttribute('d').match(/-?[\\d.]+/g) || [])"
                    )
                    for p in (still, alive)
                )
                assert [len(a) > 0 for a in one] == [len(a) > 0 for a in two]
                if part in (".front.now", ".front.claimed", ".go .arrow"):
                    for a, b in zip(one, two, strict=True):
                        assert [float(v) for v in a] == pytest.approx(
                            [float(v) for v in b], abs=0.21
                        )
            for attribute in ("x", "y"):
                one, two = (
                    p.locator(f"{svg} .lab").evaluate_all(
                        f"found => found.map(e => +e.getAttribute('{attribute}'))"
                    )
                    for p in (still, alive)
                )
                assert one == pytest.approx(two, abs=0.16)


def test_task_and_question_are_switched_one_at_a_time(page):
    assert page.locator(".view:visible").count() == page.locator(".intro:visible").count() == 1
    assert "4 of 8 defense settings leak" in page.locator(".intro:visible").inner_text()
    choose(page, "question-q0", "q1")
    assert "images, on probes" in page.locator(".intro:visible").inner_text()
    assert page.locator(
        'input[value="paper"]'
    ).is_disabled()  # nobody's own attack rebuilds images here
    choose(page, "task", "q2")
    assert "All 3 defense settings leak" in page.locator(".intro:visible").inner_text()
    open_chart(page)
    assert page.locator(".view:visible svg.wide .pt:visible").count() == 3
    assert page.locator("section.ci:visible").count() == 1  # what the check said stays
    order = [
        page.locator(part).bounding_box()["y"]
        for part in (".intro:visible", "section.ci", "#controls", ".view:visible")
    ]
    assert order == sorted(order)
    choose(page, "attacker", "method")
    # Where the question left open has no such attack, the worst case stands in.
    choose(page, "task", "q0")
    assert "images, on probes" in page.locator(".intro:visible").inner_text()
    assert page.locator("#who").inner_text() == "Knows the method."


def test_who_was_not_attacked_like_this_stays_faint_at_its_worst_case(page):
    choose(page, "task", "q2")
    places = "found => found.map(p => [p.style.transform, p.classList.contains('faint')])"
    points = page.locator("#q2 svg.wide .pt")
    worst = points.evaluate_all(places)
    choose(page, "attacker", "transcript")
    now = points.evaluate_all(places)
    assert [faint for _, faint in now].count(True) == 2
    assert [new == old for (new, _), (old, _) in zip(now, worst, strict=True)] == [
        faint for _, faint in now
    ]
    assert (
        page.locator("#absent").inner_text()
        == "2 settings of 3 have no such attack that counts and stand faint at their worst case."
    )
    open_chart(page)
    faint = page.locator("#q2 svg.wide .pt.faint").first
    assert "Not attacked like this (reads the record); at worst: 0.95" in faint.get_attribute(
        "aria-label"
    )
    faint.hover()
    assert "no such attack that counts" in page.locator("#tip").inner_text()


def test_hostile_names_stay_text(browser, tmp_path):
    evil = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'"
    base = setting(evil, {"alpha": evil}, task=evil)
    other = setting("fedgn", {"sigma": 0.1})
    attacks = (
        ("own", "paper", 0.2),
        (evil, "method", 0.9),
        ("cascade", "method", 0.9),
        ("any_attack", "method", 0.95),
    )
    rows = [
        row(b, 0.8, attack, rung, "p_leak", value, flags=evil)
        for b in (base, other)
        for attack, rung, value in attacks
    ]
    with opened(
        browser, Html().write(built(rows, title=evil), tmp_path)[0], reduced_motion="reduce"
    ) as page:
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        assert page.locator(".intro:visible .kicker").inner_text().startswith(evil)
        choose(page, "attacker", "method")
        open_chart(page)
        found = page.locator(".view:visible svg.wide .pt")
        found.hover()
        assert page.locator("#tip b").inner_text().startswith("<img src=x")
        assert evil in page.locator("#tip").inner_text()
        page.locator(".view:visible .chips button").click()
        assert found.count() == 1
        assert not found.is_visible()
        page.locator(".view:visible .chips button").click()
        found.click()
        assert page.locator("#drawer-title").inner_text().startswith("<img src=x")
        assert page.locator("img, script:not([type]) ~ script, [onerror]").count() == 0


def test_stages_before_the_end_are_closed_under_the_rounds(page):
    fold = page.locator("#rounds details.early")
    assert fold.count() == page.locator("details.early").count() == 1
    assert not fold.is_visible()
    page.locator("#rounds > details > summary").click()
    assert "early in training" in fold.locator("summary").first.inner_text()
    fold.locator("summary").first.click()
    choose(page, "task", "q2")
    choose(page, "attacker", "paper")
    places = fold.locator("svg.wide .pt").evaluate_all("found => found.map(p => p.style.transform)")
    assert len(places) == 3
    # 0.50 by the paper's own attack, too.
    assert all(p.startswith("translate(345px") for p in places)
    assert fold.locator(".list .by").inner_text() == "the paper's own"


@pytest.mark.parametrize("data", [nothing(), bare()], ids=["nothing", "no utility"])
def test_pages_with_little_to_say_raise_no_error(browser, tmp_path, data):
    with opened(browser, Html().write(data, tmp_path)[0]) as page:
        assert page.locator("h1:visible").count() == 1
        # Light and dark; nothing that would do nothing.
        assert page.locator("button:visible").count() == 1


def test_filter_hides_a_family_everywhere_but_in_the_headline(page):
    said = page.locator("h1").inner_text()
    family = '[data-family="fedgn"]:visible'
    assert page.locator(f"{WIDE} .pt{family}").count() == 3
    assert page.locator(f"#q0 .row{family}").count() == 3
    chip = page.locator('#q0 .chips button[data-family="fedgn"]')
    chip.click()
    assert chip.get_attribute("aria-pressed") == "false"
    assert (
        page.locator(f"{WIDE} .pt{family}").count()
        == page.locator(f"#q0 .row{family}").count()
        == 0
    )
    assert page.locator("h1").inner_text() == said
    assert (
        page.locator(".gone:visible").inner_text()
        == "Not shown: FedGN. The sentences above and the steps still count them."
    )
    choose(page, "task", "q2")
    # On the other task, too.
    assert page.locator(f".view:visible svg.wide .pt{family}").count() == 0
    choose(page, "task", "q0")
    chip.click()
    assert page.locator(f"{WIDE} .pt{family}").count() == 3
    assert page.locator(".gone:visible").count() == 0


def test_a_box_finds_settings_and_the_sentences_count_all(browser, paths):
    with opened(browser, paths["hundred"]) as page:
        said = page.locator(".intro:visible").inner_text()
        page.fill(".seek:visible", "k 3 0.12")
        assert page.locator("#q0 .list a.row:visible .nm").all_inner_texts() == [
            "FedHide α 0.12, K 3"
        ]
        assert page.locator(f"{WIDE} .pt:visible").count() == 1
        assert page.locator(".finder:visible output").inner_text().startswith("1 of 100 shown;")
        assert page.locator(".intro:visible").inner_text() == said
        page.fill(".seek:visible", "no such setting")
        assert page.locator("#q0 .list a.row:visible").count() == 0
        assert page.locator(".finder:visible output").inner_text().startswith("0 of 100 shown;")
        page.emulate_media(media="print")  # paper shows all
        assert page.locator(f"{WIDE} .pt:visible").count() == 100
        page.emulate_media(media="screen")
        page.fill(".seek:visible", "")
        assert page.locator(f"{WIDE} .pt:visible").count() == 100
        assert page.locator(".finder:visible output").inner_text() == ""


def test_hover_tells_the_number_with_all_that_belongs_to_it(page):
    found = point(page, "FedHide α 0.01, K 3")
    found.hover()
    tip = page.locator("#tip")
    told = tip.inner_text()
    for text in (
        "leaks in part",
        "0.50 (0.46 to 0.54)",
        "the paper's own",
        "0.10",
        "blind guess",
        "0.05",
        "nothing defended",
        "60 clients, 3 seeds",
    ):
        assert text in told
    assert (
        tip.bounding_box()["y"]
        >= found.locator(".hit").bounding_box()["y"]
        + found.locator(".hit").bounding_box()["height"]
    )
    assert "hot" in page.locator(
        f'#q0 .row[data-id="{number(page, "FedHide α 0.01, K 3")}"]'
    ).get_attribute("class")
    assert page.locator(f"{WIDE}.dim").count() == 1
    page.mouse.move(5, 5)
    assert not tip.is_visible()
    assert page.locator(".hot").count() == 0
    page.locator('#q0 .row:has-text("FedHide α 0.01, K 3")').hover()
    assert "hot" in found.get_attribute("class")


def test_zoom_by_box_by_double_click_by_button_and_by_key(page):
    name, where = "FedHide α 0.01, K 3", page.locator(WIDE).bounding_box()
    before = place(page, name)
    scale = where["width"] / 786
    corners = [(where["x"] + x * scale, where["y"] + y * scale) for x, y in ((300, 60), (420, 160))]
    page.mouse.move(*corners[0])
    page.mouse.down()
    page.mouse.move(*corners[1], steps=4)
    assert page.locator(f"{WIDE} .brush").count() == 1
    page.mouse.up()
    assert page.locator(f"{WIDE} .brush").count() == 0
    x, y = before
    assert place(page, name) == pytest.approx(
        (52 + (x - 300) / 120 * 586, 34 + (y - 60) / 100 * 344), abs=3
    )
    assert page.locator(f"{WIDE} .pt:visible").count() < 8
    assert page.locator(f"{WIDE} .ticks:visible text").count() > 4
    page.mouse.dblclick(where["x"] + 60 * scale, where["y"] + 60 * scale)
    assert place(page, name) == before
    page.click('#q0 [data-zoom="crowd"]')
    assert 3 <= page.locator(f"{WIDE} .pt:visible").count() < 8
    page.click('#q0 [data-zoom="0"]')
    page.locator(f'{WIDE} .pt[tabindex="0"]').focus()
    page.keyboard.press("+")
    assert page.locator(f"{WIDE} .pt:visible").count() < 8
    page.keyboard.press("-")
    assert place(page, name) == before


def test_keyboard_walks_from_the_fronts_least_leaking_point(page):
    assert page.locator(f'{WIDE} .pt[tabindex="0"]').count() == 1
    focus = "document.activeElement.dataset.id"
    page.locator('#controls input[name="attacker"]:checked').focus()
    page.keyboard.press("Tab")
    assert page.evaluate(focus) == number(page, "FedAwS + clip_noise")
    assert page.locator("#tip").is_visible()
    page.keyboard.press("ArrowRight")
    assert page.evaluate(focus) == number(page, "FedHide α 0.01, K 3")
    page.keyboard.press("ArrowLeft")
    assert page.evaluate(focus) == number(page, "FedAwS + clip_noise")
    page.keyboard.press("ArrowDown")
    assert page.evaluate(focus) == number(page, "FedGN σ 3")
    left, seen = [page.evaluate(focus)], set()
    while left:  # from everywhere in all four ways: nobody is out of reach
        here = left.pop()
        seen.add(here)
        for key in ("ArrowUp", "ArrowRight", "ArrowDown", "ArrowLeft"):
            page.locator(f'{WIDE} .pt[data-id="{here}"]').focus()
            page.keyboard.press(key)
            left += {page.evaluate(focus)} - seen - set(left)
    assert len(seen) == 8
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Tab")
    assert page.evaluate(focus) in seen  # one stop, where the reader left it


def test_drawer_holds_the_record_itself_and_gives_focus_back(page):
    name = "FedHide α 0.01, K 3"
    ident = number(page, name)
    page.locator(f'{WIDE} .pt[data-id="{ident}"]').focus()
    page.keyboard.press("Enter")
    drawer = page.locator("#drawer")
    assert drawer.is_visible()
    assert page.locator("#drawer-title").inner_text().startswith(name)
    assert page.locator(f"#drawer #r{ident}").count() == page.locator(f"#r{ident}").count() == 1
    assert "an attacker names 10 of 20 clients" in drawer.inner_text()
    assert page.evaluate("document.activeElement.id") == "drawer-close"
    assert page.evaluate("document.querySelector('#drawer').matches(':modal')") is False
    choose(page, "attacker", "paper")  # the chart beside it is alive
    page.keyboard.press("Escape")
    assert not drawer.is_visible()
    assert page.locator(f"#methods #r{ident}").count() == 1
    assert page.evaluate("document.activeElement.dataset.id") == ident
    page.locator("#q0 .row >> nth=0").click()
    point(page, "FedAwS + clip_noise").click()  # one record at a time
    assert page.locator("#drawer-title").inner_text().startswith("FedAwS + clip_noise")
    assert page.locator("#drawer article").count() == 1
    page.click("#drawer-close")
    assert page.locator("#drawer article").count() == 0
    assert page.locator("article.record").count() == page.locator("#methods article.record").count()


def test_theme_button_turns_light_and_dark(page):
    ground = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(ground)
    page.click("#theme")
    assert page.evaluate(ground) != light
    page.click("#theme")
    assert page.evaluate(ground) == light


def test_without_script_all_stands_there_and_nothing_dead_is_offered(browser, paths):
    with opened(browser, paths["two"], java_script_enabled=False) as page:
        assert page.locator(".view:visible").count() == page.locator(".intro:visible").count() == 3
        assert (
            page.locator("button:visible, input:visible, #drawer:visible, #tip:visible").count()
            == 0
        )
        assert page.locator(f"{WIDE} .pt:visible").count() == 8
        page.locator(f"{WIDE} .pt", has_text="FedAwS + clip_noise").click()
        assert page.url.endswith("#r1")
        assert page.locator(".legend .fam:visible").count() == 4  # the others are closed
        for chart in page.locator("summary", has_text="The same as a chart").all():
            chart.click()
        assert page.locator(".legend .fam:visible").count() == 4 + 5 + 2


@pytest.mark.parametrize("name", ["two", "hundred"])
def test_nothing_scrolls_sideways(browser, paths, name):
    with opened(browser, paths[name]) as page:
        for width in (1600, 1280, 1100, 760, 390, 320):
            page.set_viewport_size({"width": width, "height": 900})
            assert sideways(page) <= 0, width
            assert page.locator("svg.wide:visible").count() == (width > 760)
            assert page.locator("svg.narrow:visible").count() == (width <= 760)


def test_phone_has_room_for_fingers_and_a_drawer_from_below(browser, paths):
    with opened(browser, paths["two"], width=390, has_touch=True) as page:
        small = page.locator(
            ".seg label:visible, .tools button:visible, #theme:visible, .list .row:visible, .top"
            " nav a:visible"
        )
        heights = small.evaluate_all("found => found.map(e => e.getBoundingClientRect().height)")
        assert len(heights) > 20
        assert min(heights) >= 32
        page.locator("#q0 svg.narrow .pt >> nth=1").tap()
        assert page.locator("#drawer").is_visible()
        assert sideways(page) <= 0


def apart(one, two):
    """Do two boxes not touch?"""
    right = two["x"] + two["width"] <= one["x"] + 1 or one["x"] + one["width"] <= two["x"] + 1
    return right or (
        two["y"] + two["height"] <= one["y"] + 1 or one["y"] + one["height"] <= two["y"] + 1
    )


@pytest.mark.parametrize("width", [390, 500, 1280])
@pytest.mark.parametrize("kind", ["point", "row"])
def test_drawer_covers_neither_list_nor_switch(browser, paths, width, kind):
    with opened(browser, paths["two"], width=width) as page:
        size = "wide" if width > 760 else "narrow"
        if kind == "point":
            page.locator(f"#q0 svg.{size} .pt >> nth=1").click()
        else:
            page.locator("#q0 .list a.row >> nth=1").click()
        drawer = page.locator("#drawer").bounding_box()
        shown = page.locator(
            "#controls .seg:visible, #q0 .list .row:visible, #q0 svg.chart:visible"
        )
        assert shown.count() > 9
        for box in shown.all():
            assert apart(box.bounding_box(), drawer)
        page.keyboard.press("Escape")
        assert not page.locator("#drawer").is_visible()
        assert sideways(page) <= 0


def test_paper_shows_the_chosen_chart_in_light_and_no_controls(page):
    page.click("#theme")
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") in (
        "rgb(255, 255, 255)",
        "rgba(0, 0, 0, 0)",
    )
    assert page.locator("button:visible, input:visible").count() == 0
    assert page.locator(f"{WIDE} .pt:visible").count() == 8
    assert page.locator(WIDE).bounding_box()["y"] < 700  # on the first page


def test_switching_the_attacker_is_quick_with_a_hundred_settings(browser, paths, capsys):
    with opened(browser, paths["hundred"], reduced_motion="reduce") as page:
        took = page.evaluate("""() => {
              const inputs = [...document.querySelectorAll('input[name=attacker]')], took = [];
              for (let i = 0; i < 18; i += 1) {
                const input = inputs[i % inputs.length];
                input.checked = true;
                const begun = performance.now();
                input.dispatchEvent(new Event('change', { bubbles: true }));
                document.body.getBoundingClientRect(); // layout is part of it
                took.push(performance.now() - begun);
              }
              return took;
            }""")
        assert page.locator(f"{WIDE} .pt:visible").count() == 100
    with capsys.disabled():
        print(
            f" attacker switched in {sorted(took)[len(took) // 2]:.0f} ms (median), {max(took):.0f}"
            " ms at most;",
            end="",
        )
    assert sorted(took)[len(took) // 2] < GENEROUS
