"""What a recipe's file may say, and that a mistake in it is one sentence with file and key."""

from __future__ import annotations

import tomllib

import pytest

from leakbench.base.errors import UsageError
from leakbench.record.policy import Policy
from leakbench.reproduce import catalogue, figures, rows
from leakbench.reproduce.orders import Equals, Falls, Keeps, Less
from leakbench.reproduce.recipe import Case
from leakbench.reproduce.recipe_file import read_recipe

SHARED = """
first = [{ label = "FedAwS", defense = "fedaws" }]
setup = { dataset = "digits", task = "digits", rounds = 3, task_params = { dim = 8 } }
record = { probes = 0, clients = [1, 2] }
me = "@me"
"""
HEAD = """
paper = "own"
about = "A table."
measures = [{ key = "utility", title = "accuracy" }]
"""
SCALE = """
[scales.smoke]
time = "no time"
setups = ["@setup"]
"""


@pytest.fixture
def read(tmp_path):
    """The recipe that a text says, beside a file of what its paper's recipes share."""
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "own.toml").write_text(SHARED, encoding="utf-8")

    def of(text):
        path = tmp_path / "table.toml"
        path.write_text(text if "scales" in text else text + SCALE, encoding="utf-8")
        return read_recipe(path)

    return of


def test_a_case_per_value_with_the_value_in_its_label(read):
    cases = """
[[cases]]
of = "@first"
[[cases]]
label = "{sigma} in {k}, n = {n}"
defense = "fedgn"
params = { n = 1000 }
each = { sigma = [0.1, 1.0], k = [2, 3] }
[[cases]]
each.fraction = [0.5, 1.0]
ours = "ours"
of = [{ label = "A {fraction}", defense = "fedavg" }, { label = "B {fraction}", defense = "fedbn" }]
"""
    found = read(HEAD + cases + SCALE).cases
    assert found[0] == Case("FedAwS", "fedaws")
    assert [c.label for c in found[1:5]] == [
        f"{sigma} in {k}, n = 1,000" for sigma in ("0.1", "1") for k in (2, 3)
    ]
    assert found[1].params == {"n": 1000, "sigma": 0.1, "k": 2}
    assert [(c.label, c.defense, c.params["fraction"], c.ours) for c in found[5:]] == [
        ("A 0.5", "fedavg", 0.5, "ours"),
        ("B 0.5", "fedbn", 0.5, "ours"),
        ("A 1", "fedavg", 1.0, "ours"),
        ("B 1", "fedbn", 1.0, "ours"),
    ]


def test_an_order_is_told_by_its_word(read):
    orders = """
[[orders]]
measure = "utility"
of = [
  { text = "falls", falls = ["a = {a}"], each.a = [1, 2] },
  { text = "less", less = [["b", "{m}"], ["{m}", "c"]], each.m = ["x", "y"] },
]
[[orders]]
text = "equals"
measure = "m"
equals = [["a", 1.0]]
tolerance = 0.5
[[orders]]
text = "keeps"
measure = "m"
datasets = ["d"]
keeps = ["a"]
reference = "b"
"""
    assert read(HEAD + orders).orders == (
        Falls("falls", "utility", along=("a = 1", "a = 2")),
        Less("less", "utility", pairs=(("b", "x"), ("x", "c"), ("b", "y"), ("y", "c"))),
        Equals("equals", "m", values=(("a", 1.0),), tolerance=0.5),
        Keeps("keeps", "m", ("d",), those=("a",), reference="b"),
    )


def test_a_setup_is_like_another_and_what_stands_in_is_like_the_setup(read):
    scales = """
[scales.full]
time = "a day"
seeds = [0, 1]
record = "@record"
[[scales.full.setups]]
like = "@setup"
task_params.width = 4
needs = "cifar10"
[scales.full.setups.params]
"fedgn, fedcs" = { lr = 1.0 }
fedcs = { lam = 2.0 }
[scales.full.setups.otherwise]
needs = ""
rounds = 2
stand_in = "digits"
params.fedgn.lr = 0.5
"""
    scale = read(HEAD + SCALE + scales).scales["full"]
    assert (scale.seeds, scale.record) == ((0, 1), Policy(probes=0, clients=(1, 2)))
    (setup,) = scale.setups
    assert (setup.task_params, setup.rounds) == ({"dim": 8, "width": 4}, 3)
    assert setup.params == {"fedgn": {"lr": 1.0}, "fedcs": {"lr": 1.0, "lam": 2.0}}
    other = setup.otherwise
    assert (other.task_params, other.rounds, other.needs) == ({"dim": 8, "width": 4}, 2, "")
    assert other.params == {"fedgn": {"lr": 0.5}, "fedcs": {"lr": 1.0, "lam": 2.0}}


CASE = '[[cases]]\nlabel = "a"\n'


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + "abuot = 1", "table.toml: abuot: there is no such key. Did you mean 'about'?"),
        (
            HEAD + CASE + 'defense = "fedgm"',
            "table.toml: cases.0.defense: there is no defense 'fedgm'. Did you mean 'fedgn'?",
        ),
        (
            HEAD + CASE + 'defense = "fedgn"\nparms = {}',
            "table.toml: cases.0.parms: there is no such key. Did you mean 'params'?",
        ),
        (HEAD + CASE, "table.toml: cases.0.defense: this key lacks. Add it."),
        (HEAD + 'cases = "all"', "table.toml: cases: Input should be a valid list; got 'all'."),
        (
            HEAD + "[[cases]]\neach.sigma = 0.1",
            "table.toml: cases.0.each.sigma: Input should be a valid list; got 0.1.",
        ),
        (
            HEAD + "[scales.smoke]\nsetups = [3]",
            "table.toml: scales.smoke.setups.0: Input should be a valid dictionary",
        ),
        (
            HEAD + 'cases = ["@furst"]',
            "table.toml: nothing is called '@furst'. Did you mean 'first'?",
        ),
        (HEAD + 'cases = ["@me"]', "table.toml: a name stands for itself."),
        (HEAD + 'cases = [{ like = "@first" }]', "table.toml: like = '@first': that is no table."),
        ('paper = "ovn"', "table.toml: there is no shared/ovn.toml. Did you mean 'own'?"),
        ("paper = 3", "table.toml: paper: Input should be a valid string; got 3."),
        ("paper = ", "table.toml is no TOML: "),
        (
            HEAD + '[[orders]]\ntext = "t"\nmeasure = "m"\nrises = ["a"]',
            "table.toml: orders.0: expected one of falls, less, equals, keeps, best, collapses,"
            " below; got none.",
        ),
        (
            HEAD + '[[orders]]\ntext = "t"\nmeasure = "m"\nfalls = ["a"]\nalso = 1',
            "table.toml: orders.0.also: there is no such key.",
        ),
        (
            HEAD + SCALE.replace('"@setup"', '{ like = "@setup", task = "digit" }'),
            "table.toml: scales.smoke.setups.0.task: there is no task 'digit'.",
        ),
        (
            HEAD + SCALE + "record = { probs = 0 }",
            "table.toml: scales.smoke.record: unknown parameter 'probs'. Did you mean 'probes'?",
        ),
        (
            HEAD.replace("accuracy", 'x", attack = "idlg'),
            "table.toml: measures.0.attack: there is no attack 'idlg'.",
        ),
        (HEAD + 'figure = "rouns"', "table.toml: figure: Input should be"),
    ],
)
def test_a_mistake_is_one_sentence_with_file_and_key(read, text, said):
    with pytest.raises(UsageError) as error:
        read(text)
    assert str(error.value).startswith(said)


def test_every_function_that_a_recipe_names_is_there():
    recipes = catalogue.RECIPES.values()
    views = {m.view for r in recipes for m in r.measures} - {""}
    assert views == set(rows.VIEWS)
    assert {r.study for r in recipes} - {""} == set(rows.STUDIES)
    assert {r.figure for r in recipes} - {""} == set(figures.FIGURES)


def test_every_file_is_a_recipe_and_what_is_shared_is_used():
    files = {p.stem: tomllib.loads(p.read_text("utf-8")) for p in catalogue.FOLDER.glob("*.toml")}
    assert set(files) == set(catalogue.RECIPES)
    used = {name for said in files.values() for name in (said["paper"], *said.get("uses", ()))}
    assert used == {p.stem for p in (catalogue.FOLDER / "shared").glob("*.toml")}


def test_every_label_that_a_statement_names_is_a_row_of_its_paper():
    for recipe in catalogue.RECIPES.values():
        kin = [r for r in catalogue.RECIPES.values() if r.paper == recipe.paper]
        known = {c.label for r in kin for c in r.cases}
        if not any(type(o).__name__ == "Below" for o in recipe.orders):
            assert {x for o in recipe.orders for x in o.labels()} <= known, recipe.name
        keys = {m.key for m in recipe.measures}
        assert {o.measure for o in recipe.orders} <= keys, recipe.name


def setups(recipe):
    """All of them, and what stands in for some."""
    for scale in recipe.scales.values():
        for setup in scale.setups:
            yield setup
            if setup.otherwise:
                yield setup.otherwise


@pytest.mark.parametrize("name", catalogue.RECIPES)
def test_a_difference_is_one_phrase(name):
    """A table joins them with a semicolon, and is read again."""
    recipe = catalogue.RECIPES[name]
    said = [c.ours for c in recipe.cases]
    for setup in setups(recipe):
        said += [setup.stand_in, *setup.differs]
        said += [text for told in setup.why.values() for text in told.values()]
    assert not [text for text in said if ";" in text]
