"""The sections below the first screen: what is drawn is what the tables say, what is not there is
said, and nothing can run.
"""

from __future__ import annotations

import re
import struct
import zlib

import numpy as np
import pytest
from helpers.page import EMPTY, EVIL, Page
from helpers.report_data import (
    CLIENTS,
    DIFFERS,
    SETTINGS,
    again,
    built,
    curve,
    report_data,
    row,
    run_json,
    setting,
)

from leakbench.base.reason import in_words, reason
from leakbench.judging.attackers import row_of
from leakbench.metrics.prototypes import P_LEAK
from leakbench.reporting.data import About, Clients, Embedding, Naming, Picture, Split
from leakbench.reporting.png import Images, png
from leakbench.reproduce.catalogue import RECIPES
from leakbench.results.number import Missing
from reports._chart.lines import LEFT, RIGHT, Across, Axis, CurveLine, lines
from reports._chart.points import shapes
from reports._chart.track import Dot, scale, track
from reports._page.clients import bars, strip, worst_off
from reports._page.ladder import SHOWN, ladder
from reports._page.maps import gives_away
from reports._page.pictures import Store, gallery
from reports._page.recipes import TABLES
from reports._page.rounds import trace_of
from reports._page.sure import how_sure
from reports.html import render

UNIT = Axis(1.0, P_LEAK.meaning.text)


def prototypes(data):
    """The question on real prototypes."""
    return next(q for q in data.questions if q.metric == "p_leak")


@pytest.fixture(scope="module")
def text():
    return render(report_data())


@pytest.fixture(scope="module")
def page(text):
    return Page(text)


# ladder


def test_the_ladder_stands_by_gain_and_leaves_out_what_counts_for_nobody():
    question = prototypes(report_data())
    made = ladder("q0", question, shapes([j.setting.family for j in question.judged]))
    told = [(s.name, s.before, s.after, s.gain) for s in made.rows]
    assert told[0] == ("FedGN σ 0.3", "0.15", "0.93", "+0.78")
    gains = [float(g.removeprefix("+")) if g.startswith("+") else 0.0 for *_, g in told]
    assert gains == sorted(gains, reverse=True)
    assert not [s for s in made.rows if "σ 3" in s.name]  # a dead run
    assert (
        made.gone == "Not here: 2 settings without a number that counts (1 dead, 1 not attacked)."
    )


CIRCLE = r'<circle cx="([\d.]+)%"'


def test_dots_stand_where_the_table_has_them():
    question = prototypes(report_data())
    to = scale(question)
    for judged in question.judged:
        for key in ("paper", "transcript", "method", "any_attack"):
            found = row_of(judged, key)
            if found is None:
                continue
            drawn = str(track(to, [Dot(key, key, found)], bars=True))
            mark = r'<line x1="([\d.]+)%"[^>]* class="k paper"' if key == "paper" else CIRCLE
            [x] = re.findall(mark, drawn)
            share = (float(x) - to.start) / (to.stop - to.start)
            assert to.low + share * (to.high - to.low) == pytest.approx(found.value.value, abs=1e-3)
            assert f"blind guess {found.floor.value:.2f}" in drawn
            assert f"nothing defended {found.control.value:.2f}" in drawn


def test_a_scale_on_which_less_leaks_runs_the_other_way():
    base = setting("flea", {"layer": 1})
    rows = [
        row(
            base,
            0.9,
            a,
            r,
            "lpips",
            v,
            leaks="down",
            floor=0.6,
            control=0.02,
            probe=False,
            low=v,
            high=v,
        )
        for a, r, v in (
            ("plain", "paper", 0.5),
            ("decoder", "public", 0.1),
            ("cascade", "public", 0.1),
            ("any_attack", "public", 0.1),
        )
    ]
    [question] = built(rows).questions
    to = scale(question)
    assert to(0.1) > to(0.5) > to(0.6)
    made = ladder("q0", question, shapes(["flea"]))
    assert [s.gain for s in made.rows] == ["+0.40"]


def test_more_settings_than_a_ladder_holds_are_folded():
    bases = [setting("fedhide", {"alpha": i / 20}) for i in range(SHOWN + 3)]
    rows = [
        row(b, 0.9, a, r, "p_leak", v)
        for i, b in enumerate(bases)
        for a, r, v in (
            ("near", "paper", i / 30),
            ("unmix", "method", 0.9),
            ("cascade", "method", 0.9),
            ("any_attack", "method", 0.9),
        )
    ]
    question = prototypes(built(rows))
    made = ladder("q0", question, shapes(["fedhide"]))
    assert (len(made.rows), len(made.folded)) == (SHOWN, 3)
    assert made.more == f"3 more, each gains at most {0.9 - 12 / 30:.2f}"
    assert (
        len([1 for at, _ in Page(render(built(rows))).all("li") if at.get("class") == "step"])
        == SHOWN + 3
    )


def test_of_folded_settings_without_a_gain_none_is_told():
    """Their own papers' attacks did not run: how much they gain nobody knows."""
    bases = [setting("fedhide", {"alpha": i / 20}) for i in range(SHOWN + 3)]
    rows = [row(b, 0.9, a, "method", "p_leak", 0.9) for b in bases for a in ("unmix", "any_attack")]
    rows += [row(b, 0.9, "near", "paper", "p_leak", 0.9) for b in bases[:-2]]
    made = ladder("q0", prototypes(built(rows)), shapes(["fedhide"]))
    assert made.folded[-1].gain == "its paper's own did not run"
    assert made.more == "3 more"


def test_where_no_stronger_attack_ran_nothing_is_said_of_its_gain():
    one, other = setting("fedgn", {"sigma": 0.1}), setting("fedgn", {"sigma": 0.2})
    rows = [row(one, 0.9, a, "paper", "p_leak", 0.05) for a in ("near", "any_attack")]
    rows += [row(other, 0.9, a, "method", "p_leak", 0.9) for a in ("unmix", "any_attack")]
    rows.append(row(other, 0.9, "near", "paper", "p_leak", 0.9))
    made = ladder("q0", prototypes(built(rows)), shapes(["fedgn"]))
    assert [s.gain for s in made.rows] == ["no gain", "no stronger one counts"]


def test_a_setting_without_its_papers_attack_stands_last_and_says_so():
    some, other = setting("fedgn", {"sigma": 0.1}), setting("fedgn", {"sigma": 0.2})
    rows = [
        row(b, 0.9, a, "method", "p_leak", 0.9)
        for b in (some, other)
        for a in ("unmix", "cascade", "any_attack")
    ]
    rows.append(row(other, 0.9, "near", "paper", "p_leak", 0.9))
    question = prototypes(built(rows))
    made = ladder("q0", question, shapes(["fedgn"]))
    assert [(s.name, s.before, s.gain) for s in made.rows] == [
        ("FedGN σ 0.2", "0.90", "no gain"),
        ("FedGN σ 0.1", "", "its paper's own did not run"),
    ]


def test_without_a_number_there_is_no_ladder():
    question = prototypes(report_data())
    none = tuple(j for j in question.judged if not j.verdict.worst)
    weak = question.model_copy(update={"judged": none})
    assert ladder("q0", weak, shapes([j.setting.family for j in question.judged])) is None
    assert 'id="ladder"' not in render(EMPTY)


# table


def test_a_column_is_sorted_by_the_tables_own_number(page):
    question = prototypes(report_data())
    rows = {j.setting.name: j for j in question.judged}
    drawn = re.findall(
        r'<tr data-family="[^"]*"><th scope="row">.*?</tr>',
        render(report_data()).split('<details class="all">')[0],
        re.DOTALL,
    )
    seen = 0
    for line in drawn:
        name = re.search(r'<a href="#r\d+">([^<]*)</a>', line).group(1)
        cells = re.findall(r'data-v="([^"]*)"><span class="v">([^<]*)</span>', line)
        for value, told in cells:
            assert told.removesuffix(" dB") == "100" or float(
                told.removesuffix(" dB")
            ) == pytest.approx(float(value), abs=0.051)
        worst = rows[name].verdict.worst
        seen += worst is not None and repr(worst.value.value) in [v for v, _ in cells]
    assert seen >= 8
    assert any(at.get("class") == "sortable" for at, _ in page.all("table"))


def test_heads_are_plain_without_script(page):
    heads = [t for at, t in page.all("th") if at.get("scope") == "col"]
    assert "worst case" in heads
    assert not [t for at, t in page.all("button") if at.get("class") == "sort"]


# cards


def test_a_card_quotes_the_method_and_the_attack_and_lists_what_is_sent(page):
    assert (
        "FedGN: Gaussian noise on the prototype, drawn afresh each round. (Park and Yun, ECCV 2024)"
        in page.text
    )
    assert (
        "Read best by unmix. Unmix: what is mixed by a public rule can be solved for." in page.text
    )
    assert "What it does is not documented here: the method is not installed." in page.text
    assert (
        "prototype client → server each round 700 bytes clip_noise (in 1 of 2 settings)"
        in page.text.replace("; ", " ")
    )
    assert "Its paper gives no number for these settings." in page.text


def test_a_paper_s_number_stands_beside_ours_and_the_best_attacker(page):
    assert (
        "FedHide α 0.01, K 3, digit-pairs P_leak, share of clients named 0.04 0.10 (0.06 to 0.14)"
        " FedHide, Table 4" in page.text
    )


def test_records_keep_their_names_and_carry_family_tracks_and_provenance(page):
    settings = report_data().settings
    articles = {at["id"]: (at, t) for at, t in page.all("article")}
    assert set(articles) == {f"r{s.index}" for s in settings}
    for s in settings:
        at, told = articles[f"r{s.index}"]
        assert at["data-family"] == s.family
        assert "ab" * 32 in told
        assert f"digit-pairs-{s.family}-s0" in told
        if s.family != "feduv":
            assert "the paper's own" in told
            assert (
                "Dotted mark: blind guess 0.05. Solid mark: nothing defended 1.00. n = 60 clients"
                " over 3 seeds." in told
            )
    assert "Its paper gives no number for this." in page.text


def test_families_are_marked_wherever_a_setting_stands(page):
    settings = report_data().settings
    marked = [at["data-family"] for _, at, _ in page.elements if "data-family" in at]
    for family in {s.family for s in settings}:
        assert marked.count(family) >= 6


def test_worst_off_clients_in_words_and_drawing():
    shares = [1.0] * 3 + [0.5] + [0.0] * 2 + [None]
    told = worst_off(shares, 2, "clients")
    assert (
        told == "3 of 6 clients named in every seed of all 2 settings (0, 1, 2), 2 never (4, 5). "
        "Then client 3, in 0.50 of the cases. 1 client not attacked."
    )
    assert worst_off([1.0, 1.0], 1, "images") == "2 of 2 clients rebuilt in every seed, 0 never."
    drawn = str(strip(shares))
    counts = {k: d.count("M") for d, k in re.findall(r'<path d="([^"]*)" class="(\w+)"', drawn)}
    assert counts == {"hit": 4, "never": 2, "untried": 1}
    tops = [float(y) for y in re.findall(r"M\d+ 30V([\d.]+)", str(bars(shares)))]
    assert [(30 - y) / 30 for y in tops] == [1.0, 1.0, 1.0, 0.5]
    assert str(strip([0.0] * 1000)) == ""


# rounds


def over_rounds(title, shown, last):
    """The drawing of curves, each with its name and more."""
    made = [CurveLine(trace_of(found), name, **more) for found, name, more in shown]
    across = Across.rounds([line.trace for line in made], last)
    return str(lines(title, made, across, UNIT))


def test_lines_go_through_the_curve_s_own_numbers():
    ends = {"low": (0.8, 0.4, 0.0), "high": (1.0, 0.6, 0.2), "floor": (0.05,) * 3}
    found = curve("p_leak", (0.9, 0.5, 0.1), rounds=(1, 10, 100), by="near", rung="paper", **ends)
    drawn = over_rounds("Leakage", [(found, "FedGN", {"verdict": "leaks"})], 100)
    [d] = re.findall(r'<path d="M([^"]*)" class="line f0 s0"', drawn)
    points = [tuple(map(float, p.split())) for p in d.split("L")]
    ticks = {
        float(v): float(y) - 4
        for y, v in re.findall(r'<text x="28" y="([\d.]+)" text-anchor="end">([\d.]+)<', drawn)
    }
    height = ticks[0.0] - ticks[1.0]
    assert [(ticks[0.0] - y) / height for _, y in points] == pytest.approx(
        [0.9, 0.5, 0.1], abs=0.002
    )
    # Log: 1, 10, 100.
    assert [x for x, _ in points] == pytest.approx([LEFT, (LEFT + RIGHT) / 2, RIGHT], abs=0.1)
    assert "FedGN (leaks): 0.90 in round 1, 0.10 in round 100" in drawn
    [band] = re.findall(r'<path d="M([^"]*)" class="area f0 s0"', drawn)
    heights = [(ticks[0.0] - float(p.split()[1])) / height for p in band.split("L")]
    assert heights == pytest.approx([1.0, 0.6, 0.2, 0.0, 0.4, 0.8], abs=0.002)


def test_an_attack_over_all_rounds_is_a_dot_at_the_last():
    ends = {"low": (0.4,), "high": (0.6,), "floor": (0.05,)}
    found = curve("p_leak", (0.5,), rounds=(300,), by="mean", rung="method", **ends)
    drawn = over_rounds("Leakage", [(found, "FedGN", {"verdict": "leaks"})], 300)
    assert re.search(rf'<circle cx="{RIGHT:.0f}"', drawn)
    assert 'class="line f0 s0"' not in drawn


def test_a_setting_without_a_curve_is_named(page):
    assert "No curve: FedUV (not attacked)." in page.text
    assert (
        "nothing here was measured in more than one round" in Page(render(without("curves"))).text
    )


def test_what_was_scored_once_is_a_sentence_and_no_empty_chart(page, text):
    assert "Prototypes, best real attack, scored once, so there is no line:" in page.text
    assert "Prototypes, best real attack" not in re.findall(r"<figcaption><b>([^<]*)", text)
    # Nobody's chart is without a line.
    drawn = re.findall(r'<svg class="lines".*?</svg>', text, re.DOTALL)
    assert len(drawn) == 3
    assert all('class="line f' in d for d in drawn)


def test_lines_have_their_method_s_colour_and_labels_their_verdict(text):
    [own] = re.findall(
        r"<b>Prototypes, the paper&#39;s own attack</b>.*?(<svg.*?</svg>)", text, re.DOTALL
    )
    ends = dict(re.findall(r'class="end (f\d s\d)">([^<]*)<', own))
    looks = {name.split(":")[0]: look for look, name in ends.items()}
    assert ends[looks["FedAwS"]] == "FedAwS: leaks"
    assert any(name.endswith(": held") for name in ends.values())
    gn = {look for name, look in looks.items() if name.startswith("FedGN")}
    assert len({look.split()[0] for look in gn}) == 1  # a colour a method
    assert len(gn) > 1  # and a dash a setting
    assert looks["FedAwS"].split()[0] not in {look.split()[0] for look in gn}


def test_a_label_is_cut_before_its_verdict():
    found = curve("p_leak", (0.5, 0.9), rounds=(1, 2), by="near")
    name = "a very long name of a setting " * 3
    drawn = over_rounds("x", [(found, name, {"verdict": "leaks"})], 2)
    assert re.search(r"a very long[^<]*…: leaks<", drawn)


def test_labels_at_the_ends_meet_their_own_look():
    made = []
    for i, v in enumerate((0.2, 0.9, 0.2, 0.5)):
        found = curve("p_leak", (0.5, v), rounds=(1, 2), by="near")
        made.append((found, f"name f{i}", {"family": i}))
    pattern = r'<text x="[^"]*" y="([^"]*)" class="end (\w+) s0">name (\w+)<'
    found = re.findall(pattern, over_rounds("x", made, 2))
    assert sorted(look for _, look, _ in found) == ["f0", "f1", "f2", "f3"]
    assert all(look == name for _, look, name in found)
    order = [name for _, _, name in sorted(found, key=lambda f: float(f[0]))]
    assert order[:2] == ["f1", "f3"]  # from the top: 0.9, 0.5, then the two at 0.2


# maps


def test_maps_say_what_they_show(page):
    assert "0 of 20 named right" not in page.text
    # Everybody is taken for client 0, who is one of them.
    assert "1 of 20 named right." in page.text
    assert "19 of 20 named right. 1 unit without a guess, counted as not named." in page.text
    assert "Nearest to their own true prototype are 17 of 20." in page.text
    assert (
        "20 clients, 9 training examples and 1 of 10 classes each. So every message names its class"
        " by where it comes from" in page.text
    )


def test_a_heat_map_has_a_square_per_naming(text):
    own = re.findall(r'<path d="([^"]*)" class="own o4"', text)
    other = re.findall(r'<path d="([^"]*)" class="other o4"', text)
    assert sorted(d.count("M") for d in own) == [1, CLIENTS - 1]
    assert [d.count("M") for d in other] == [CLIENTS - 1]
    assert re.findall(r"M(\d+) (\d+)h1", own[0]) == [("0", "0")]


def test_what_a_split_gives_away():
    alone = gives_away([[5, 0], [0, 7]])
    assert alone.endswith("and no class belongs to two clients: labels are no secret on this task.")
    assert "5 to 7 training examples" in alone
    shared = gives_away([[5, 0], [5, 0]])
    assert "no class belongs" not in shared
    mixed = gives_away([[9, 1], [1, 9], [10, 0]])
    assert (
        "guesses 0.93 of all labels right; 1 of 3 clients hold almost nothing but one class."
        in mixed
    )


# pictures


def decode(data):
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    wide, high = struct.unpack(">II", data[16:24])
    at = data.index(b"IDAT")
    size = struct.unpack(">I", data[at - 4 : at])[0]
    raw = np.frombuffer(zlib.decompress(data[at + 4 : at + 4 + size]), np.uint8).reshape(high, -1)
    assert not raw[:, 0].any()
    return raw[:, 1:].reshape(high, wide, -1)


@pytest.mark.parametrize("shape", [(8, 8), (5, 7, 3)])
def test_png_holds_the_pixels(shape):
    pixels = np.random.Generator(np.random.PCG64(1)).integers(0, 256, shape).astype(np.uint8)
    np.testing.assert_array_equal(decode(png(pixels)), pixels.reshape(*shape[:2], -1))


def without(*fields):
    """The made-up report, its settings without these."""
    data = report_data()
    settings = [s.model_copy(update=dict.fromkeys(fields, ())) for s in data.settings]
    return data.model_copy(update={"settings": tuple(settings)})


def with_pictures(found, data=None):
    """The made-up report with other pictures: ``found``: setting -> its pictures."""
    data = data or report_data()
    settings = [s.model_copy(update={"pictures": tuple(found(s))}) for s in data.settings]
    return data.model_copy(update={"settings": tuple(settings)})


def test_rows_run_from_original_to_the_strongest_defense():
    [album] = gallery(report_data()).albums
    titles = [s.title for s in album.strips]
    assert titles[:4] == ["Original", "Blind guess", "Nothing defended", "FedAwS"]
    assert titles[-1] == "FedGN σ 3"
    assert all(c.under.endswith(" dB") for s in album.strips[1:] for c in s.cells)
    assert album.strips[3].found == "6 of 6 found among look-alikes"
    assert album.strips[-1].found == "0 of 6 found among look-alikes"
    assert album.strips[-1].tone == "none"  # a dead run: grey, never blue


def test_each_picture_is_stored_once(text):
    data = report_data()
    stored = re.findall(r'<image href="(data:[^"]*)"', text)
    assert len(stored) == len(set(stored))
    used = set(re.findall(r'<use href="#(p\d+)"', text))
    assert used == set(re.findall(r'<symbol id="(p\d+)"', text))
    assert len(re.findall("<use ", text)) > len(used)  # the control is the original again
    other = {"attack": "other"}
    twice = with_pictures(
        lambda s: [*s.pictures, *(p.model_copy(update=other) for p in s.pictures)]
    )
    assert len(gallery(twice).store) == len(gallery(data).store)


def test_the_store_tells_shapes_apart():
    images = Images()
    wide, square = images.add(np.zeros((2, 8))), images.add(np.zeros((4, 4)))
    store = Store(images.found, {})
    assert store.add(wide).ident != store.add(square).ident
    assert store.add(square).ident == "p1"
    assert (store.add(wide).wide, store.add(wide).high) == (8, 2)


def test_over_the_budget_there_are_fewer_units_and_it_is_said(monkeypatch):
    data = report_data()
    full = gallery(data)
    assert not full.short
    small = gallery(data, budget=sum(len(s.uri) for s in full.store) // 2)
    assert small.short
    assert 0 < small.albums[0].columns < 6
    assert sum(len(s.uri) for s in small.store) <= sum(len(s.uri) for s in full.store) // 2
    monkeypatch.setattr("reports._page.pictures.BUDGET", 1)
    monkeypatch.setattr(gallery, "__defaults__", (1,))
    assert "Only 1 unit of each, to keep the page small." in Page(render(data)).text


def test_units_beyond_the_most_are_said_to_be_left_out():
    first = next(s for s in report_data().settings if s.pictures)

    def many(s):
        mine = [p for p in s.pictures if p.unit == "client/0"] if s.id == first.id else []
        return [p.model_copy(update={"unit": f"client/{i}"}) for i in range(11) for p in mine]

    text = Page(render(with_pictures(many))).text
    assert "3 more units were kept and are left out here" in text


def test_an_attack_that_gave_no_image_is_said_to_have_failed():
    none = {"sha256": None}

    def broken(s):
        return [p.model_copy(update=none) if p.role == "attack" else p for p in s.pictures]

    assert "attack failed" in Page(render(with_pictures(broken))).text


def test_a_weak_and_a_strong_attack_stand_side_by_side_under_one_original():
    data = report_data()
    key = next(s.key for s in data.settings if s.pictures)
    rungs = {"joint": "method", "naive": "paper"}
    numbers = [n for s in data.settings for n in s.numbers]
    first = next(n for n in numbers if n.attacker.name == "gradient_inversion")
    assert first.configuration.key == key
    numbers += [again(first, params={"attacker": a}, rung=r) for a, r in rungs.items()]

    def both(s):
        mine = s.pictures if s.key == key else ()
        return [p.model_copy(update={"params": {"attacker": a}}) for a in rungs for p in mine]

    [album] = gallery(with_pictures(both, report_data(numbers=numbers))).albums
    assert [s.title for s in album.strips][-2:] == [
        "FedAwS, the paper's own",
        "FedAwS, knows the method",
    ]
    assert [s.about for s in album.strips][-2:] == [
        "gradient inversion, attacker naive",
        "gradient inversion, attacker joint",
    ]
    assert [s.title for s in album.strips].count("Original") == 1


def test_a_redacted_report_says_that_pictures_are_left_out():
    bare = with_pictures(lambda _: ()).model_copy(update={"maps": (), "redacted": True})
    page = Page(render(bare))
    assert "Left out: maps show true prototypes, and who holds which classes." in page.text
    assert (
        "Left out: this report holds no private image and nothing that was rebuilt from one."
        in page.text
    )


# how sure


def test_every_line_of_how_sure_has_its_own_cause():
    data = report_data()
    heads = {line.head: line for line in how_sure(data)}
    assert heads["The attacks work."].mark[0] == "ok"
    assert (
        heads["Several seeds."].text == "3 a setting; an interval covers how training runs differ."
    )
    assert heads["Failures."].text.startswith("Attacks failed on 1 of ")
    assert heads["Oracle knowledge."].mark == ("mind", "!")
    assert DIFFERS in heads["Another scale than the papers."].text
    assert heads["Not tried:"].mark == ("bad", "✕")
    numbers = [n for s in data.settings for n in s.numbers]
    weak = [again(n, flags="control_failed", control=n.floor.value) for n in numbers]
    told = {line.head: line for line in how_sure(report_data(numbers=weak))}
    assert "Too weak to judge by: FedAwS" in told["Some attacks do not work."].text
    stuck = report_data(numbers=[again(n, flags="loss_did_not_fall|one_seed") for n in numbers])
    assert "the search did not settle" in "".join(line.text for line in how_sure(stuck))
    [only] = how_sure(EMPTY)
    assert only.mark[0] == "bad"


@pytest.mark.parametrize(("searching", "head"), [(False, "No search."), (True, "Compute.")])
def test_no_search_is_praised_that_nobody_made(searching, head):
    names = {f"attacks/{n.attacker.name}" for s in report_data().settings for n in s.numbers}
    about = {name: About(text=name) for name in names}
    about["attacks/unmix"] = About(text="unmix", searches=searching)
    told = {line.head: line for line in how_sure(report_data(about=about))}
    assert told[head].mark[0] == ("ok" if searching else "mind")
    assert len({"No search.", "Compute."} & {*told}) == 1


# strangers


def test_hostile_names_are_inert_in_every_section():
    base = setting(EVIL, {EVIL: EVIL}, (EVIL,), task=EVIL)
    ways = (("near", "paper"), (EVIL, "method"), ("cascade", "method"), ("any_attack", "method"))
    said = {"claimed": 0.1, "claimed_source": EVIL, "unit": EVIL, "params": {EVIL: EVIL}}
    rows = [row(base, 0.9, a, r, "p_leak", 0.5, command=EVIL, **said) for a, r in ways]
    names = ("id", "engine", "device", "dtype", "commit")
    message = {"kind": EVIL, "sender": "client", "receiver": EVIL, "rounds": 2, "messages": 2}
    images = Images()
    drawn = {"attack": EVIL, "params": {EVIL: EVIL}, "unit": EVIL, "probe": None, "round": 1}
    shas = {role: images.add(np.zeros((2, 2))) for role in ("original", "attack")}
    two = {"rounds": (1, 2), "floor": (0.1, 0.2)}

    def run(base, seed):
        told = run_json(base, seed) | dict.fromkeys(names, EVIL)
        return told | {"sent": [{**message, "bytes": 9, "covered": True}]}

    of = {
        "pictures": [Picture(role=r, sha256=s, psnr=3.0, **drawn) for r, s in shas.items()],
        "curves": [
            curve("p_leak", (0.1, 0.2), by=EVIL, rung="paper", **two),
            curve("accuracy", (0.1, 0.2), rounds=(1, 2)),
        ],
        "clients": [Clients(metric="p_leak", probe=False, shares=(1.0, None, 0.2))],
        "command": EVIL,
    }
    about, near = {"setting": "r0", "why": EVIL, "by": EVIL}, ((0.0, 0.0),)
    data = built(
        rows,
        runs=run,
        more={base.key: of},
        images=images.found,
        maps=[
            Naming(**about, rung="paper", clients=2, named=((0, 1, 1.0),)),
            Embedding(
                **about, seed=0, clients=(0,), true=near, shared=((1.0, 1.0),), recovered=(None,)
            ),
            Split(task=EVIL, counts=((1, 0), (0, 1))),
        ],
        about={f"{kind}/{EVIL}": About(text=EVIL, paper=EVIL) for kind in ("defenses", "attacks")},
    )
    text = render(data)
    page = Page(text)
    for name in ("ladder", "table", "methods", "pictures", "rounds", "maps", "sure"):
        assert f'id="{name}"' in text
    assert not [a for _, at, _ in page.elements for a in at if a.startswith("on") or a == "style"]
    assert not [
        t for t, _, _ in page.elements if t in ("iframe", "object", "embed", "base", "link")
    ]
    assert "alert(2)" in page.text
    assert text.count("</style>") == 1
    assert all(
        at["href"].startswith("data:image/png;base64,")
        for t, at, _ in page.elements
        if t == "image"
    )


def test_a_report_without_runs_or_extras_still_has_every_cell():
    data = report_data(runs=None, about={}, maps=())
    bare = [s.model_copy(update={"curves": (), "clients": ()}) for s in data.settings]
    page = Page(render(data.model_copy(update={"settings": tuple(bare)})))
    assert not [t for _, t in page.all("td", "th", "dd", "dt") if not t]
    assert "No message of a client was recorded." in page.text
    assert "Client by client" not in page.text


def test_settings_are_the_ones_the_report_is_about():
    assert len(SETTINGS) == len(report_data().settings)


# what is said once, and what is said in words


def test_what_is_the_same_in_every_row_is_said_once():
    bases = [setting("fedgn", {"sigma": s}) for s in (0.1, 0.3)]
    rows = [
        row(b, 0.8 - i / 10, a, "method", "p_leak", 0.9 - i / 10, flags="one_seed")
        for i, b in enumerate(bases)
        for a in ("unmix", "cascade", "any_attack")
    ]
    text = render(built(rows))
    [sheet] = re.findall(r'<div class="sheet".*?</table>', text, re.DOTALL)
    for head in ("blind guess", "nothing defended", "notes", "its paper&#39;s number"):
        assert f">{head}</th>" not in sheet
    assert ">worst case</th>" in sheet  # an attacker's numbers stand in their rows
    assert text.count("In every row: its paper&#39;s number not in its paper; blind guess") == 1
    differ = render(built([*rows[:3], *[again(r, flags="few_units") for r in rows[3:]]]))
    assert ">notes</th>" in differ


def test_worst_off_clients_only_where_clients_differ():
    base = setting("fedgn", {"sigma": 0.1})
    rows = [row(base, 0.8, a, "method", "p_leak", 0.9) for a in ("unmix", "any_attack")]
    for shares, shown in (((1.0,) * 20, False), ((1.0,) * 19 + (0.5,), True)):
        hit = Clients(metric="p_leak", probe=False, shares=shares)
        text = render(built(rows, more={base.key: {"clients": (hit,)}}))
        assert ("Worst-off clients" in text) is shown
        assert ('<svg class="strip"' in text or 'class="strip" role="img"' in text) is shown
        assert "of 20 clients named in every seed" in text


def test_what_is_missing_is_told_in_words_what_would_fit_first():
    base = setting("fedgn", {"sigma": 0.1}, ("clip_noise",))
    other = setting("fedcs", {"cos_theta": 0.2})
    attacks = ("unmix", "any_attack")
    rows = [row(b, 0.8, a, "method", "p_leak", 0.9) for b in (base, other) for a in attacks]
    gone = [
        Missing(
            configuration=other,
            attack="gradient_inversion",
            metric="",
            reason=reason("not_run", params={}),
        ),
        Missing(
            configuration=base,
            attack="unmix",
            metric="",
            reason=reason("at", stages=["early"], probe=None, of=in_words("`it` was not_kept")),
        ),
        Missing(
            configuration=other,
            attack="label_inference",
            metric="",
            reason=reason("unfit", text="clients send the server no labels"),
        ),
    ]
    gone.reverse()
    text = render(built(rows, missing=gone))
    [section] = re.findall(r'<section id="missing">(.*?)</section>', text, re.DOTALL)
    first, rest = section.split("<details", 1)
    assert first.index("Gradient inversion") < first.index("it was not kept")
    assert "Gradient inversion of FedCS: not run." in first
    assert "with clip noise: early: it was not kept." in first
    assert "Label inference" not in first
    assert "Label inference of FedCS: clients send the server no labels." in rest
    assert not re.search(r"\w_\w|[{}@`]", re.sub(r"<[^>]*>", "", section))


def test_the_command_of_a_paper_s_table_is_named_where_it_has_a_recipe(text):
    assert "<code>leakbench reproduce fedhide-table4 --scale smoke</code>" in text
    [sure] = re.findall(r'<section id="sure">(.*?)</section>', text, re.DOTALL)
    assert "leakbench reproduce fedhide-table4 --scale smoke" in sure


def test_the_recipes_that_the_page_names_run_those_methods():
    for name, methods in TABLES.items():
        of = RECIPES[name].of("smoke")
        assert {c.defense for c in of if not c.ours} == set(methods), name
        assert "smoke" in RECIPES[name].scales


def test_what_was_worse_before_the_end_is_said_while_the_rounds_are_closed():
    base = setting("fedgn", {"sigma": 0.1})
    attacks = ("unmix", "cascade", "any_attack")
    late = [row(base, 0.9, a, "method", "p_leak", 0.01, low=0.0, high=0.05) for a in attacks]
    early = [row(base, 0.9, a, "method", "p_leak", 0.9, stage="early") for a in attacks]
    text = render(built([again(n, stage="final") for n in late] + early))
    [summary] = re.findall(r'<section id="rounds"><details[^>]*><summary>(.*?)</summary>', text)
    assert "Worse before the end than at it: FedGN" in summary
    assert "early in training: leaks" in summary
    same = [again(n, stage=stage) for n in late for stage in ("final", "early")]
    assert "Worse before the end" not in render(built(same))
