"""The documents are true: their code runs, their commands exist, their tables are those of the
code.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import json
import re
import shlex
import sys
import textwrap
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from helpers.small_runs import obstacle
from torch import nn

import leakbench
from leakbench.attacking import choices
from leakbench.attacking.view import View
from leakbench.base import registry
from leakbench.record import columns, messages

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DOCS = {
    p.relative_to(ROOT / "docs").as_posix(): p.read_text(encoding="utf-8")
    for p in sorted((ROOT / "docs").rglob("*.md"))
}
PAGES = {
    "README.md": README,
    "CONTRIBUTING.md": (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"),
    **DOCS,
}
OWN = DOCS["tutorials/own-defense.md"] + DOCS["tutorials/own-attack.md"]
TINY = {"task": "digits", "task_params": {"model": "mlp", "width": 8, "dim": 8}, "rounds": 6}


def blocks(text: str, language: str = "python") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def run_blocks(text: str, name: str) -> None:
    space: dict[str, object] = {"__name__": name}
    for i, code in enumerate(blocks(text)):
        exec(compile(code, f"{name}, block {i}", "exec"), space)


def test_the_example_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    run_blocks(DOCS["example.md"], "docs/example.md")
    said = capsys.readouterr().out
    assert "Did you mean 'sigma'?" in said
    assert re.search(r"^0 \d+ rows gated: \d+ fine$", said, re.MULTILINE)
    assert re.search(r"^3 cannot tell", said, re.MULTILINE)
    newest, mean = map(
        float, re.search(r"newest message (\S+), mean of \d+ messages (\S+)", said).groups()
    )
    assert mean > newest  # what the text says of fresh noise
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def own_methods(tmp_path, monkeypatch):
    """The tutorials' two files, in a folder that the packages `defenses` and `attacks` look into as
    well.
    """
    made = {}
    for code, base in (
        (c, base)
        for c in blocks(OWN)
        for base in ("Defense", "Attack")
        if "class " in c and _base(c) == base
    ):
        kind = {"Defense": "defenses", "Attack": "attacks"}[base]
        page = DOCS[f"tutorials/own-{kind[:-1]}.md"]
        name = re.search(r"ave this as `(\w+)\.py`", page)[1]
        (tmp_path / kind).mkdir()
        (tmp_path / kind / f"{name}.py").write_text(code, encoding="utf-8")
        package = importlib.import_module(kind)
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path / kind)])
        made[kind] = name
    importlib.invalidate_caches()
    yield made
    for kind, name in made.items():
        sys.modules.pop(f"{kind}.{name}", None)


def _base(code: str) -> str:
    return "Attack" if "(Attack)" in code else "Defense"


def test_a_method_of_the_tutorials_is_one_short_file(own_methods, tmp_path):
    assert set(own_methods) == {"defenses", "attacks"}
    for kind, name in own_methods.items():
        lines = (tmp_path / kind / f"{name}.py").read_text(encoding="utf-8").splitlines()
        assert len(lines) <= 30
        assert max(map(len, lines)) <= 140
        assert name in registry.names(kind)


def test_the_methods_of_the_tutorials_work(own_methods, tmp_path):
    run = leakbench.train(own_methods["defenses"], out=tmp_path / "runs", **TINY)
    assert run.meta["hides"]
    rows = leakbench.attack(run, own_methods["attacks"]).rows
    final = {r["metric"]: r for r in rows if r["stage"] == "final"}
    assert set(final) == {"p_leak", "prototype_cosine"}
    # The control sends whole prototypes: the mean of a few rounds of them still points to each
    # client's own.
    assert final["p_leak"]["control"] > final["p_leak"]["floor"]
    assert {r["rung"] for r in rows} == {"transcript"}


def test_the_python_of_the_readme_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (code,) = [b for b in blocks(README) if "leakbench.train(" in b]
    small = code.replace("rounds=100", "rounds=10, task_params={'model': 'mlp', 'width': 8}")
    assert small != code
    run_blocks(f"```python\n{small}```\n", "README.md")
    assert "p_leak" in capsys.readouterr().out
    assert (tmp_path / "report" / "index.html").is_file()


def test_sweep_of_the_readme_is_as_many_runs_as_it_says():
    from leakbench.cli import options

    (line,) = [line for line in README.splitlines() if "leakbench train " in line]
    words = shlex.split(line, comments=True)
    value = {flag: words[words.index(flag) + 1] for flag in ("-t", "-d", "-s", "--seeds")}
    plan = options.TrainPlan()
    single = dict.fromkeys(("rounds", "engine", "dtype", "record")) | {"task": value["-t"]}
    options.amend(plan, [value["-d"]], [], [value["-s"]], single, value["--seeds"])
    assert f"# {len(list(plan.specs()))} runs" in line


def test_the_transcript_of_the_tutorial_runs():
    (code,) = [b for b in blocks(OWN) if "leakbench.Transcript(" in b]
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 8), nn.Sigmoid(), nn.Linear(8, 10))
    x, y = torch.full((1, 1, 8, 8), 0.5), torch.tensor([3])
    gradient = torch.autograd.grad(nn.functional.cross_entropy(net(x), y), net.parameters())
    space = {"leakbench": leakbench, "nn": nn, "net": net, "y": y}
    space["update"] = [-0.1 * g for g in gradient]
    exec(compile(code, "own-attack.md", "exec"), space)
    assert space["image"].shape == x.shape


class TestLimits:
    """Every point of the README's Limits, by its first words; one that is added needs a check."""

    TEXT = " ".join(README.split("\n## Limits\n")[1].split("\n## ")[0].split())
    POINTS: ClassVar[list[str]] = re.split(r"(?:^|(?<=\.)) ?\* ", TEXT)[1:]

    def point(self, first: str) -> str:
        (found,) = [p for p in self.POINTS if p.startswith(first)]
        return found

    def test_every_point_is_checked_here(self):
        asked = set(re.findall(r'self\.point\("(.*?)"\)', Path(__file__).read_text("utf-8")))
        assert {f for p in self.POINTS for f in asked if p.startswith(f)} == asked
        assert len(self.POINTS) == len(asked) == 9

    def test_held(self):
        assert "No attack's number is a differential-privacy guarantee" in self.point("**held is")
        named = {f for w in registry.names("wrappers") for f in _fields("wrappers", w)}
        tables = {table: {*names} for table, names in columns.TABLES.items()}
        told = {t for t, names in tables.items() if names & {"epsilon", "delta", "eps"}}
        assert told == {"privacy"}
        assert not named & {"epsilon", "delta", "eps"}

    def test_attacks(self):
        text, attacks = self.point("The twenty-eight attacks read"), registry.names("attacks")
        assert text.split()[1] == IN_WORDS[len(attacks)]
        metrics = {m.name for a in attacks for m in registry.load_plugin("attacks", a).metrics}
        asks = [name for name in {*attacks, *metrics} if "member" in name]
        tell = {"membership_auc", "membership_tpr", "membership_tpr_low"}
        ours = {"membership", "shadow_membership", "shared_membership", "user_membership"}
        assert set(asks) == ours | tell
        membership = registry.load_plugin("attacks", "membership")
        read = {kind for v in membership.variants for kind in membership(**v).threat.kinds}
        assert "sum" in read
        assert "prototype" in registry.load_plugin("attacks", "shared_membership")().threat.kinds
        verbs = [n for n, _ in inspect.getmembers(View, inspect.isfunction) if n[0] != "_"]
        assert sorted(verbs) == [
            "covers",
            "know",
            "loss_method",
            "messages",
            "of_others",
            "progress",
            "same_as",
            "traffic",
            "train",
        ]

    def test_methods_wrappers_and_tasks(self):
        text = self.point("There are")
        counts = [IN_WORDS[len(registry.names(k))] for k in ("defenses", "wrappers", "tasks")]
        assert text.startswith("There are {} methods, {} wrappers and {} tasks.".format(*counts))
        assert set(re.findall(r"`(.*?)`", text)) == set(registry.names("tasks"))
        method = registry.load_plugin("defenses", "fedaws")()
        sizes = []
        for name in re.findall(r"`(.*?)`", text.split(" are made of ")[0]):
            task = registry.load_plugin("tasks", name).build({}, name)
            module = task.module(task.facts(method))
            sizes.append(sum(p.numel() for p in module.parameters()))
        said = [int(n.replace(",", "")) for n in re.findall(r"\d+,\d+", text)]
        assert sizes == pytest.approx(said, rel=0.1)

    def test_scales(self):
        from leakbench.reproduce.row import COLUMNS, read_rows
        from leakbench.results import claims

        text = self.point("Hardly anything here")
        tables = (ROOT / "results").glob("*/*.csv")
        of_papers = [p for p in tables if p.read_text(encoding="utf-8").startswith("recipe,")]
        made = {p.stem.split("-")[0] for p in of_papers}
        assert made == set(re.findall(r"`(.*?)`", text)) == {"smoke", "small", "full"}
        whole = [p for p in of_papers if p.stem == "full"]
        rows = {(p.parent.name, r.dataset, r.label) for p in whole for r in read_rows(p) if r.ours}
        assert {name for name, *_ in rows} == {"flea-table1"}
        assert text.split(": ")[1].split()[0] == IN_WORDS[len(rows)]
        assert "differs" in COLUMNS
        same = ("fedgn", "cifar100", "p_leak")
        for what in itertools.product(("fedgn", "fedprox"), ("cifar100", "digits"), same[2:]):
            method, task, metric = what
            found = claims.find_claim(method, {"sigma": 0.1}, task, metric, {})
            assert (found is not None) is (what == same), what
        assert claims.find_claim("fedgn", {"sigma": 0.1}, "cifar100", "psnr", {}) is None

    def test_gradient_inversion(self):
        text = self.point("Gradient inversion")
        kind = registry.load_plugin("attacks", "gradient_inversion")
        assert f"up to {kind().local_steps} local steps" in text
        assert {kind(**v).message for v in kind.variants} == {"probe"}
        net, real = nn.Sequential(nn.Flatten(), nn.Linear(4, 2)), kind(message="update")
        for fields, fits in (
            ({"steps": kind().local_steps}, True),
            ({"steps": kind().local_steps + 1}, False),
            ({"optimizer": "adam", "steps": 2}, True),
            ({"optimizer": "adam_each_step", "steps": 2}, False),
        ):
            seen = leakbench.Transcript(
                net, nn.functional.cross_entropy, shape=(4,), batch=1, **fields
            )
            y = [0] * fields.get("steps", 1)
            seen.add("update", [torch.ones_like(p) for p in net.parameters()], labels=y)
            assert (obstacle(real, seen) == "") is fits, fields
            assert (obstacle(kind(), seen) == "") is False
        assert "updates of SGD and Adam" in text

    def test_probes(self):
        assert "rows made of probes are marked" in self.point("A probe")
        assert "probe" in columns.RESULTS
        assert "probe" in columns.FLAGS

    def test_wrappers(self):
        text = self.point("`secure_sum`")
        assert set(re.findall(r"`(.*?)`", text)) == set(registry.names("wrappers"))
        assert registry.load_plugin("wrappers", "secure_sum").sums

    def test_seeds(self):
        assert "Fewer than eight seldom" in self.point("Three seeds")
        statistics = " ".join(DOCS["statistics.md"].split())
        gate = " ".join(DOCS["gate.md"].split())
        assert "Fewer than 8 seeds seldom settle a row whose draws changed" in gate
        assert "with three seeds or more the interval speaks of the method" in statistics

    def test_lpips(self):
        from leakbench.cli import doctor
        from leakbench.metrics import lpips

        assert f"images of {lpips.SMALLEST} pixels" in self.point("Perceptual")
        assert "LPIPS weights" in inspect.getsource(doctor)


def _fields(kind: str, name: str) -> set[str]:
    return set(registry.load_plugin(kind, name).model_fields)


_ONES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_FROM_TEN = (
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen"),
    *("eighteen", "nineteen", "twenty"),
)
_TWENTIES = tuple(f"twenty-{n}" for n in _ONES)
_LARGE = (*_TWENTIES, "thirty", *(f"thirty-{n}" for n in _ONES))
IN_WORDS = dict(enumerate((*_ONES, *_FROM_TEN, *_LARGE), start=1))  # as the README has them


def test_all_methods_of_fleas_tables_are_here():
    published = json.loads((ROOT / "leakbench" / "data_files" / "published.json").read_text())
    records = published if isinstance(published, list) else published["records"]
    named = {r["method"] for r in records if r["paper"] == "flea" and r["table"] == "1"}
    assert len(named) == 11
    assert {name.lower() for name in named} <= set(registry.names("defenses"))


def test_recipes_of_the_readme_are_as_many_as_it_says():
    from leakbench.reproduce import catalogue

    (line,) = [line for line in README.splitlines() if "reproduce --list" in line]
    assert f"# {IN_WORDS[len(catalogue.RECIPES)]} tables and figures" in line


def test_every_function_of_the_package_is_in_its_reference():
    page = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    named = {*re.search(r"members: \[(.*)\]", page)[1].split(", ")}
    named |= {m.rpartition(".")[2] for m in re.findall(r"^::: (\S+)", page, re.MULTILINE)}
    for name in leakbench.__all__:
        made = getattr(leakbench, name)
        if inspect.isfunction(made) or made.__module__.startswith("leakbench.own."):
            assert made.__name__ in named or made.__module__.startswith("leakbench.federation"), (
                name
            )


def test_links_lead_somewhere():
    for page, text in PAGES.items():
        folder = (ROOT / "docs" / page).parent if page in DOCS else ROOT
        links = re.findall(r"\]\(([^)#]+)[)#]|(?:src|srcset)=\"([^\"]+)", text)
        for target in (markdown or html for markdown, html in links):
            if not target.startswith("https://"):
                assert (folder / target).exists(), f"{page} links to {target}"


def test_exit_codes_of_the_readme():
    from leakbench import cli
    from leakbench.base import errors
    from leakbench.gate import gate

    codes = {int(c) for c in re.findall(r"(?:Exit codes: |· )(\d+) ", README.replace("\n", " "))}
    in_code = {
        0,
        gate.LEAKS_MORE,
        errors.UsageError.exit_code,
        gate.CANNOT_TELL,
        errors.PartFailed.exit_code,
        cli.OUR_FAULT,
        cli.INTERRUPTED,
    }
    assert codes == in_code


def headings(page: str, section: str) -> set[str]:
    part = DOCS[page].split(f"\n## {section}\n")[1].split("\n## ")[0]
    return set(re.findall(r"^### (\S+)$", part, re.MULTILINE))


@pytest.mark.parametrize(
    ("section", "kind"),
    [("Methods", "defenses"), ("Wrappers", "wrappers"), ("Tasks", "tasks"), ("Attacks", "attacks")],
)
def test_every_method_is_described(section, kind):
    assert headings("methods.md", section) == set(registry.names(kind))


def table(page: str, first: str) -> list[list[str]]:
    """The cells of the table whose header begins with ``first``."""
    lines = DOCS[page].split(f"\n| {first} |", 1)[1].splitlines()[2:]
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append([c.strip().strip("`") for c in line.strip("|").split("|")])
    return rows


def test_declared_threat_models_are_those_of_the_attacks():
    declared = {tuple(row) for row in table("threat-models.md", "attack")}
    in_code = set()
    for choice in choices.variants():
        threat, fields = choice.attack.threat, type(choice.attack).model_fields
        swept = {k for v in type(choice.attack).variants for k in v}
        kept = [
            k
            for k in swept
            if fields[k].annotation is not None
            and len({str(v.get(k, fields[k].default)) for v in type(choice.attack).variants}) > 1
        ]
        setting = ", ".join(f"{k}={getattr(choice.attack, k)}" for k in sorted(kept))
        in_code.add(
            (
                choice.name,
                setting,
                threat.observer,
                ", ".join(threat.kinds),
                threat.rounds,
                ", ".join(threat.knows),
                threat.rung,
            )
        )
    assert declared == in_code


def test_kinds_rungs_and_knowledge_are_named():
    from leakbench.record.knowledge import KNOWLEDGE

    assert {row[0] for row in table("threat-models.md", "`knows`")} == set(KNOWLEDGE)
    assert [row[0] for row in table("threat-models.md", "rung")] == list(columns.RUNGS)
    flat = " ".join(DOCS["formats.md"].split())
    assert f"large `{' '.join(messages.LARGE)}`, small `{' '.join(messages.SMALL)}`" in flat
    assert " ".join(messages.KINDS) in " ".join(DOCS["threat-models.md"].split())


@pytest.mark.parametrize(
    "name",
    [
        "RESULTS",
        "TRADEOFF",
        "UTILITY",
        "MISSING",
        "DIAGNOSTICS",
        "UNITS",
        "RUN_UTILITY",
        "RUN_DIAGNOSTICS",
    ],
)
def test_columns_are_those_of_the_code(name):
    written = [
        " ".join(block.split())
        for block in re.findall(r"(?:^    \S.*\n)+", DOCS["formats.md"], re.MULTILINE)
    ]
    assert " ".join(getattr(columns, name)) in written


def test_flags_and_stages_are_those_of_the_code():
    named = {
        flag for row in table("formats.md", "flag") for flag in re.findall(r"[a-z_0-9]+", row[0])
    }
    assert named == set(columns.FLAGS)
    assert " ".join(columns.STAGES[:4]) in DOCS["formats.md"]


def test_metrics_are_those_of_the_attacks():
    rows = {
        name: row
        for row in table("methods.md", "metric")
        for name in re.findall(r"[a-z_0-9]+", row[0])
    }
    metrics = {
        m.name: m
        for attack in registry.names("attacks")
        for m in registry.load_plugin("attacks", attack).metrics
    }
    assert set(rows) == set(metrics)
    for name, m in metrics.items():
        assert (rows[name][1], rows[name][3]) == (m.unit, m.leaks), name


def test_numbers_of_the_recording_policy():
    from leakbench.record.policy import Policy

    text = DOCS["formats.md"]
    for name in ("last", "decade", "spaced", "audited", "probes"):
        default = Policy.model_fields[name].default
        assert f"`{name}` ({default})" in text, name


def test_keys_of_json_files(tmp_path):
    """Every key of a run.json, an attack.json and a baseline's row is described, and every header
    of a file.
    """
    from leakbench.gate.row_fields import KEYS

    run = leakbench.train("fedgn", out=tmp_path, **TINY)
    attacked = leakbench.attack(run, "prototype_leakage").path
    from leakbench.base.files import read_sealed

    sections = {
        part.split("\n", 1)[0]: part
        for part in re.split(r"^#{2,3} ", DOCS["formats.md"], flags=re.MULTILINE)
    }
    for found, section in (
        (read_sealed(run.path / "run.json"), "run.json"),
        (read_sealed(attacked / "attack.json"), "The attack folder"),
        (KEYS, "leakage.json"),
    ):
        lacking = [key for key in found if f"`{key}`" not in sections[section]]
        assert not lacking, section
    for key in ("sent", "utility", "facts"):
        value = read_sealed(run.path / "run.json")[key]
        for name in value[0] if isinstance(value, list) else value:
            assert f"`{name}`" in sections["run.json"], f"{key}.{name}"


def test_keys_of_report_json():
    """Every key of every part; how a metric is read stands in a table of its own."""
    from leakbench.reporting import ReportData

    text = DOCS["formats.md"].split("### report.json\n")[1].split("\n### ")[0]
    schema = ReportData.model_json_schema(mode="serialization", by_alias=True)
    parts = {**schema["$defs"], "ReportData": schema}
    apart = {"Meaning", "Topic", "Estimate", "Span", "About"}
    assert apart <= set(parts)
    for name in set(parts) - apart:
        lacking = [k for k in parts[name]["properties"] if not re.search(rf"[`.]{k}`", text)]
        assert not lacking, name
    told = {k for part in parts.values() for k in part.get("properties", {})}
    listed = re.findall(r"^\| `([a-z]+)`", text, re.MULTILINE)
    assert len(listed) > 8
    assert set(listed) <= told


def test_a_format_of_ones_own_is_written(tmp_path, monkeypatch):
    """The report plugin of docs/report.md, taken out of the page and called by its name."""
    from helpers.run_folders import add_attack, make_run, measure
    from helpers.small_runs import plugged

    (code,) = blocks(DOCS["report.md"])
    run = make_run(tmp_path / "runs")
    add_attack(run, "averaging", [measure("p_leak", [1, 0] * 5, 0.1, [1] * 10)])
    (tmp_path / "plugin").mkdir()
    with plugged("reports", tmp_path / "plugin", lines=code):
        out = leakbench.report([run], tmp_path / "out", formats=["lines"])
    lines = (out / "lines.txt").read_text(encoding="utf-8").splitlines()
    assert any(line.endswith(": averaging: p_leak 0.5") for line in lines), lines


def test_documented_functions_have_the_documented_names():
    """What the pages call exists, with the arguments they give it."""
    for page, text in PAGES.items():
        for name, arguments in re.findall(
            r"leakbench\.([a-z]+)\(([^()]*(?:\([^()]*\)[^()]*)*)\)", "\n".join(blocks(text))
        ):
            function = getattr(leakbench, name)
            keywords = set(re.findall(r"(?:^|[ (,])(\w+)=", textwrap.dedent(arguments)))
            parameters = inspect.signature(function).parameters
            if not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
                assert keywords <= set(parameters), f"{page}: leakbench.{name}"
