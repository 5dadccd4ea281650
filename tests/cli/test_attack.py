"""leakbench attack and score: what is run, what is printed, what is left out."""

from __future__ import annotations

import json
import os
import re

import pytest
from helpers.run_folders import edited
from helpers.small_runs import copied, plugged, source, trained, tree_of

from leakbench import api
from leakbench.base import registry
from leakbench.base.errors import UsageError
from leakbench.record import folders
from leakbench.record.columns import RESULTS
from leakbench.work import pipeline


class TestAttack:
    def test_a_sweep_and_a_word_that_json_would_read_as_something_else(self, cli, made, tmp_path):
        where = copied(folders.find([made])[0], tmp_path).path
        code, out, err = cli(
            "attack", where, "-a", "prototype_leakage", "-s", "candidates=true,public"
        )
        assert code == 0
        assert {line.split()[1] for line in out.splitlines()[1:]} == {"prototype_leakage"}
        assert sorted(f.meta["params"]["candidates"] for f in folders.load(where).attacks) == [
            "public",
            "true",
        ]
        assert "about" not in err

    def test_what_is_there_is_run_again_by_force_or_by_other_code(
        self, cli, made, tmp_path, monkeypatch
    ):
        from leakbench.attacking import guessing

        where, ran = copied(folders.find([made])[0], tmp_path).path, []
        real = guessing.guessed
        monkeypatch.setattr(
            guessing, "guessed", lambda *a, **k: (ran.append(a[1]), real(*a, **k))[1]
        )
        line = ("attack", where, "-a", "prototype_leakage")
        code, table, err = cli(*line)
        assert (code, ran) == (0, [])
        assert "run again" not in err
        assert cli(*line, "--force")[:2] == (0, table)
        assert ran == ["prototype_leakage"]
        (folder,) = (where / "attacks").glob("prototype_*")
        edited(folder / "attack.json", lambda m: m["sources"].update(attack="0" * 64))
        _, scored, _ = cli("score", where)
        assert all("stale_attack" in line for line in scored.splitlines()[1:])
        code, out, err = cli(*line)
        assert (code, out) == (0, table)
        told = f"prototype_leakage on {folders.load(where).id}: made by other code of"
        assert f"{told} prototype_leakage: run again\n" in err
        assert len(ran) == 2

    def test_who_writes_there_is_said(self, cli, made, tmp_path, monkeypatch):
        from leakbench.base import locks

        where = copied(folders.find([made])[0], tmp_path).path
        monkeypatch.setattr(locks, "WAIT", 0.1)
        (folder,) = (where / "attacks").glob("prototype_*")
        with locks.attacking(where, folder.name):
            for command in ("attack", "score"):
                code, out, err = cli(command, where, "-a", "prototype_leakage")
                assert (code, out) == (2, "")
                assert f"is being made by process {os.getpid()}: wait until it has ended" in err
            assert cli("report", where, "-o", tmp_path / "r", "--format", "csv")[0] == 0

    def test_predicted_times_come_before_anything_is_run(self, cli, made, tmp_path, monkeypatch):
        from leakbench.attacking import choices
        from leakbench.record.recording import Recording

        monkeypatch.setattr(
            pipeline, "attack", lambda *a, **k: str(folders.find([made])[0].attacks[0].path)
        )
        code, _, err = cli("attack", made)
        assert code == 0
        lines = err.splitlines()
        times = [i for i, line in enumerate(lines) if ": about " in line and "attacks" not in line]
        planned = choices.planned(Recording(folders.find([made])[0]))
        assert len(times) == len(planned) >= 4  # every setting of every attack that fits
        assert lines[max(times) + 1].startswith(f"{len(planned)} attacks on 1 runs: about ")

    def test_a_budget_of_nothing_does_not_advise_itself(self, cli, made):
        code, _, err = cli("attack", made, "-a", "prototype_leakage", "--force", "--budget", "0")
        assert code == 0
        assert "with --budget 1 the first: prototype_leakage on " in err

    def test_what_is_done_on_several_runs_is_told_in_one_line(
        self, cli, made, tmp_path, monkeypatch
    ):
        """Ten runs and 23 attacks were 230 lines before the first began."""
        run = folders.find([made])[0]
        both = [copied(run, tmp_path / name).path for name in "ab"]
        monkeypatch.setattr(pipeline, "attack", lambda *a, **k: str(run.attacks[0].path))
        _, _, err = cli("attack", *both)
        _, _, alone = cli("attack", both[0])
        told = [line for line in err.splitlines() if " on 2 runs: about " in line]
        apart = [line for line in alone.splitlines() if f" on {run.id}: about " in line]
        assert len(told) == len(apart) + 1  # the last is of all together
        assert f" on {run.id}: about " not in err
        _, _, err = cli("attack", *both, "-v")
        assert err.count(f" on {run.id}: about ") == 2 * len(apart)

    def test_the_cheap_come_first_and_what_does_not_fit_the_budget_is_named(
        self, cli, made, tmp_path, monkeypatch
    ):
        where = copied(folders.find([made])[0], tmp_path).path
        took = {"prototype_leakage": 50.0, "prototype_averaging": 5.0, "prototype_centring": 200.0}
        for name, seconds in took.items():
            attack = registry.load_plugin("attacks", name)
            monkeypatch.setattr(attack, "seconds", lambda self, view, seconds=seconds: seconds)
        ran = []
        monkeypatch.setattr(
            pipeline,
            "attack",
            lambda run, name, *a, **k: ran.append(name) or str(folders.load(where).attacks[0].path),
        )
        line = ("attack", where, "-a", ",".join(took), "--force")
        code, _, err = cli(*line, "--budget", "1")
        assert (code, ran) == (0, ["prototype_averaging", "prototype_leakage"])
        assert "3 attacks on 1 runs: about 4 min\n" in err
        assert "1 of 3 attacks did not fit into --budget 1; they would take about 3 min" in err
        named = f"prototype_centring on {folders.load(where).id}.\n"
        assert err.endswith(f"runs them, with --budget 4 the first: {named}")
        code, _, err = cli(*line, "-q")
        assert (code, err) == (0, "")
        assert ran[2:] == ["prototype_averaging", "prototype_leakage", "prototype_centring"]

    @pytest.mark.parametrize("hook", ["obstacle", "falls_to", "seconds", "conditions"])
    def test_an_attack_that_fails_where_it_is_only_asked_costs_its_own_row(
        self, cli, made, tmp_path, hook
    ):
        where = copied(folders.find([made])[0], tmp_path).path
        broken = (
            source()
            + f"""
    def {hook}(self, run):
        raise KeyError("lost")
"""
        )
        with plugged("attacks", tmp_path, mine=broken):
            code, out, err = cli("attack", where, "-a", "mine,prototype_averaging")
            report = cli("report", where, "-o", tmp_path / "r", "--format", "csv")
        assert "prototype_averaging" in out
        why = [f.failure for f in folders.load(where).attacks if f.name == "mine"]
        if hook in ("falls_to", "seconds"):  # it can do without
            assert (code, why) == (0, [None])
            return
        assert code == 4
        assert re.search(r"mine on \S+ failed: KeyError: 'lost' \(mine\.py, line", err)
        assert why[0].startswith("KeyError: 'lost'")
        missing = (tmp_path / "r" / "missing.csv").read_text()
        assert "KeyError: 'lost'" in missing
        assert report[0] == 0

    def test_named_alone_it_is_run_in_the_settings_that_fit(self, cli, tmp_path):
        """FedAvg sends no labels; its updates tell them, as the sentence says where asked so."""
        run = trained(tmp_path, "fedavg")
        code, out, _ = cli("attack", run.path, "-a", "label_inference")
        assert code == 0
        lines = [line.split() for line in out.splitlines()]
        assert lines[0][1:3] == ["attack", "settings"]
        assert {tuple(line[1:3]) for line in lines[1:]} == {
            ("label_inference", "source=update"),
            ("label_inference", "source=moved"),
            ("label_inference", "source=calibrated"),
            ("label_inference", "source=pooled"),
        }
        code, _, err = cli("attack", run.path, "-a", "label_inference", "-s", "source=message")
        assert code == 2
        assert "no labels; what fits is label_inference(source=update) or" in err
        with pytest.raises(UsageError, match=r"what fits is label_inference\(source=update\) or"):
            api.attack(run, "label_inference")

    def test_two_copies_of_a_run_have_results_each(self, cli, made, tmp_path):
        for name in "ab":
            copied(folders.find([made])[0], tmp_path / name)
        code, out, _ = cli("attack", tmp_path, "-a", "prototype_leakage", "--json")
        rows = [r for r in json.loads(out) if r["metric"] == "p_leak" and r["stage"] == "final"]
        assert (code, len(rows)) == (0, 2)

    def test_what_would_take_long_is_listed_and_run_only_when_named(
        self, cli, made, tmp_path, monkeypatch
    ):

        where = copied(folders.find([made])[0], tmp_path).path
        attack = registry.load_plugin("attacks", "prototype_leakage")
        monkeypatch.setattr(attack, "seconds", lambda self, recording: 900.0)
        for other in set(registry.names("attacks")) - {"prototype_leakage"}:
            monkeypatch.setattr(
                registry.load_plugin("attacks", other),
                "obstacle",
                lambda self, recording: "not today",
            )
        ran = []
        monkeypatch.setattr(
            pipeline,
            "attack",
            lambda run, name, *a, **k: ran.append(name) or str(folders.load(where).attacks[0].path),
        )
        code, _, err = cli("attack", where, "--force")
        assert (code, ran) == (0, [])
        assert "prototype_leakage on" in err
        assert "it would take about 15 minutes; name it to run it." in err
        assert cli("attack", where, "-a", "prototype_leakage")[0] == 0
        assert ran == ["prototype_leakage"]

    def test_what_would_take_long_is_made_shorter_where_nobody_named_it(
        self, cli, made, tmp_path, monkeypatch
    ):
        where = copied(folders.find([made])[0], tmp_path).path
        attack = registry.load_plugin("attacks", "gradient_inversion")
        monkeypatch.setattr(attack, "seconds", lambda self, run: 300.0 * self.targets)
        monkeypatch.setattr(
            attack, "within", lambda self, run, seconds: {"targets": int(seconds / 300)}
        )
        for other in set(registry.names("attacks")) - {"gradient_inversion"}:
            monkeypatch.setattr(
                registry.load_plugin("attacks", other), "obstacle", lambda self, run: "not today"
            )
        ran = []
        monkeypatch.setattr(
            pipeline,
            "attack",
            lambda run, name, params, *a, **k: (
                ran.append(params["targets"]) or str(folders.load(where).attacks[0].path)
            ),
        )
        code, _, err = cli("attack", where, "--force")
        assert (code, set(ran)) == (0, {2})
        assert (
            "it would take about 40 minutes: made is gradient_inversion(targets=2); name it to run"
            " it all." in err
        )

    def test_json_holds_every_row_with_every_column(self, cli, made):
        code, out, err = cli("attack", made, "-a", "prototype_leakage", "--json", "-q")
        rows = json.loads(out)
        assert (code, err) == (0, "")
        assert rows
        assert all(set(r) == set(RESULTS) for r in rows)

    def test_several_attacks_need_dotted_keys(self, cli, made):
        both = ["-a", "prototype_leakage", "-a", "gradient_inversion"]
        code, out, err = cli("attack", made, *both, "-s", "seed=1")
        assert (code, out) == (2, "")
        assert (
            "with 2 attacks only a dotted key says whose parameter it is; write -s"
            " prototype_leakage.seed=VALUE." in err
        )
        code, _, err = cli(
            "attack", made, "-a", "prototype_leakage", "-s", "gradient_inversion.steps=5"
        )
        assert code == 2
        assert "attack 'gradient_inversion' was not named with -a" in err

    def test_dotted_keys_reach_their_attack(self, cli, made, tmp_path):
        where = copied(folders.find([made])[0], tmp_path).path
        both = [
            "-a",
            "prototype_leakage",
            "-a",
            "gradient_inversion",
            "-s",
            "prototype_leakage.seed=5",
            "-s",
            "gradient_inversion.steps=3",
        ]
        more = [
            "-s",
            "gradient_inversion.targets=1",
            "-s",
            'gradient_inversion.at=["final"]',
            "-s",
            "gradient_inversion.restarts=1",
            "-s",
            "gradient_inversion.attacker=naive",
        ]
        assert cli("attack", where, *both, *more)[0] == 0
        found = {
            (f.name, f.meta["params"].get("steps"), f.meta["params"]["seed"])
            for f in folders.load(where).attacks
            if f.meta["params"]["seed"] or f.name != "prototype_leakage"
        }
        assert found == {("prototype_leakage", None, 5), ("gradient_inversion", 3, 0)}

    def test_a_failing_attack_does_not_stop_the_others(self, cli, made, tmp_path):
        where = copied(folders.find([made])[0], tmp_path).path
        with plugged("attacks", tmp_path, mine=source("return 1 / 0")):
            code, out, err = cli("attack", where, "-a", "mine", "-a", "prototype_leakage")
            assert code == 4
            assert "prototype_leakage" in out
            assert "ZeroDivisionError" in err
            assert {f.name: f.status.split(":")[0] for f in folders.load(where).attacks} == {
                "mine": "failed",
                "prototype_leakage": "done",
            }

    def test_nothing_fits_is_what_the_user_gave(self, cli, made):
        code, _, err = cli("attack", made, "-a", "distance_correlation")
        assert code == 2
        assert "distance_correlation does not fit" in err

    def test_an_unfinished_run_is_said_and_the_others_are_attacked(self, cli, made, tmp_path):
        one = copied(folders.find([made])[0], tmp_path)
        edited(one.path / "run.json", lambda meta: meta.update(status="running"))
        code, out, err = cli("attack", made, one.path, "-a", "prototype_leakage")
        assert code == 4
        assert "is not complete (status: running)" in err
        assert len(out.splitlines()) > 1

    def test_a_run_is_a_folder_a_folder_of_some_or_a_glob(self, cli, made):
        (folder,) = made.iterdir()
        tables = [
            cli("attack", p, "-a", "prototype_leakage", "-q")[1]
            for p in (folder, made, made.parent, f"{made}/digits-*", f"{made.parent}/*/*-s0")
        ]
        assert len(set(tables)) == 1
        assert len(tables[0].splitlines()) > 1


class TestScore:
    def test_the_same_table_again_and_no_attack(self, cli, made, monkeypatch):
        from leakbench.attacking import guessing

        before, table = tree_of(made), cli("attack", made, "-a", "prototype_leakage")[1]
        monkeypatch.setattr(guessing, "guessed", lambda *a, **k: pytest.fail("attacked"))
        code, out, err = cli("score", made)
        assert (code, out) == (0, table)
        assert err.startswith("[1/1] prototype_leakage on digits-fedgn-")
        assert tree_of(made) == before
        assert json.loads(cli("score", made, "-a", "prototype_leakage", "--json")[1])

    def test_a_folder_renamed_by_hand_is_scored_where_it_is_or_refused(self, cli, made, tmp_path):
        code, _, err = cli("score", made, "-a", "distance_correlation")
        assert code == 2
        assert "no saved guesses were found" in err
