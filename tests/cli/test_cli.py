"""Every command on tiny runs: what it prints where, and its exit code."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from helpers.federations import digits as small_digits
from helpers.federations import uneven
from helpers.run_folders import add_attack, edited, make_run, measure
from helpers.small_runs import ON_THE_LINE, TASK, copied, plugged, source, trained, tree_of

import leakbench
from leakbench import api, pipeline
from leakbench.base import registry
from leakbench.base.errors import UsageError
from leakbench.base.files import read_csv, read_sealed
from leakbench.base.meaning import Meaning, Topic
from leakbench.cli import keys, options, run, summary
from leakbench.gate.baseline import Baseline
from leakbench.gate.baseline import load as load_baseline
from leakbench.gate.baseline import save as save_baseline
from leakbench.record import folders
from leakbench.record.columns import RESULTS, TRADEOFF
from leakbench.results.number import Configuration


@pytest.fixture
def cli(capsys):
    """`leakbench ARGV` in this process: (exit code, stdout, stderr)."""

    def call(*argv):
        capsys.readouterr()
        code = run([str(a) for a in argv])
        done = capsys.readouterr()
        assert "Traceback" not in done.err
        return code, done.out, done.err

    return call


def apart(*argv, cwd=None, **kept):
    """The same in a process of its own, which Ctrl-C reaches: a child inherits that it is ignored,
    as a shell has it of what it runs in the background.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return subprocess.Popen(
            [sys.executable, "-m", "leakbench", *map(str, argv)],
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            **kept,
        )
    finally:
        signal.signal(signal.SIGINT, before)


def gone(group):
    """Is nobody left of a group of processes, soon?"""
    for _ in range(200):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def small(*more, d="fedgn", rounds=3):
    return ["train", "-d", d, *ON_THE_LINE, "--rounds", rounds, *more]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A folder with one attacked run."""
    out = tmp_path_factory.mktemp("made") / "runs"
    api.attack(trained(out, rounds=3, params={"sigma": 0.5}), "prototype_leakage")
    return out


class TestTrain:
    def test_the_table_is_on_stdout_and_progress_on_stderr(self, cli, tmp_path):
        code, out, err = cli(*small("-o", tmp_path / "runs"))
        assert code == 0
        (folder,) = (tmp_path / "runs").iterdir()
        head, line = out.splitlines()
        assert head.split() == ["run", "engine", "metric", "value", "low", "high", "chance"]
        assert line.split()[:3] == [str(folder), "fused", "accuracy"]
        assert err == f"[1/1] {folder.name}\n"

    def test_quiet_silences_progress(self, cli, tmp_path):
        assert cli(*small("-q", "-o", tmp_path))[2] == ""

    def test_json_is_all_there_is_on_stdout(self, cli, tmp_path):
        code, out, _ = cli(*small("--json", "-o", tmp_path))
        (row,) = json.loads(out)
        assert (code, row["metric"], row["engine"]) == (0, "accuracy", "fused")
        assert row["low"] <= row["value"] <= row["high"]

    def test_what_is_complete_is_not_trained_again_and_that_is_one_line(self, cli, tmp_path):
        _, first, _ = cli(*small("-o", tmp_path))
        (folder,) = tmp_path.iterdir()
        before = tree_of(folder)
        code, out, err = cli(*small("-o", tmp_path))
        assert (code, out) == (0, first)
        assert [line for line in err.splitlines() if "not trained again" in line] == [
            f"{folder} is complete; it was not trained again."
        ]
        assert tree_of(folder) == before

    def test_a_comma_list_sweeps(self, cli, tmp_path):
        code, out, _ = cli(
            *small("-s", "sigma=0.1,0.3", "--seeds", "0-1", "-o", tmp_path, rounds=1)
        )
        assert (code, len(out.splitlines())) == (0, 5)
        specs = [read_sealed(f / "run.json")["spec"] for f in tmp_path.iterdir()]
        assert sorted((s["defense"]["params"]["sigma"], s["seed"]) for s in specs) == [
            (0.1, 0),
            (0.1, 1),
            (0.3, 0),
            (0.3, 1),
        ]

    def test_naming_one_run_twice_trains_it_once(self, cli, tmp_path):
        code, out, err = cli(
            *small("-s", "sigma=0.1,1e-1", "-d", "fedgn", "-o", tmp_path, rounds=1)
        )
        assert (code, len(out.splitlines()), len(err.splitlines())) == (0, 2, 1)

    def test_parameters_reach_whom_they_name(self, cli, tmp_path):
        given = [
            "-w",
            "clip_noise",
            "-s",
            "clip_noise.clip=0.5",
            "-s",
            'clip_noise.kinds=["prototype"]',
            "-s",
            "fedgn.lam=2",
            "-s",
            "model.width=4",
        ]
        line = [
            "train",
            "-d",
            "fedgn",
            "-s",
            "task.model=mlp",
            "-s",
            "task.dim=8",
            "-s",
            "task.evaluations=10",
            "--rounds",
            1,
            *given,
        ]
        code, _, err = cli(*line, "--dtype", "float64", "--engine", "loop", "-o", tmp_path)
        assert code == 0
        (folder,) = tmp_path.iterdir()
        spec = read_sealed(folder / "run.json")["spec"]
        assert spec["wrappers"] == [
            {"name": "clip_noise", "params": {"clip": 0.5, "kinds": ["prototype"], "noise": 0.1}}
        ]
        assert (spec["defense"]["params"]["lam"], spec["task"]["params"]["width"]) == (2.0, 4)
        assert (spec["dtype"], spec["engine"]) == ("float64", "loop")
        assert "no wrapper covers the uplink of update" in err

    def test_the_users_value_wins_over_the_tasks_and_that_over_the_methods(self, cli, tmp_path):
        cli(*small("-s", "own_lr=0.5", "-o", tmp_path, rounds=1))
        (folder,) = tmp_path.iterdir()
        params = read_sealed(folder / "run.json")["spec"]["defense"]["params"]
        assert (params["own_lr"], params["lam"], params["sigma"]) == (0.5, 1.0, 0.1)

    def test_one_failing_run_does_not_stop_the_others(self, cli, tmp_path):
        code, out, err = cli(*small("-s", "lr=1e38,0.1", "-o", tmp_path, d="fedavg"))
        assert code == 4
        assert len(out.splitlines()) == 2
        status = {f.name: read_sealed(f / "run.json")["status"] for f in tmp_path.iterdir()}
        assert sorted(s == "done" for s in status.values()) == [False, True]
        (why,) = [s for s in status.values() if s != "done"]
        assert why.startswith("failed: training diverged by round")
        assert "training diverged" in err

    @pytest.mark.slow
    def test_several_at_a_time_give_the_same_bytes(self, cli, tmp_path):
        alone, together = tmp_path / "alone", tmp_path / "together"
        assert cli(*small("--seeds", "0,1", "-o", alone, rounds=2))[0] == 0
        code, out, err = cli(*small("--seeds", "0,1", "--jobs", "2", "-o", together, rounds=2))
        assert (code, len(out.splitlines())) == (0, 3)
        assert {line.split()[0] for line in err.splitlines()} == {"[1/2]", "[2/2]"}
        first, second = tree_of(alone), tree_of(together)
        assert first.keys() == second.keys()
        assert [n for n in first if first[n] != second[n] and not n.endswith("run.json")] == []

    def test_deterministic_asks_torch_for_it(self, cli, tmp_path):
        try:
            assert cli(*small("--deterministic", "-o", tmp_path, rounds=1))[0] == 0
            assert torch.are_deterministic_algorithms_enabled()
        finally:
            torch.use_deterministic_algorithms(False)


SPEC = """
task = {name = "digits", model = "mlp", width = 8, dim = 8, evaluations = 10}
rounds = 2
seeds = [0, 3]
[[defense]]
name = "fedgn"
sigma = [0.1, 0.3]
[[defense]]
name = "fedhide"
[[attack]]
name = "prototype_leakage"
candidates = ["true", "public"]
"""


class TestSpecFiles:
    def written(self, tmp_path, text=SPEC):
        (tmp_path / "SPEC.toml").write_text(text, encoding="utf-8")
        return tmp_path / "SPEC.toml"

    def test_lists_sweep_and_tables_repeat(self, tmp_path):
        plan = options.read_spec(self.written(tmp_path))
        specs = list(plan.specs())
        assert len(specs) == 6
        assert {(s["defense"], s["params"].get("sigma"), s["seed"]) for s in specs} == {
            *(("fedgn", g, s) for g in (0.1, 0.3) for s in (0, 3)),
            *(("fedhide", None, s) for s in (0, 3)),
        }
        assert all(s["rounds"] == 2 and s["task_params"]["width"] == 8 for s in specs)

    def test_attacks_are_stored_run_and_replaced(self, cli, tmp_path):
        spec, out = (
            self.written(
                tmp_path,
                SPEC.replace("seeds = [0, 3]", "")
                .replace("[0.1, 0.3]", "0.1")
                .replace('[[defense]]\nname = "fedhide"\n', ""),
            ),
            tmp_path / "r",
        )
        assert cli("train", spec, "-o", out)[0] == 0
        (folder,) = out.iterdir()
        stored = read_sealed(folder / "run.json")["spec"]["attacks"]
        assert stored == [
            {"name": "prototype_leakage", "params": {"candidates": c, "seed": 0}}
            for c in ("true", "public")
        ]
        code, _, err = cli("attack", out)
        assert code == 0
        assert [f.meta["params"]["candidates"] for f in folders.load(folder).attacks if f.done] in (
            ["true", "public"],
            ["public", "true"],
        )
        assert "2 attacks on 1 runs" in err
        before = {n: b for n, b in tree_of(folder).items() if n != "run.json"}
        self.written(tmp_path, spec.read_text().replace('["true", "public"]', '"public"\nseed = 4'))
        code, _, err = cli("train", spec, "-o", out)
        assert code == 0
        assert "not trained again" in err
        assert read_sealed(folder / "run.json")["spec"]["attacks"] == [
            {"name": "prototype_leakage", "params": {"candidates": "public", "seed": 4}}
        ]
        assert {n: b for n, b in tree_of(folder).items() if n != "run.json"} == before

    def test_the_command_line_wins(self, cli, tmp_path):
        spec = self.written(tmp_path)
        assert (
            cli(
                "train",
                spec,
                "-d",
                "fedcs",
                "--seeds",
                "5",
                "--rounds",
                "1",
                "-s",
                "cos_theta=0.4",
                "-o",
                tmp_path / "r",
            )[0]
            == 0
        )
        (folder,) = (tmp_path / "r").iterdir()
        found = read_sealed(folder / "run.json")["spec"]
        assert (
            found["defense"]["name"],
            found["defense"]["params"]["cos_theta"],
            found["seed"],
            found["rounds"],
        ) == ("fedcs", 0.4, 5, 1)

    def test_a_key_goes_to_every_table_of_that_name(self, tmp_path):
        plan = options.read_spec(
            self.written(
                tmp_path,
                '[[defense]]\nname = "fedgn"\nsigma = 0.1\n[[defense]]\nname = "fedgn"\nsigma ='
                " 0.2\n",
            )
        )
        options.amend(
            plan,
            [],
            [],
            ["lam=3"],
            dict.fromkeys(("task", "rounds", "engine", "dtype", "record")),
            None,
        )
        assert [s["params"] for s in plan.specs()] == [
            {"sigma": 0.1, "lam": 3},
            {"sigma": 0.2, "lam": 3},
        ]

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ('tsk = "digits"', "unknown key 'tsk'. Did you mean 'task'?"),
            ("rounds = 2.5", "rounds = 2.5: expected a whole number."),
            ("rounds = true", "rounds = True: expected a whole number."),
            ("seeds = [0, 'a']", "seeds = 'a': expected a whole number."),
            ("task = 3", "task = 3: expected text."),
            (
                'defense = "fedgn"',
                "defense must be written as [[defense]] tables, each with a name.",
            ),
            ("[[defense]]\nsigma = 0.1", 'defense: a table without a name; write name = "...".'),
            (
                "[[defense]]\nname = 'fedgn'\nsigmo = 0.1",
                "defense fedgn: unknown parameter 'sigmo'. Did you mean 'sigma'?",
            ),
            (
                "[[attack]]\nname = 'prototype_leakag'\n[[defense]]\nname='fedgn'",
                "unknown attack 'prototype_leakag'. Did you mean 'prototype_leakage'?",
            ),
            (
                "[[attack]]\nname = 'prototype_leakage'\nsed = 1\n[[defense]]\nname='fedgn'",
                "attack prototype_leakage: unknown parameter 'sed'. Did you mean 'seed'?",
            ),
            ("task = ", "cannot be read as TOML"),
        ],
    )
    def test_what_is_wrong_is_one_sentence(self, cli, tmp_path, text, said):
        spec = self.written(tmp_path, text)
        code, out, err = cli("train", spec, "-o", tmp_path / "r")
        assert (code, out) == (2, "")
        assert said in err
        assert len(err.splitlines()) == 1
        assert not (tmp_path / "r").exists()


class TestOptions:
    @pytest.mark.parametrize(
        ("text", "seeds"),
        [
            ("7", [7]),
            ("0-2", [0, 1, 2]),
            ("7,9", [7, 9]),
            ("0,4,7", [0, 4, 7]),
            ("1-2,2-3", [1, 2, 3]),
            (" 5 ", [5]),
        ],
    )
    def test_seeds(self, text, seeds):
        assert keys.seeds(text) == seeds

    @pytest.mark.parametrize("text", ["", "a", "2-1", "-1", "1,", "1.5", "1-2-3"])
    def test_what_is_no_seed(self, text):
        with pytest.raises(UsageError, match="expected a seed, a range or a list"):
            keys.seeds(text)

    @pytest.mark.parametrize(
        ("text", "values"),
        [
            ("k=3", [3]),
            ("k=0.1,1e-2", [0.1, 0.01]),
            ("k=relu,tanh", ["relu", "tanh"]),
            ("k=[1, 2]", [[1, 2]]),
            ("k=[1,2],[3]", [[1, 2], [3]]),
            ('k={"a": [1, 2]}', [{"a": [1, 2]}]),
            ('k="a,b",c', ["a,b", "c"]),
            ("k=true,null", [True, None]),
            ("k=a=b", ["a=b"]),
        ],
    )
    def test_values_are_json_or_text_and_commas_sweep(self, text, values):
        assert keys.settings([text]) == {"k": values}

    def test_bare_and_dotted_keys(self):
        assert keys.route({"sigma": [1], "task.clients": [5]}, ["fedgn"], "defense") == {
            "fedgn": {"sigma": [1]},
            "task": {"clients": [5]},
        }
        with pytest.raises(
            UsageError, match=r"with 2 attacks only a dotted key .* write -s a.seed=VALUE"
        ):
            keys.route({"seed": [1]}, ["a", "b"], "attack")
        with pytest.raises(UsageError, match="without a named attack"):
            keys.route({"seed": [1]}, [], "attack")


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
        times = [i for i, line in enumerate(lines) if ": about " in line and line.endswith(" s")]
        planned = choices.planned(Recording(folders.find([made])[0]))
        assert len(times) == len(planned) >= 4  # every setting of every attack that fits
        assert lines[max(times) + 1] == f"{len(planned)} attacks on 1 runs"

    def test_what_would_take_long_is_listed_and_run_only_when_named(
        self, cli, made, tmp_path, monkeypatch
    ):

        where = copied(folders.find([made])[0], tmp_path).path
        attack = registry.load("attacks", "prototype_leakage")
        monkeypatch.setattr(attack, "seconds", lambda self, recording: 900.0)
        for other in set(registry.names("attacks")) - {"prototype_leakage"}:
            monkeypatch.setattr(
                registry.load("attacks", other), "obstacle", lambda self, recording: "not today"
            )
        ran = []
        monkeypatch.setattr(
            pipeline,
            "attack",
            lambda run, name, *a, **k: ran.append(name) or str(folders.load(where).attacks[0].path),
        )
        code, _, err = cli("attack", where)
        assert (code, ran) == (0, [])
        assert "prototype_leakage on" in err
        assert "would take about 15 minutes; name it with -a to run it." in err
        assert cli("attack", where, "-a", "prototype_leakage")[0] == 0
        assert ran == ["prototype_leakage"]

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
        assert list(summary.labels(every).values()) == [
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
        assert summary.first([setting]) == ["lowest", "good", "judge", "third", "of_a_stranger"]
        # What a task does not have judges nothing there.
        assert summary.first([SimpleNamespace(numbers=numbers[:1])]) == ["third"]
        assert summary.first([]) == []

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


@pytest.fixture(scope="module")
def gated(tmp_path_factory):
    """Runs of three seeds, attacked, and their baseline."""
    folder = tmp_path_factory.mktemp("gate")
    for seed in range(3):
        api.attack(
            trained(folder / "runs", rounds=12, params={"sigma": 0.5}, seed=seed),
            "prototype_leakage",
        )
    api.update(folders.find([folder / "runs"]), baseline=folder / "leakage.json")
    return folder


@pytest.mark.parametrize("command", ["report", "check", "update"])
def test_each_table_of_a_run_is_read_once(cli, gated, made, tmp_path, monkeypatch, command):
    """However many of a report, a check and a comparison are asked for at a time."""
    read, count = folders.read_csv, Counter()

    def counted(path, columns):
        count[path] += 1
        return read(path, columns)

    monkeypatch.setattr(folders, "read_csv", counted)
    baseline = tmp_path / "leakage.json"
    for name in ("leakage.json", "leakage.units.json"):
        shutil.copy(gated / name, tmp_path / name)
    runs, sides = gated / "runs", ("--check", baseline, "--against", made)
    asked = {
        "report": ("report", runs, "-o", tmp_path / "rep", *sides),
        "check": ("check", runs, "--baseline", baseline),
        "update": ("check", runs, "--baseline", baseline, "--update"),
    }
    assert cli(*asked[command])[0] == 0
    names = ("utility.csv", "results.csv", "units.csv")
    read_from = (runs, made) if command == "report" else (runs,)
    files = [f for side in read_from for name in names for f in side.rglob(name)]
    assert len(files) == 3 * (4 if command == "report" else 3)
    assert {f: count[f] for f in files} == dict.fromkeys(files, 1)


class TestCheck:
    def changed(self, gated, tmp_path, change):
        """A baseline in which ``change`` was done to every row's scores; the guesses' hashes are
        others then.
        """
        old, rows = load_baseline(gated / "leakage.json"), []
        for row in old.rows:
            fields = row.parameters()
            change(fields)
            kept = {k: fields[k] for k in ("scores", "guesses", "value", "low", "high")}
            kept["scores"] = {int(seed): units for seed, units in kept["scores"].items()}
            kept["guesses"] = {int(seed): shas for seed, shas in kept["guesses"].items()}
            rows.append(row.model_copy(update=kept))
        save_baseline(tmp_path / "leakage.json", Baseline.of(rows, old.limits, old.looks))
        return tmp_path / "leakage.json"

    @staticmethod
    def scores(row, value, *attacks):
        if row["attack"] in attacks and row["metric"] in ("p_leak", "accuracy"):
            row["scores"] = {s: {u: value(u) for u in us} for s, us in row["scores"].items()}
            mean = [v for us in row["scores"].values() for v in us.values()]
            row["value"] = row["low"] = row["high"] = sum(mean) / len(mean)
            row["guesses"] = {s: ["another"] for s in row["guesses"]}

    def test_nothing_changed_is_fine(self, cli, gated):
        code, out, err = cli("check", gated / "runs", "--baseline", gated / "leakage.json")
        assert (code, err) == (0, "")
        assert re.fullmatch(r"Check passed: all \d+ rows fine.*\n", out)
        everything = cli("check", gated / "runs", "--baseline", gated / "leakage.json", "-v")[1]
        assert everything.count("fine: ") == everything.count("\n") - 1 > 3

    def test_it_leaks_more(self, cli, gated, tmp_path):
        old = self.changed(
            gated, tmp_path, lambda r: self.scores(r, lambda u: 0.0, "cascade", "any_attack")
        )
        code, out, _ = cli("check", gated / "runs", "--baseline", old)
        assert code == 1
        assert any(
            line.startswith("leaks more") and "P_leak 0.00" in line for line in out.splitlines()
        )

    def test_utility_is_lost(self, cli, gated, tmp_path):
        old = self.changed(gated, tmp_path, lambda r: self.scores(r, lambda u: 1.0, "utility"))
        code, out, _ = cli("check", gated / "runs", "--baseline", old)
        assert code == 1
        assert any(line.startswith("loses utility") for line in out.splitlines())

    def test_too_few_seeds_cannot_tell(self, cli, gated, tmp_path):
        def one_seed(row):
            row["guesses"] = {s: ["another"] for s in row["guesses"]}
            row["scores"] = {s: v for s, v in row["scores"].items() if s == "0"}
            (units,) = row["scores"].values()
            row["value"] = sum(units.values()) / len(units)

        code, out, _ = cli(
            "check", gated / "runs", "--baseline", self.changed(gated, tmp_path, one_seed)
        )
        assert code == 3
        assert "it takes at least" in out

    def test_a_row_that_is_gone_cannot_tell(self, cli, gated, tmp_path):
        trained(tmp_path / "runs", rounds=12, params={"sigma": 0.5})
        code, out, _ = cli(
            "check", tmp_path / "runs", "--baseline", gated / "leakage.json", "--json"
        )
        assert code == 3
        found = json.loads(out)
        assert found["exit"] == 3
        assert any("no such row now" in row["reason"] for row in found["rows"])

    def test_no_baseline_names_update_and_an_empty_one_cannot_tell(self, cli, gated, tmp_path):
        code, out, err = cli("check", gated / "runs", "--baseline", tmp_path / "none.json")
        assert (code, out) == (2, "")
        assert "--update" in err
        (tmp_path / "empty.json").write_text("")
        assert cli("check", gated / "runs", "--baseline", tmp_path / "empty.json")[0] == 3

    def test_update_writes_a_new_one_and_the_same_bytes_again(self, cli, gated, tmp_path):
        code, out, _ = cli("check", gated / "runs", "--baseline", tmp_path / "b.json", "--update")
        assert code == 0
        assert "rows written" in out
        assert (tmp_path / "b.json").read_bytes() == (gated / "leakage.json").read_bytes()
        cli("check", gated / "runs", "--baseline", tmp_path / "b.json", "--update")
        assert (tmp_path / "b.json").read_bytes() == (gated / "leakage.json").read_bytes()

    def test_update_refuses_to_let_a_row_leak_more_unless_it_is_accepted(
        self, cli, gated, tmp_path
    ):
        old = self.changed(
            gated, tmp_path, lambda r: self.scores(r, lambda u: 0.0, "cascade", "any_attack")
        )
        before = old.read_bytes()
        code, out, _ = cli("check", gated / "runs", "--baseline", old, "--update")
        assert code == 1
        assert old.read_bytes() == before
        names = [
            line.split()[1].rstrip(":") for line in out.splitlines() if line.startswith("refused")
        ]
        assert names
        code, _, _ = cli(
            "check",
            gated / "runs",
            "--baseline",
            old,
            "--update",
            *(w for n in names for w in ("--accept", n)),
        )
        assert code == 0
        assert old.read_bytes() != before
        assert cli("check", gated / "runs", "--baseline", old)[0] == 0

    def test_accept_goes_with_update_and_names_a_row(self, cli, gated):
        code, _, err = cli(
            "check", gated / "runs", "--baseline", gated / "leakage.json", "--accept", "x"
        )
        assert code == 2
        assert "--accept goes with --update" in err
        before = (gated / "leakage.json").read_bytes()
        code, _, err = cli(
            "check",
            gated / "runs",
            "--baseline",
            gated / "leakage.json",
            "--update",
            "--accept",
            "digits/fedgn-0/x",
        )
        assert code == 2
        assert "no row is called 'digits/fedgn-0/x'" in err
        assert (gated / "leakage.json").read_bytes() == before


class TestListAndShow:
    def test_all_lists_name_what_the_registry_has(self, cli):
        code, out, err = cli("list")
        assert (code, err) == (0, "")
        for kind in registry.KINDS:
            assert f"{kind}:" in out.splitlines()
            assert all(
                any(line.split()[0] == name for line in out.splitlines() if line.startswith("  "))
                for name in registry.names(kind)
            )

    @pytest.mark.parametrize(
        "kind", ["defenses", "attacks", "tasks", "metrics", "models", "reports", "wrappers"]
    )
    def test_a_list_has_a_line_each_that_says_something(self, cli, kind):
        code, out, _ = cli("list", kind)
        assert code == 0
        assert all(len(line.split()) > 2 for line in out.splitlines())
        whole = (".", "?", ")") if kind != "metrics" else ("leaks up", "leaks down")
        assert [line for line in out.splitlines() if not line.endswith(whole)] == []
        found = json.loads(cli("list", kind, "--json")[1])[kind]
        assert [line.split()[0] for line in out.splitlines()] == list(found)

    @pytest.mark.parametrize("kind", registry.KINDS)
    def test_show_knows_every_name(self, cli, kind, monkeypatch):
        # What a method sends is measured in a round on digits, here of few images a client.
        digits, few = registry.load("tasks", "digits"), uneven(small_digits().load(), [20] * 10)
        monkeypatch.setattr(digits, "load", lambda self: few)
        for name in registry.names(kind):
            code, out, _ = cli("show", name)
            assert code == 0
            one = {"utilities": "utility metric"}.get(kind, kind.removesuffix("s"))
            assert out.splitlines()[0] == f"{name} ({one})"
        (about,) = json.loads(cli("show", name, "--json")[1])
        assert {p["name"] for p in about["parameters"]} == set(
            registry.load(kind, name).model_fields
        )

    @pytest.mark.parametrize("kind", ["metrics", "models"])
    def test_show_knows_what_else_is_listed(self, cli, kind):
        for name, about in json.loads(cli("list", kind, "--json")[1])[kind].items():
            code, out, err = cli("show", name)
            assert (code, err) == (0, "")
            # `exposure` is an attack, too.
            assert f"{name} ({kind.removesuffix('s')})\n  {about}\n" in out

    def test_show_knows_what_the_server_sends_back(self, cli):
        """In the first round it has nothing yet."""
        out = cli("show", "fedproto")[1]
        assert "server -> client/*: prototype" in out

    def test_show_tells_the_facts_of_a_metric(self, cli):
        out = cli("show", "psnr")[1]
        assert "PSNR of the reconstruction, dB: per image, 0 to 100, leaks up" in out
        assert "margin: 1 dB\n" in out
        assert "from 30.0 dB on as good as the original" in out
        assert "an attacker rebuilds images to ... dB\n" in out
        assert "(images, rank 1)" in out
        (about,) = json.loads(cli("show", "samples_to_90", "--json")[1])
        assert about["margin"] == ["a factor of 2"]
        assert about["meaning"]["direction"] == "down"
        assert about["meaning"]["topic"]["name"] == "context"

    def test_a_parameter_is_shown_as_a_shell_takes_it(self, cli):
        (line,) = [line for line in cli("show", "clip_noise")[1].splitlines() if "kinds" in line]
        flag, pair, *_ = shlex.split(line)
        assert (flag, keys.settings([pair])) == ("-s", {"kinds": [["update"]]})

    # The second is what a shell leaves of ["prototype"].
    @pytest.mark.parametrize("text", ["prototype", "[prototype]"])
    def test_a_word_where_a_list_is_wanted_is_told_how(self, cli, text):
        code, _, err = cli(
            "train", "-d", "fedavg", "-w", "clip_noise", "-s", f"clip_noise.kinds={text}"
        )
        assert code == 2
        assert """expected a list, for example 'kinds=["prototype"]'.""" in err

    def test_a_parameter_of_the_task_is_told_whose_it_is(self, cli):
        code, _, err = cli("train", "-d", "fedgn", "-s", "width=8")
        assert (code, err) == (
            2,
            (
                "leakbench: defense fedgn: 'width' is a parameter of the task; write -s"
                " task.width=..., in Python task_params.\n"
            ),
        )

    def test_show_says_what_is_shared_and_known(self, cli):
        out = cli("show", "fedgn")[1]
        assert "client -> server: prototype" in out
        assert "-s sigma=0.1  >= 0" in out
        assert "ECCV 2024" in out
        out = cli("show", "prototype_leakage")[1]
        assert "server reads prototype (last rounds); rung paper" in out
        assert "knows aux_data, facts, method; rung public" in out

    def test_doctor(self, cli):
        code, out, err = cli("doctor")
        assert (code, err) == (0, "")
        assert f"leakbench {leakbench.__version__}" in out
        found = json.loads(cli("doctor", "--json")[1])
        assert {i["what"] for i in found} == {"versions", "device", "data", "LPIPS weights"}
        assert all(i["ok"] or i["do"] for i in found)


class TestTheProgramItself:
    def test_help_everywhere(self, cli):
        for argv in (
            ["-h"],
            ["--help"],
            *(
                [c, "-h"]
                for c in (
                    "train",
                    "attack",
                    "score",
                    "report",
                    "check",
                    "list",
                    "show",
                    "doctor",
                    "demo",
                )
            ),
        ):
            code, out, err = cli(*argv)
            assert (code, err) == (0, "")
            assert out.startswith("Usage: leakbench")

    def test_version(self, cli):
        assert cli("--version") == (0, f"leakbench {leakbench.__version__}\n", "")

    def test_nothing_asked_is_the_help_on_stderr(self, cli):
        code, out, err = cli()
        assert (code, out) == (2, "")
        assert err.startswith("Usage: leakbench")
        assert "Commands:" in err

    def test_a_fault_of_ours_is_a_sentence_and_a_log(self, cli, made, monkeypatch):
        from leakbench.cli import commands

        monkeypatch.setattr(commands, "score", lambda *a, **k: {}["a fault"])
        code, out, err = cli("score", made)
        assert (code, out) == (70, "")
        assert err.startswith(
            "leakbench: a fault of leakbench itself; please report it with the log "
        )
        log = Path(err.split("log ")[1].strip().rstrip("."))
        assert "KeyError: 'a fault'" in log.read_text()
        log.unlink()

    def test_an_interrupt_says_that_it_can_go_on(self, cli, made, monkeypatch):
        from leakbench.cli import commands

        def interrupt(*a, **k):
            raise KeyboardInterrupt

        monkeypatch.setattr(commands, "score", interrupt)
        assert cli("score", made) == (
            130,
            "",
            (
                "leakbench: interrupted. Finished scores are kept; the same command scores all"
                " again.\n"
            ),
        )

    @pytest.mark.slow
    @pytest.mark.parametrize("jobs", [1, 2])
    def test_ctrl_c_ends_in_130_and_the_same_command_goes_on(self, cli, tmp_path, jobs):
        """A real one, to the whole group of processes as a terminal sends it."""
        line = small(
            "-o",
            tmp_path / "runs",
            "--seeds",
            "0,1" if jobs == 2 else "0",
            "--jobs",
            jobs,
            rounds=4000,
        )
        process = apart(*line)
        deadline = time.monotonic() + 400
        while time.monotonic() < deadline and (
            len(list(tmp_path.glob("runs/*/transcript/round-*"))) < 3
            or len(list(tmp_path.glob("runs/*/run.json"))) < jobs  # the slower one has begun, too
        ):
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=120)
        assert (process.returncode, out) == (130, "")
        assert gone(process.pid)
        assert (
            err.splitlines()[-1]
            == "leakbench: interrupted. Finished runs are kept, and an unfinished one up to its"
            " last checkpoint; the same command goes on from there."
        )
        assert "Traceback" not in err
        for folder in (tmp_path / "runs").iterdir():
            assert read_sealed(folder / "run.json")["status"] == "running"
        code, _, err = cli("attack", tmp_path / "runs", "-a", "prototype_leakage")
        assert code == 4
        assert "is not complete (status: running)" in err

    @pytest.mark.slow
    def test_results_and_errors_of_a_real_process(self, made, tmp_path):
        process = apart("attack", made, "-a", "prototype_leakage", "--json", cwd=tmp_path)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, err) == (0, "")
        assert json.loads(out)
        process = apart("show", "fedgm", cwd=tmp_path)
        assert process.communicate(timeout=60) == (
            "",
            "leakbench: unknown name 'fedgm'. Did you mean 'fedgn'?\n",
        )
        assert process.returncode == 2


def test_small_runs_are_what_the_command_line_makes(cli, tmp_path):
    """The helper and the options describe one and the same run."""
    assert cli(*small("-o", tmp_path / "a", rounds=1))[0] == 0
    run_ = trained(tmp_path / "b", rounds=1)
    assert [f.name for f in (tmp_path / "a").iterdir()] == [run_.path.name]
    assert TASK.items() <= run_.spec["task"]["params"].items()
