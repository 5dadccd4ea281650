"""leakbench report: the table, the files and what they are called."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from helpers.run_folders import add_attack, make_run, measure
from helpers.small_runs import trained

from leakbench.base.files import read_csv
from leakbench.base.meaning import Meaning, Topic
from leakbench.cli import summary
from leakbench.record import folders
from leakbench.record.columns import RESULTS, TRADEOFF
from leakbench.results.number import Configuration


class TestReport:
    def test_tables_page_and_where_it_is(self, cli, made, tmp_path):
        code, out, err = cli("report", made, "-o", tmp_path / "rep", "--title", "A <title>")
        assert (code, err) == (0, "")
        assert out.splitlines()[0].split()[:4] == ["task", "setting", "utility", "metric"]
        assert out.splitlines()[-1] == str(tmp_path / "rep" / "index.html")
        names = {p.name for p in (tmp_path / "rep").iterdir()}
        assert names >= {
            "index.html",
            "results.csv",
            "tradeoff.csv",
            "utility.csv",
            "missing.csv",
            "diagnostics.csv",
        }
        assert "A &lt;title&gt;" in (tmp_path / "rep" / "index.html").read_text(encoding="utf-8")
        assert "fedgn(sigma=0.5)" in out

    def test_settings_that_differ_are_called_different_names(self):
        def configuration(params, *wraps, task="digits"):
            wrappers = [{"name": "clip_noise", "params": {"clip": 1.0, "noise": n}} for n in wraps]
            return Configuration(task=task, defense="fedgn", params=params, wrappers=wrappers)

        one, two = ({"sigma": 0.1, "lam": lam, "lr": 0.1} for lam in (1.0, 10.0))
        every = [
            *(configuration(one), configuration(two)),
            *(configuration(one, 0.3), configuration(one, 0.5)),
            configuration(one, task="digit-pairs"),
        ]
        assert list(summary.setting_labels(every).values()) == [
            *("fedgn(sigma=0.1, lam=1.0)", "fedgn(sigma=0.1, lam=10.0)"),
            *(
                "fedgn(sigma=0.1) + clip_noise(noise=0.3)",
                "fedgn(sigma=0.1) + clip_noise(noise=0.5)",
            ),
            "fedgn(sigma=0.1)",
        ]

    def test_first_come_the_metrics_that_judge_whoever_made_them(self):
        one, two = Topic(name="one", order=2, ask="?"), Topic(name="two", order=1, ask="?")

        def number(name, topic=None, rank=0, **more):
            about = {"direction": "up", "low": 0.0, "high": 1.0, "unit": "client"}
            meaning = Meaning(name=name, topic=topic, rank=rank, **about, **more)
            return SimpleNamespace(metric=name, meaning=meaning)

        numbers = [
            *(number("third", one, 3), number("judge", one, 1, public="third")),
            *(number("good", two, 2, as_good=0.9), number("better", two, 4, as_good=0.5)),
            *(number("same", two, 3), number("of_a_stranger"), number("second", one, 2)),
            number("lowest", two),
        ]
        setting = SimpleNamespace(numbers=numbers)
        assert summary.first_metrics([setting]) == [
            "lowest",
            "good",
            "judge",
            "third",
            "of_a_stranger",
        ]
        # What a task does not have judges nothing there.
        assert summary.first_metrics([SimpleNamespace(numbers=numbers[:1])]) == ["third"]
        assert summary.first_metrics([]) == []

    @pytest.mark.parametrize(
        ("flag", "note"),
        [
            ("stale_attack", "attacked by other code than is installed"),
            ("stale_run", "trained by other code than is installed"),
            ("mixed_code", "made by more than one code"),
            ("unofficial_data", "unofficial data"),
            ("no_control", "no control"),
        ],
    )
    def test_the_table_notes_what_keeps_a_number_from_acquitting(self, cli, tmp_path, flag, note):
        run = make_run(tmp_path / "runs")
        add_attack(run, "one", [measure("p_leak", [0.0] * 10, 0.1, [1.0] * 10, flag=flag)])
        code, out, _ = cli("report", tmp_path / "runs", "-o", tmp_path / "rep", "--format", "csv")
        (line,) = [x for x in out.splitlines() if x.startswith("digits ")]
        assert (code, note in line) == (0, True)

    def test_a_setting_without_a_number_of_the_end_has_a_line_that_says_so(self, cli, tmp_path):
        """Left out of the table, it would be taken for one that leaks nothing."""
        rows = {"early": [measure("p_leak", [1.0] * 10, 0.1, [1.0] * 10, stage="untrained")]}
        for k, name in enumerate(("final", "early", "none")):
            run = make_run(tmp_path / "runs", params={"sigma": 0.1 * (k + 1)})
            if name != "none":
                found = rows.get(name, [measure("p_leak", [0.0] * 10, 0.1, [1.0] * 10)])
                add_attack(run, "one", found)
        code, out, _ = cli("report", tmp_path / "runs", "-o", tmp_path / "rep", "--format", "csv")
        lines = [x for x in out.splitlines() if x.startswith("digits ")]
        assert (code, len(lines)) == (0, 3)
        assert "0.00 (0.00 to" in lines[0]
        assert lines[1].endswith("attacked untrained alone, not at the end")
        assert lines[2].endswith("not attacked")
        missing = read_csv(tmp_path / "rep" / "missing.csv", ("attack", "reason"))
        assert [
            r
            for r in missing
            if r["attack"] == "one" and "no number of the end of training" in r["reason"]
        ]

    def test_one_seed_with_an_end_does_not_silence_the_others(self, cli, tmp_path):
        for seed, stage in ((0, "final"), (1, "untrained")):
            run = make_run(tmp_path / "runs", seed=seed)
            add_attack(run, "one", [measure("p_leak", [0.0] * 10, 0.1, [1.0] * 10, stage=stage)])
        assert cli("report", tmp_path / "runs", "-o", tmp_path / "rep", "--format", "csv")[0] == 0
        missing = read_csv(tmp_path / "rep" / "missing.csv", ("attack", "reason"))
        (line,) = [
            r["reason"]
            for r in missing
            if r["reason"].startswith("no number of the end of training")
        ]
        assert "(seed 1), only untrained" in line

    def test_a_guess_file_without_guesses_is_one_sentence(self, cli, tmp_path):
        run = make_run(tmp_path / "runs")
        add_attack(run, "one", [measure("psnr", [9.0] * 10, [8.0] * 10, [20.0] * 10)])
        sides = ("report", tmp_path / "runs", "-o", tmp_path / "rep", "--format", "html")
        code, _, err = cli(*sides)
        assert code == 2
        assert "guess.safetensors holds no guess" in err
        assert err.count("\n") == 1

    def test_json(self, cli, made, tmp_path):
        code, out, _ = cli("report", made, "-o", tmp_path / "rep", "--format", "html", "--json")
        found = json.loads(out)
        assert (code, found["report"]) == (0, str(tmp_path / "rep" / "index.html"))
        assert {r["attack"] for r in found["rows"]} >= {"prototype_leakage", "any_attack"}
        assert found["rows"] == folders.read_table(tmp_path / "rep" / "tradeoff.csv", TRADEOFF)

    def test_what_was_not_asked_for_is_not_named(self, cli, made, tmp_path):
        code, out, _ = cli("report", made, "-o", tmp_path / "rep", "--format", "json")
        assert (code, out.splitlines()[-1]) == (0, str(tmp_path / "rep"))
        assert not (tmp_path / "rep" / "index.html").exists()
        code, _, err = cli("report", made, "-o", tmp_path / "other", "--format", "json", "--open")
        assert (code, err) == (
            2,
            "leakbench: --open needs the page, but --format is json; add html to it.\n",
        )
        assert not (tmp_path / "other").exists()

    def test_formats_are_those_of_the_list(self, cli, made, tmp_path):
        code, _, err = cli("report", made, "-o", tmp_path / "rep", "--format", "htm")
        assert code == 2
        assert "Did you mean 'html'?" in err
        assert not (tmp_path / "rep").exists()

    def test_a_run_without_attacks_has_headers_and_reasons(self, cli, tmp_path):
        trained(tmp_path / "runs", rounds=1)
        assert cli("report", tmp_path / "runs", "-o", tmp_path / "rep", "--format", "")[0] == 0
        assert read_csv(tmp_path / "rep" / "results.csv", RESULTS) == []
        missing = {
            r["attack"]: r["reason"]
            for r in read_csv(tmp_path / "rep" / "missing.csv", ("attack", "reason"))
        }
        assert "leakbench attack" in missing["prototype_leakage"]


def test_one_method_without_a_defense_is_judged_wherever_it_is_told(cli, tmp_path):
    """The same sentence on the terminal, on the page, in report.md and in report.json."""
    from leakbench import api

    run = make_run(tmp_path / "runs", defense="fedavg", params={}, hides=False)
    clients = [1.0] * 9 + [0.0]
    add_attack(run, "prototype_averaging", [measure("p_leak", clients, 0.1, clients)])
    told = "FedAvg leaks: an attacker names 9 of 10 clients, at worst 9 of 10. A blind guess names"
    out = tmp_path / "rep"
    code, said, _ = cli("report", tmp_path / "runs", "-o", out, "--format", "html,json,markdown")
    assert code == 0
    assert f"digits, prototypes: {told} 1 of 10." in said.splitlines()
    page = (out / "index.html").read_text(encoding="utf-8")
    assert "</b> and the reference" not in page
    assert 'class="chart wide' in page
    sheet = (out / "report.md").read_text(encoding="utf-8")
    assert told in sheet
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    assert "".join(part["text"] for part in report["headline"]).startswith(told)
    (line,) = [t for t in api.plot(tmp_path / "runs").axes[0].texts if t.get_text() == "FedAvg"]
    assert line.get_visible()
