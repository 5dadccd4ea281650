"""leakbench check: what a gate says, and that every table is read once."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter

import pytest
from helpers.gate_rows import changed as changed_row
from helpers.small_runs import trained

from leakbench.gate.baseline import Baseline
from leakbench.gate.baseline import load_baseline as load_baseline
from leakbench.gate.baseline import save_baseline as save_baseline
from leakbench.gate.row_fields import fields_of
from leakbench.record import folders


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
            fields = fields_of(row)
            change(fields)
            rows.append(changed_row(row, **fields))
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
        assert re.fullmatch(r"Check passed: all \d+ gated rows fine.*\n", out)
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
            for of in ("scores", "guesses", "truths", "failed", "unsettled", "entered"):
                row[of] = {s: v for s, v in (row[of] or {}).items() if s == "0"} or row[of]
            (units,) = row["scores"].values()
            row["value"] = sum(units.values()) / len(units)
            row["low"], row["high"] = min(row["low"], row["value"]), max(row["high"], row["value"])

        code, out, err = cli(
            "check", gated / "runs", "--baseline", self.changed(gated, tmp_path, one_seed)
        )
        assert code == 3, err
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
        told = re.search(r"(\d+) rows written, 0 kept: (\d+) gate \((.*)\), (\d+) stand there", out)
        written, gate, names, rest = told.groups()
        assert names == "any_attack, utility"  # the one attack that ran is of the rung paper
        assert int(gate) + int(rest) == int(written)
        code, out, _ = cli("check", gated / "runs", "--baseline", tmp_path / "b.json")
        assert f"all {gate} gated rows fine" in out
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
