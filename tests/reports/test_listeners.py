"""Who could be listening: a switch where several did, and a line for what nobody asked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from helpers.browser import needs_browser, opened, started
from helpers.report_data import built, report_data, row, setting
from helpers.small_runs import trained

from leakbench import api
from leakbench.record.folders import load
from leakbench.record.policy import Policy
from leakbench.reporting.data import Inquiry
from leakbench.reporting.inquiries import inquiries_of
from leakbench.reporting.write import read_tables
from leakbench.results.number import Attacker
from leakbench.results.roc import Roc
from reports._chart.roc import at
from reports._page.members import members
from reports._page.sure import NOT_YET, how_sure
from reports.html import Html, render

DOCS = Path(__file__).parents[2] / "docs"
SIGMAS = (0.1, 0.3)


def told(n, who, **more):
    attacker = n.attacker.model_copy(update={"observer": (who,)})
    return n.model_copy(update={"attacker": attacker, **more})


def two_listeners():
    """Two settings that leak to the server, and hardly to a client."""
    rows, heard = [], {}
    for sigma in SIGMAS:
        base = setting("fedgn", {"sigma": sigma})
        server, client = ((0.9, "server"), (0.2, "client/0"))
        own = {}
        for (value, who), listener in ((server, "server"), (client, "client")):
            found = row(base, 0.8, f"unmix {who}", "method", "p_leak", value)
            rows.append(told(found, who))
            own[listener] = []
            for name in ("cascade", "any_attack"):
                made = told(row(base, 0.8, name, "method", "p_leak", value), who)
                own[listener].append(made.model_copy(update={"heard_by": listener}))
        rows += [n.model_copy(update={"heard_by": None}) for n in own["server"]]
        heard[base.key] = {"heard": tuple(n for mine in own.values() for n in mine)}
    return built(rows, more=heard)


def test_the_page_has_a_view_for_each_listener_and_opens_on_anyone():
    data = two_listeners()
    (question,) = data.questions
    assert [q.listener for q in question.heard] == ["server", "client"]
    page = render(data)
    assert re.findall(r'name="heard-q0" value="([^"]+)"( checked)?', page) == [
        ("q0", " checked"),
        ("q0-1", ""),
        ("q0-2", ""),
    ]
    assert re.findall(r'<section class="question" id="([^"]+)"', page) == ["q0", "q0-1", "q0-2"]
    assert page.count("Who listens") == 1
    for ident in ("q0", "q0-1", "q0-2"):  # chart, ladder and numbers of each
        assert f'data-question="{ident}"' in page
        # Where all leak the ladder stands in the view itself.
        assert page.count(f'data-heard="{ident}"') == (2 if ident == "q0-2" else 1)
        assert page.count(f'<div class="ladder" data-question="{ident}">') == 1
    words = [[j.verdict.word for j in q.judged] for q in (question, *question.heard)]
    assert words == [["leaks"] * 2, ["leaks"] * 2, ["leaks in part"] * 2]


def test_where_one_alone_attacked_there_is_no_switch():
    assert "Who listens" not in render(report_data())


def line(data, head):
    return next(s for s in how_sure(data) if s.head.startswith(head))


def test_what_was_asked_of_whom_is_told_with_the_way_to_ask_it():
    asked = (
        Inquiry(listener="server", topic="prototypes", state="asked"),
        Inquiry(listener="client", topic="images", state="open", text="-a x -s 'x.y=\"<b>\"'"),
        Inquiry(listener="client", topic="labels", state="refused", text="no labels & none"),
        Inquiry(listener="server+", topic="", state="open", text="-w active_server"),
    )
    data = two_listeners().model_copy(update={"inquiries": asked})
    server = line(data, "Asked of the server")
    assert (server.text, server.wrong) == ("prototypes.", False)
    client = line(data, "Not asked of one client")
    assert client.wrong
    assert "<code>-a x -s &#39;x.y=&#34;&lt;b&gt;&#34;&#39;</code>" in client.text
    assert "Cannot be asked: labels (no labels &amp; none)." in client.text
    assert "<code>-w active_server</code>" in line(data, "Not asked of an active server").text


def test_what_cannot_be_asked_yet_is_what_the_documentation_says():
    text = (DOCS / "threat-models.md").read_text("utf-8")
    listed = text.split("What cannot be asked here yet:")[1].split("\n\n")[1]
    assert tuple(item.removeprefix("* ") for item in listed.splitlines()) == NOT_YET
    said = line(report_data(), "Not tried").text
    assert all(one in said for one in NOT_YET)


def roc(name, who, named, signal="likelihood"):
    attacker = Attacker(name=name, params={"signal": signal}, rung="public", observer=(who,))
    if who != "server":
        attacker = attacker.model_copy(update={"params": {"observer": who, "signal": signal}})
    false = (0.005, 0.01, 0.1, 1.0)
    return Roc(attacker=attacker, false=false, true=named, others=200, seeds=1)


def test_an_attack_looks_alike_in_every_panel_and_its_listener_is_named_once():
    strong, weak = (0.2, 0.26, 0.5, 1.0), (0.0, 0.0, 0.1, 1.0)
    curves = (
        (roc("membership", "server", strong), roc("shadow_membership", "server", weak, "rmia")),
        (roc("shadow_membership", "client/0", weak, "rmia"), roc("membership", "client/0", strong)),
    )
    bases = [setting("fedgn", {"sigma": s}) for s in SIGMAS]
    rows = [row(base, 0.8, "unmix", "method", "p_leak", 0.5) for base in bases]
    more = {base.key: {"roc": own} for base, own in zip(bases, curves, strict=True)}
    looks = []
    for panel in members(built(rows, more=more)):
        found = re.findall(r'class="end (f\d) (s\d)"[^>]*>([^<]*)<', str(panel.drawing))
        looks.append({text: (colour, dash) for colour, dash, text in found})
    server, client = looks
    assert list(server) == ["0.26 likelihood", "0.00 shadow rmia"]  # the most first
    assert list(client) == ["0.26 likelihood, client/0", "0.00 shadow rmia, client/0"]
    for one, other in zip(server.values(), client.values(), strict=True):
        assert one[0] == other[0]  # the colour is the attack's
        assert one[1] != other[1]  # the dashes are the listener's


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    held = {"model": "mlp", "width": 8, "dim": 8, "evaluations": 10, "split": "iid", "held_out": 20}
    how = {"task_params": held, "record": Policy(name="all", probes=0)}
    how["params"] = {"steps": 1, "epochs": 0, "fraction": 1.0}
    return load(trained(tmp_path_factory.mktemp("runs"), "fedavg", 3, **how).path)


def test_a_run_says_what_clients_could_be_asked(run):
    def stand():
        tables = read_tables([load(run.path)])
        found = inquiries_of(tables.settings, tables.missing)
        return {(i.listener, i.topic): (i.state, i.text) for i in found}

    api.attack(run, "membership")
    before = stand()
    assert before["server", "members"] == ("asked", "")
    state, options = before["client", "members"]
    assert state == "open"
    assert "membership.observer=client/0" in options
    assert before["server+", ""] == ("open", "-w active_server")
    assert not any(topic == "captions" for _, topic in before)  # nobody has a text here
    api.attack(run, "membership", observer="client/0")
    after = stand()
    assert after["client", "members"] == ("asked", "")
    assert {k: v for k, v in after.items() if k != ("client", "members")} == {
        k: v for k, v in before.items() if k != ("client", "members")
    }
    (shown,) = read_tables([load(run.path)]).settings
    assert {r.attacker.listener for r in shown.roc} == {"server", "client"}
    assert all(0 <= at(r, 0.01) <= 1 for r in shown.roc)


@pytest.mark.parametrize(("clients", "state"), [(2, "refused"), (3, "open"), (5, "open")])
def test_several_clients_leave_one_of_whom_they_find_out(tmp_path, clients, state):
    task = {"clients": clients, "split": "iid"}
    run = trained(tmp_path, "fedavg", 2, task_params=task, params={"fraction": 1.0})
    tables = read_tables([load(run.path)])
    found = inquiries_of(tables.settings, tables.missing)
    (told,) = (i for i in found if (i.listener, i.topic) == ("coalition", "labels"))
    assert told.state == state
    assert clients != 3 or '"clients/0,1"' in told.text


def test_what_was_asked_of_one_setting_is_open_for_another(tmp_path):
    task = {"clients": 4, "split": "iid"}
    runs = []
    for lr in (0.1, 0.2):
        how = {"task_params": task, "params": {"fraction": 1.0, "lr": lr}}
        runs.append(trained(tmp_path, "fedavg", 2, **how))
        api.attack(runs[-1], "membership", signal="cosine")

    def stand():
        tables = read_tables([load(run.path) for run in runs])
        found = inquiries_of(tables.settings, tables.missing)
        return next(i.state for i in found if (i.listener, i.topic) == ("client", "members"))

    told = [stand()]
    for run in runs:
        api.attack(run, "membership", signal="cosine", observer="client/0")
        told.append(stand())
    assert told == ["open", "open", "asked"]


@needs_browser
@pytest.mark.slow
def test_the_switch_shows_one_listener_and_paper_shows_all(tmp_path):
    (path, *_) = Html().write(two_listeners(), tmp_path)
    with started() as browser:
        with opened(browser, path) as page:
            assert page.locator(".view:visible").count() == 1
            assert "leak most" in page.locator(".intro:visible").inner_text()
            page.focus("input[name=heard-q0][value=q0]")
            page.keyboard.press("ArrowRight")
            page.keyboard.press("ArrowRight")
            assert page.locator(".view:visible").evaluate("v => v.parentElement.id") == "q0-2"
            assert "leak in part" in page.locator(".intro:visible").inner_text()
            assert page.locator("[data-heard]:visible").count() == 1  # of the ladder
            values = page.locator("#q0-2 .list .v:visible").all_inner_texts()
            assert set(values) == {"0.20"}
            page.emulate_media(media="print")
            assert page.locator(".view:visible").count() == 3
        with opened(browser, path, java_script_enabled=False) as page:
            assert page.locator(".view:visible").count() == 3
