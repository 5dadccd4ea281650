"""leakbench train: what it prints where, what stops it, SPEC files and options."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys

import pytest
import torch
from helpers.commands import small
from helpers.small_runs import ON_THE_LINE, tree_of

from leakbench.base.errors import UsageError
from leakbench.base.files import read_sealed
from leakbench.base.spec import option_text
from leakbench.cli import keys, options
from leakbench.record import folders


@pytest.mark.parametrize("words", [["train", "-d", "fedavg"], ["show", "fedavg"], ["list"]])
def test_too_few_addresses_for_torch_are_said_before_it_is_loaded(tmp_path, words):
    line = shlex.join([sys.executable, "-m", "leakbench", *words])
    done = subprocess.run(
        ["sh", "-c", f"ulimit -v 1000000; {line}"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    if words == ["list"]:  # it needs no torch
        assert (done.returncode, done.stderr) == (0, "")
        return
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    assert "1.0 GiB of addresses here (ulimit -v)" in done.stderr


class TestTrain:
    def test_the_table_is_on_stdout_and_progress_on_stderr(self, cli, tmp_path):
        code, out, err = cli(*small("-o", tmp_path / "runs"))
        assert code == 0
        (folder,) = (tmp_path / "runs").iterdir()
        head, line = out.splitlines()
        assert head.split() == [
            "run",
            "engine",
            "metric",
            "value",
            "low",
            "high",
            "chance",
            "flags",
        ]
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

    @pytest.mark.parametrize(
        ("given", "flags", "said"),
        [
            (["-s", "lr=1e9"], "dead_run", "its training loss was"),
            (["-s", "lr=30"], "dead_run", "is dead: accuracy"),
        ],
    )
    def test_who_trains_is_told_in_a_sentence_that_a_run_is_dead(
        self, cli, tmp_path, given, flags, said
    ):
        line = ["train", "-d", "fedavg", *ON_THE_LINE, *given, "--rounds", "40", "-q"]
        code, out, err = cli(*line, "--json", "-o", tmp_path)
        (row,) = json.loads(out)
        assert code == 0  # it is finished and written
        assert flags in (None, row["flags"])
        assert len(err.splitlines()) == 1
        assert said in err
        assert "lr" in err
        again = cli(*line, "-o", tmp_path)  # where it was there already, too
        assert again[2] == err
        assert ("dead_run" in again[1]) == (row["flags"] == "dead_run")

    def test_what_is_not_a_number_any_more_has_failed(self, cli, tmp_path):
        line = ["train", "-d", "fedavg", *ON_THE_LINE, "-s", "lr=1e38", "--rounds", "20", "-q"]
        code, out, err = cli(*line, "-o", tmp_path)
        assert (code, out) == (4, "")
        assert "training diverged by round" in err
        assert len(err.splitlines()) == 1

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
        assert (code, len(out.splitlines()), err.count("[1/1]")) == (0, 2, 1)

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
        dead = [line for line in err.splitlines() if " is dead: " in line]
        progress = [line for line in err.splitlines() if line not in dead]
        assert {line.split()[0] for line in progress} == {"[1/2]", "[2/2]"}
        assert dead  # after two rounds; whether one or both are, the last bit may decide
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

    @pytest.mark.parametrize(
        "value",
        ["7089e031", "12345678", "true", "null", "a,b", "[x", '"q"', "relu", "", 0.1, [1, 2]],
    )
    def test_a_value_that_a_command_tells_is_read_back(self, value):
        text = option_text(value)
        assert keys.settings([f"k={text}"]) == {"k": [value]}

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
