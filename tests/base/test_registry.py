"""A new file is a method: dropped into a package of ours, or in a package that somebody else
installed. And names that are wrong.
"""

import os
import shlex
import subprocess
import sys

import pytest

import defenses
import leakbench.api as leakbench
from leakbench import cli
from leakbench.attacking import choices
from leakbench.base import registry
from leakbench.base.errors import LeakbenchError, UnknownName, UsageError, suggestion
from leakbench.base.files import read_sealed
from leakbench.record import folders
from leakbench.record.runspec import make_spec

SHY = '''
"""Shy: a client shows its prototype with every sign drawn anew."""

from typing import ClassVar

from pydantic import Field

from leakbench import Defense, unit


class Shy(Defense):
    """Every coordinate of the prototype keeps its sign with probability ``honest``."""

    paper: ClassVar[str] = "nobody, 2026"
    outputs: ClassVar[str] = "embedding"
    distance: ClassVar[str] = "cosine"

    honest: float = Field(0.5, ge=0, le=1, description="probability that a sign is kept")

    def start(self, me):
        me.own["prototype"] = me.rng.normal("prototype", me.facts.dim)

    def loss(self, net, batch, me):
        return (1 - unit(net(batch.x)) @ unit(me.own["prototype"])).square().mean()

    def uplink(self, me):
        keep = (me.rng.uniform("keep", me.facts.dim) < self.honest) * 2 - 1
        return {"prototype": unit(me.own["prototype"]) * keep}

    def undefended(self):
        return self.model_copy(update={"honest": 1.0})

    def predict(self, net, x, me):
        return unit(net(x)) @ unit(me.own["prototype"])

    def secrets(self, me):
        return {"prototype": unit(me.own["prototype"])}
'''
ROUNDING = '''
"""Rounding: what leaves the client has few digits."""

from typing import ClassVar

from pydantic import Field

from leakbench import Wrapper
from leakbench.base.tree import tmap


class Rounding(Wrapper):
    """Every number to ``digits`` digits."""

    masks: ClassVar[bool | None] = False
    digits: int = Field(2, ge=0, le=9, description="digits after the point")

    def uplink(self, payload, me):
        return tmap(lambda v: v.round(decimals=self.digits), payload)
'''
LAST_ONE = '''
"""Last one: says that every client's prototype is the last one it saw."""

from typing import ClassVar

from leakbench import Guess
from leakbench.attacking.attack import Attack
from leakbench.metrics.prototypes import P_LEAK
from leakbench.attacking.view import ThreatModel


class LastOne(Attack):
    """A bad attack, for comparison."""

    about: ClassVar[str] = "what came last"
    metrics: ClassVar[tuple] = (P_LEAK,)

    @property
    def threat(self):
        return ThreatModel(kinds=("prototype",), rounds="last")

    def run(self, view, rng):
        sent = view.messages("prototype")
        theirs = [m for m in sent if m.sender != "server"]
        return [Guess(m.sender, view.round, {"prototype": sent[-1].payload}) for m in theirs]

    def blind(self, view, rng):
        return self.run(view, rng)
'''
TINY = {"model": "mlp", "width": 8, "dim": 8, "evaluations": 10}


def clean(name):
    """Forget a module that a test brought along."""
    for known in [m for m in sys.modules if m == name or m.startswith(f"{name}.")]:
        del sys.modules[known]


@pytest.fixture
def dropped(tmp_path, monkeypatch):
    """A folder whose files are methods of ours."""
    place = tmp_path / "dropped"
    place.mkdir()
    monkeypatch.setattr(defenses, "__path__", [*defenses.__path__, str(place)])
    yield place
    for path in place.glob("*.py"):
        clean(f"defenses.{path.stem}")


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install a package of somebody else's: its files, and what its entry points name."""
    site = tmp_path / "site"
    made = []

    def install(package, files, points):
        made.append(package)
        for name, text in {"__init__.py": "LEAKBENCH_API = 1\n", **files}.items():
            path = site / package / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        about = site / f"{package}-1.0.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        (about / "entry_points.txt").write_text(
            "".join(f"[leakbench.{kind}]\nmine = {value}\n" for kind, value in points.items())
        )
        monkeypatch.syspath_prepend(str(site))
        return site

    yield install
    for package in made:
        clean(package)


def trained_attacked_reported(name, out, attack="prototype_leakage", **more):
    """Everything that a user does with a method, through the public functions alone."""
    run = leakbench.train(name, task_params=TINY, rounds=5, out=out / "runs", device="cpu", **more)
    found = leakbench.attack(run, attack, device="cpu")
    report = leakbench.report([run], out / "report", formats=("html",))
    frame = found.to_frame()
    assert run.done
    assert set(frame["defense"]) == {name}
    assert name in (report / "tradeoff.csv").read_text()
    assert name in (report / "utility.csv").read_text()
    assert (report / "index.html").stat().st_size > 1000
    return frame


def test_a_file_of_at_most_forty_lines_is_a_method(tmp_path, dropped):
    assert len(SHY.strip().splitlines()) <= 40
    (dropped / "shy.py").write_text(SHY)
    assert registry.names("defenses")["shy"] == "defenses.shy"
    frame = trained_attacked_reported("shy", tmp_path)
    last = frame[(frame["metric"] == "p_leak") & (frame["stage"] == "final")].iloc[0]
    assert last["control"] == 1.0
    assert last["floor"] == pytest.approx(0.1)


@pytest.mark.slow
def test_so_is_a_file_in_a_package_that_somebody_installed(tmp_path, installed):
    points = {
        "defenses": "others_work",
        "wrappers": "others_work.wires",
        "attacks": "others_work.hacks",
    }
    files = {
        "bashful.py": SHY.replace("Shy", "Bashful"),
        "_shared.py": "raise RuntimeError('not a method')\n",
        "notes.txt": "nothing",
    }
    wires = {"wires/__init__.py": "LEAKBENCH_API = 1\n", "wires/rounding.py": ROUNDING}
    hacks = {"hacks/__init__.py": "LEAKBENCH_API = 1\n", "hacks/last_one.py": LAST_ONE}
    installed("others_work", files | wires | hacks, points)
    assert registry.names("defenses")["bashful"] == "others_work.bashful"
    assert not {"_shared", "notes", "wires", "hacks", "others_work"} & set(
        registry.names("defenses")
    )
    assert registry.names("wrappers")["rounding"] == "others_work.wires.rounding"
    assert {"fedavg", "fedhide"} < set(registry.names("defenses"))  # ours are still there
    trained_attacked_reported(
        "bashful", tmp_path, wrappers=[("rounding", {"digits": 1, "kinds": ["update"]})]
    )
    trained_attacked_reported("bashful", tmp_path / "again", attack="last_one")
    (run,) = folders.find([tmp_path / "runs"])
    assert run.spec["wrappers"] == [
        {"name": "rounding", "params": {"digits": 1, "kinds": ["update"]}}
    ]


def test_it_is_listed_and_shown_like_ours(installed, capsys):
    installed("others_list", {"coy.py": SHY.replace("Shy", "Coy")}, {"defenses": "others_list"})
    assert cli.run(["list", "defenses"]) == 0
    listed = capsys.readouterr().out
    assert "coy " in listed
    assert "fedavg " in listed
    assert cli.run(["show", "coy"]) == 0
    shown = capsys.readouterr().out
    assert "honest" in shown
    assert "probability that a sign is kept" in shown


def test_one_name_twice_is_refused_and_both_places_are_named(dropped, installed):
    installed("others_twice", {"fedavg.py": SHY}, {"defenses": "others_twice"})
    with pytest.raises(
        UsageError, match=r"'fedavg' is provided twice, by 'defenses\.fedavg' and 'others_twice"
    ):
        registry.names("defenses")


@pytest.fixture
def said_once(monkeypatch):
    """As at the beginning of a command: nothing was left out yet."""
    monkeypatch.setattr(registry, "_said", set())


def test_a_package_of_another_kind_is_left_out_with_its_path(installed, said_once, capsys):
    site = installed(
        "others_alien", {"__init__.py": "", "thing.py": ""}, {"defenses": "others_alien"}
    )
    assert "fedavg" in registry.names("defenses")
    assert "thing" not in registry.names("defenses")
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("leakbench: left out: ")
    assert "LEAKBENCH_API" in line
    assert str(site / "others_alien") in line


def test_a_package_for_another_version_of_the_contract_is_left_out(installed, said_once, capsys):
    installed(
        "others_future", {"__init__.py": "LEAKBENCH_API = 2\n"}, {"defenses": "others_future"}
    )
    assert "fedavg" in registry.names("defenses")
    assert "others_future" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["import nothing_of_that_name\n", "def broken(:\n"], ids=["import", "syntax"]
)
def test_what_cannot_be_imported_is_named_ours_refused_others_left_out(
    dropped, installed, said_once, capsys, text
):
    (dropped / "torn.py").write_text(text)
    with pytest.raises(UsageError, match=r"'defenses\.torn' cannot be imported"):
        registry.load_plugin("defenses", "torn")
    (dropped / "torn.py").unlink()
    installed("others_torn", {"__init__.py": text}, {"defenses": "others_torn"})
    assert "fedavg" in registry.every("defenses")
    assert "'others_torn' cannot be imported" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["X = 1\n", SHY + "\n\nclass Second(Shy):\n    pass\n"], ids=["none", "two"]
)
def test_a_file_defines_exactly_one_public_class(dropped, text):
    (dropped / "odd.py").write_text(text)
    with pytest.raises(UsageError, match=r"odd\.py must define exactly one public class"):
        registry.load_plugin("defenses", "odd")


def shadowed(folder, kind, words):
    """The command where a package under one of our names comes first on the path."""
    (folder / kind).mkdir()
    (folder / kind / "__init__.py").write_text("SECRET = 1\n")
    return subprocess.run(
        [sys.executable, "-m", "leakbench", *words],
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder)},
        check=False,
    )


@pytest.mark.parametrize("kind", ["attacks", "defenses"])
def test_a_folder_of_the_same_name_where_one_stands_is_said_with_its_path(tmp_path, kind):
    done = shadowed(tmp_path, kind, ["list", kind])
    assert done.returncode == 2
    assert done.stdout == ""
    assert str(tmp_path / kind) in done.stderr
    assert "LEAKBENCH_API" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.slow
def test_it_disturbs_only_those_who_need_it(tmp_path):
    done = shadowed(tmp_path, "attacks", ["list", "defenses"])
    assert done.returncode == 0
    assert "fedhide" in done.stdout


@pytest.mark.parametrize(
    ("kind", "wrong", "meant"),
    [
        ("defenses", "fedhid", "fedhide"),
        ("attacks", "prototype_leak", "prototype_leakage"),
        ("wrappers", "clipnoise", "clip_noise"),
        ("tasks", "digitpairs", "digit-pairs"),
        ("reports", "htm", "html"),
    ],
)
def test_a_misspelt_name_is_told_what_was_meant(kind, wrong, meant):
    with pytest.raises(UnknownName, match=rf"unknown \w+ '{wrong}'\. Did you mean '{meant}'"):
        registry.load_plugin(kind, wrong)


@pytest.mark.parametrize("kind", sorted(registry.KINDS))
def test_hyphens_and_underscores_are_alike_in_every_name(kind):
    for name in registry.names(kind):
        for written in (name.replace("_", "-"), name.replace("-", "_")):
            assert registry.meant(kind, written) == name
    assert registry.load_plugin("tasks", "digit_pairs") is registry.load_plugin(
        "tasks", "digit-pairs"
    )


def test_a_name_written_otherwise_is_the_same_run():
    """What is written has one spelling: the method's own."""
    field = {"model": "fast_resnet34"}
    one = make_spec("fedntd", task="digit-pairs", wrappers=[("clip_noise", {})], task_params=field)
    field = {"model": "fast-resnet34"}
    other = make_spec(
        "fedntd", task="digit_pairs", wrappers=[("clip-noise", {})], task_params=field
    )
    assert one == other
    assert choices.build("label-inference", {}) == choices.build("label_inference", {})


def test_a_name_like_no_other_is_told_what_there_is():
    assert suggestion("zz", ["b", "a", "b"]) == " Known: a, b."
    with pytest.raises(UnknownName, match=r"Known: .*fedavg"):
        registry.load_plugin("defenses", "qqq")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {"params": {"alhpa": 0.1}},
            "defense fedhide: unknown parameter 'alhpa'. Did you mean 'alpha'",
        ),
        (
            {"params": {"alpha": 1.5}},
            "defense fedhide: alpha = 1.5: input should be less than or equal to 1",
        ),
        ({"params": {"alpha": "big"}}, "alpha = 'big'"),
        ({"params": {"k": 2.5}}, "k = 2.5"),
        ({"params": {"k": True}}, "k = True"),
        ({"params": {"alpha": float("nan")}}, "fedhide"),
        ({"params": {"alhpa": 1, "k": 0}}, "k = 0.*'alhpa'"),
        (
            {"task_params": {"widht": 3}},
            "task digits: unknown parameter 'widht'. Did you mean 'width'",
        ),
        ({"task": "digit"}, "unknown task 'digit'. Did you mean 'digits'"),
        (
            {"wrappers": [("clip_noise", {"clp": 1.0})]},
            "wrapper clip_noise: unknown parameter 'clp'. Did you mean 'clip'",
        ),
        (
            {"engine": "fast"},
            "engine 'fast' is not known. Use auto, loop, fused, parallel, stacked or threads",
        ),
        ({"dtype": "float16"}, "dtype 'float16' is not known"),
        ({"record": "some"}, "record"),
        ({"rounds": 0}, "rounds = 0"),
        ({"seed": -1}, "seed = -1"),
    ],
)
def test_misspelt_fields_and_wrong_values_are_one_sentence(more, words):
    with pytest.raises(LeakbenchError, match=words) as said:
        make_spec("fedhide", **more)
    assert "\n" not in str(said.value)
    assert said.value.exit_code == 2


def test_methods_are_frozen_and_say_what_they_are():
    # 0 is a float, too.
    hide = registry.load_plugin("defenses", "fedhide").build({"alpha": 0, "k": 3}, "x")
    assert hide.alpha == 0.0
    with pytest.raises(ValueError, match="frozen"):
        hide.alpha = 0.5
    assert hide == registry.load_plugin("defenses", "fedhide").build(hide.parameters(), "again")


def test_whose_value_wins():
    """The user's over the task's table over the method's own."""
    assert make_spec("fedhide").defense.params["k"] == 3  # digits' table; the method's own is 10
    assert make_spec("fedhide", params={"k": 7}).defense.params["k"] == 7
    assert make_spec("fedhide", task="digit-pairs").defense.params["k"] == 5
    assert registry.load_plugin("defenses", "fedhide")().k == 10


@pytest.mark.parametrize("kind", registry.KINDS)
def test_everything_that_is_listed_can_be_loaded(kind):
    for name in registry.names(kind):
        assert registry.load_plugin(kind, name).__doc__.strip()


def test_the_run_says_how_to_make_it_again(tmp_path, capsys):
    run = leakbench.train(
        "fedhide",
        task_params=TINY,
        rounds=2,
        out=tmp_path,
        seed=3,
        wrappers=[("clip_noise", {"kinds": ["prototype"]})],
    )
    words = read_sealed(run.path / "run.json")["command"]
    assert cli.run([*shlex.split(words)[1:], "-o", str(tmp_path)]) == 0
    assert "complete" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == [run.path.name]
