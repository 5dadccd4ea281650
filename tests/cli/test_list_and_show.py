"""leakbench list and show."""

from __future__ import annotations

import json
import shlex

import pytest
from helpers.federations import digits as small_digits
from helpers.federations import uneven

import leakbench
from leakbench.base import registry
from leakbench.cli import keys


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
        digits, few = (
            registry.load_plugin("tasks", "digits"),
            uneven(small_digits().load(), [20] * 10),
        )
        monkeypatch.setattr(digits, "load", lambda self: few)
        for name in registry.names(kind):
            code, out, _ = cli("show", name)
            assert code == 0
            one = {"utilities": "utility metric"}.get(kind, kind.removesuffix("s"))
            assert out.splitlines()[0] == f"{name} ({one})"
        (about,) = json.loads(cli("show", name, "--json")[1])
        assert {p["name"] for p in about["parameters"]} == set(
            registry.load_plugin(kind, name).model_fields
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
        assert """expected a list, for example 'kinds=["prototype"]' (in a SPEC.toml""" in err
        assert """ kinds = [["prototype"]]).""" in err

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
        assert {i["what"] for i in found} == {
            *("versions", "device", "data", "LPIPS weights", "methods of your own")
        }
        assert all(i["ok"] or i["do"] for i in found)
