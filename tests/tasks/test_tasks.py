"""Tasks: what is trained on, tested on and granted to attackers never mixes; and nothing of it
depends on a run's seed.
"""

import pytest
import torch

from leakbench.base import registry
from leakbench.base.errors import UsageError
from leakbench.base.streams import shared
from leakbench.federation.batches import batch_plan
from leakbench.federation.task_data import Examples, padded
from leakbench.models.networks import MODELS, initialise

TASKS = ("digits", "digit-pairs")


@pytest.fixture(scope="module", params=TASKS)
def task(request):
    return registry.load_plugin("tasks", request.param).build({}, f"task {request.param}")


def halves(x):
    """The source digits that a pair shows, as sets of bytes: left and right."""
    return [
        {image.contiguous().numpy().tobytes() for image in x[..., columns]}
        for columns in (slice(0, 8), slice(8, 16))
    ]


def images(examples):
    return {x.contiguous().numpy().tobytes() for x in examples.x}


def test_shapes_ranges_and_types(task):
    data = task.load()
    for part in (data.train, data.test, data.aux):
        assert part.x.shape == (len(part), *task.shape)
        assert part.x.dtype == torch.float64
        assert part.y.dtype == torch.int64
        assert 0 <= float(part.x.min()) <= float(part.x.max()) <= 1
        assert set(part.y.tolist()) == set(range(task.classes))
    assert data.rows.shape == (task.clients, int(data.counts.max()))
    assert task.chance == 1 / task.classes


def test_train_test_and_auxiliary_data_are_disjoint(task):
    data = task.load()
    train, test, aux = images(data.train), images(data.test), images(data.aux)
    assert not (train & test)
    assert not (train & aux)
    assert not (test & aux)


def test_every_client_has_one_class_and_no_example_twice(task):
    data = task.load()
    seen = []
    for c in range(task.clients):
        rows = data.rows[c, : int(data.counts[c])]
        assert set(data.train.y[rows].tolist()) == {int(data.client_class[c])}
        seen += rows.tolist()
    assert sorted(seen) == list(range(len(data.train)))
    assert data.client_class.tolist() == list(range(task.clients))


def test_digits_has_the_whole_set_once():
    data = registry.load_plugin("tasks", "digits").build({}, "task").load()
    assert [len(e) for e in (data.train, data.test, data.aux)] == [1097, 400, 300]
    assert torch.bincount(data.test.y).tolist() == [40] * 10
    assert torch.bincount(data.aux.y).tolist() == [30] * 10
    assert 104 <= int(data.counts.min()) <= int(data.counts.max()) <= 113


@pytest.fixture(scope="module")
def pairs():
    return registry.load_plugin("tasks", "digit-pairs").build({}, "task").load()


@pytest.fixture(scope="module")
def sources():
    return {
        name: registry.load_plugin("tasks", "digits")
        .build({}, "task")
        .load()
        .__getattribute__(name)
        for name in ("train", "test", "aux")
    }


def test_pairs_show_digits_of_their_own_part_alone(pairs, sources):
    """A stroke of a test or auxiliary pair occurs in no client's data."""
    for name in ("train", "test", "aux"):
        pool = images(sources[name])
        for side in halves(getattr(pairs, name).x):
            assert side <= pool, name


def test_pairs_show_the_digits_that_their_class_names(pairs, sources):
    of = {
        name: {x.contiguous().numpy().tobytes(): int(y) for x, y in zip(e.x, e.y, strict=True)}
        for name, e in sources.items()
    }
    for name in ("train", "test", "aux"):
        e = getattr(pairs, name)
        for x, y in zip(e.x, e.y.tolist(), strict=True):
            left, right = (
                of[name][x[..., s].contiguous().numpy().tobytes()]
                for s in (slice(0, 8), slice(8, 16))
            )
            assert 10 * left + right == y


def test_each_test_digit_is_used_once(pairs, sources):
    shown = [
        x[..., s].contiguous().numpy().tobytes()
        for x in pairs.test.x
        for s in (slice(0, 8), slice(8, 16))
    ]
    assert len(shown) == len(set(shown)) == 400 == len(sources["test"])


def test_pairs_per_class(pairs):
    assert torch.bincount(pairs.train.y).tolist() == [40] * 100
    assert torch.bincount(pairs.test.y).tolist() == [2] * 100
    assert torch.bincount(pairs.aux.y).tolist() == [4] * 100
    assert len(images(pairs.train)) > 3900  # drawn with replacement, hardly ever the same pair


@pytest.mark.parametrize("name", TASKS)
def test_data_are_the_same_whenever_they_are_loaded(name):
    """Nothing of a run reaches a task: not its seed, its model or its rounds."""
    one = registry.load_plugin("tasks", name).build({}, "task").load()
    torch.rand(7)
    two = (
        registry.load_plugin("tasks", name)
        .build({"model": "lenet", "width": 3, "dim": 5}, "task")
        .load()
    )
    for part in ("train", "test", "aux"):
        a, b = getattr(one, part), getattr(two, part)
        assert torch.equal(a.x, b.x)
        assert torch.equal(a.y, b.y)
    assert torch.equal(one.rows, two.rows)


# Digits are too small for it.
@pytest.mark.parametrize("model", sorted(m for m in MODELS if not m.startswith("harnet")))
def test_first_numbers_come_from_a_named_stream(model):
    nets = [MODELS[model]((1, 8, 8), 10, 6) for _ in range(2)]  # torch gave them different ones
    one, two = (initialise(n, shared(3, "init")) for n in nets)
    other = initialise(nets[0], shared(4, "init"))
    norms = torch.nn.GroupNorm | torch.nn.BatchNorm2d | torch.nn.PReLU
    normed = {
        f"{path}.{k}"
        for path, m in nets[0].named_modules()
        if isinstance(m, norms)
        for k in m.state_dict()
    }
    assert all(torch.equal(one[k], two[k]) for k in one)
    assert not any(torch.equal(one[k], other[k]) for k in one if k not in normed)
    wide = MODELS[model]((1, 8, 8), 10, 64)
    name, weight = max(
        ((k, v) for k, v in initialise(wide, shared(0, "init")).items() if v.dim() > 1),
        key=lambda item: item[1].numel(),
    )
    assert float(weight.std()) == pytest.approx(wide.gain / weight[0].numel() ** 0.5, rel=0.02), (
        name
    )


def test_wrong_parameters_of_a_task_are_refused():
    kind = registry.load_plugin("tasks", "digits")
    for wrong, words in (
        ({"clients": 9}, "task.clients = 9 with split class: expected 10, one client per class"),
        ({"widht": 3}, "Did you mean 'width'"),
        ({"dim": 1}, "dim = 1"),
        ({"clients": 1, "split": "iid"}, "clients = 1"),
    ):
        with pytest.raises(UsageError, match=words):
            kind.build(wrong, "task digits")
    task = kind.build({"model": "lenett"}, "task digits")
    facts = task.facts(registry.load_plugin("defenses", "fedavg")())
    with pytest.raises(UsageError, match=r"unknown model\. Did you mean 'lenet'"):
        task.module(facts)


def test_tables_name_methods_and_fields_that_exist():
    for name in registry.names("tasks"):
        kind = registry.load_plugin("tasks", name)
        assert kind.__doc__.strip()
        assert kind.about
        for method, values in kind.tables.items():
            registry.load_plugin("defenses", method).build(
                values, f"the table of {name} for {method}"
            )


def some(n, clients):
    y = torch.arange(n) % clients
    return Examples(torch.zeros(n, 1), y), *padded(
        [(y == c).nonzero().flatten()[: 3 + c] for c in range(clients)]
    )


def test_padding_repeats_the_first_row_and_is_never_used():
    from leakbench.federation.task_data import TaskData

    examples, rows, counts = some(60, 4)
    assert counts.tolist() == [3, 4, 5, 6]
    assert rows[0, 3:].tolist() == [int(rows[0, 0])] * 3
    data = TaskData(examples, examples, examples, rows, counts, torch.arange(4))
    for local in ({"steps": 7, "epochs": 0}, {"steps": 0, "epochs": 3}):
        for batch in (1, 2, 3, 4, 10):
            todo = batch_plan(data, range(4), seed=0, round=1, phase=2, batch=batch, **local)
            for c in range(4):
                used = [int(r) for step in todo.rows(c) for r in step]
                mine = rows[c, : int(counts[c])].tolist()
                assert set(used) <= set(mine)
                if local["epochs"]:
                    assert sorted(used) == sorted(mine * 3)  # every example once in every epoch
                else:
                    assert len(todo.rows(c)) == 7
                    assert all(len(set(s.tolist())) == len(s) for s in todo.rows(c))


def test_batches_differ_by_client_round_phase_and_seed_and_are_fair():
    from leakbench.federation.task_data import TaskData

    x = torch.zeros(40, 1)
    # Two clients with the same examples.
    rows, counts = padded([torch.arange(20), torch.arange(20)])
    data = TaskData(
        Examples(x, x[:, 0].long()),
        Examples(x, x[:, 0].long()),
        Examples(x, x[:, 0].long()),
        rows,
        counts,
        torch.arange(2),
    )

    def drawn(seed=0, round=1, phase=2):
        todo = batch_plan(
            data, range(2), seed=seed, round=round, phase=phase, batch=5, steps=2, epochs=0
        )
        return [tuple(torch.cat(todo.rows(c)).tolist()) for c in range(2)]

    draws = [*drawn(), *drawn(seed=1), *drawn(round=2), *drawn(phase=3)]
    assert len(set(draws)) == 8
    assert drawn() == drawn()
    often = torch.bincount(
        torch.tensor([drawn(round=t)[0] for t in range(400)]).flatten(), minlength=20
    )
    assert float(often.double().std()) < 20  # each about 200 times, give or take 10


def test_the_batch_of_a_client_does_not_depend_on_who_else_was_chosen():
    data = registry.load_plugin("tasks", "digits").build({}, "task").load()
    local = {"seed": 1, "round": 4, "phase": 2, "batch": 16, "steps": 1, "epochs": 0}
    alone, among = (batch_plan(data, [7], **local), batch_plan(data, [2, 7, 9], **local))
    assert torch.equal(alone.rows(0)[0], among.rows(1)[0])


def split_digits(**params):
    return registry.load_plugin("tasks", "digits").build(params, "task digits")


def test_fields_of_a_split_at_their_defaults_change_nothing():
    """What a run is named after may have new fields; what it is trained on may not."""
    data = split_digits().load()
    assert data.client_class.tolist() == list(range(10))
    assert data.context is None
    for c in range(10):
        assert (
            data.rows[c, : int(data.counts[c])].tolist()
            == (data.train.y == c).nonzero().flatten().tolist()
        )
    assert split_digits().one_class_each
    assert split_digits().defaults("fedavg") == {}
    assert "steps" not in split_digits().defaults("fedhide")


@pytest.mark.parametrize(
    "params",
    [
        {"split": "qua", "split_param": 3, "clients": 30},
        {"split": "dir", "split_param": 0.3, "clients": 17},
        {"split": "iid", "clients": 2},
        {"split": "shards", "split_param": 1, "clients": 100},
        {"split": "class", "mean_local_size": 20},
        {"split": "qua", "clients": 40, "mean_local_size": 7},
    ],
    ids=str,
)
def test_clients_hold_the_training_set_and_no_example_twice(params):
    task = split_digits(**params)
    data, every = task.load(), split_digits().load()
    size = task.mean_local_size * task.clients or 1097
    seen = [r for c, n in enumerate(data.counts.tolist()) for r in data.rows[c, :n].tolist()]
    assert sorted(seen) == list(range(size))
    assert data.rows.shape == (task.clients, int(data.counts.max()))
    assert images(data.train) <= images(every.train)
    for part in ("test", "aux"):
        assert torch.equal(getattr(data, part).stored, getattr(every, part).stored)
    assert data.client_class.tolist() == (
        list(range(10)) if params["split"] == "class" else [-1] * task.clients
    )


def test_too_many_clients_are_refused_when_the_data_are_there():
    for params, words in (
        (
            {"split": "iid", "clients": 1098},
            "task.clients = 1098, but there are 1097 training examples",
        ),
        (
            {"split": "iid", "clients": 10, "mean_local_size": 110},
            "needs 1100 training examples, but there are 1097",
        ),
    ):
        with pytest.raises(UsageError, match=words):
            split_digits(**params).load()


def test_methods_train_as_in_the_flea_paper_where_clients_have_several_classes():
    local = {
        "average": "weighted",
        "steps": 0,
        "epochs": 5,
        "optimizer": "adam",
        "lr": 0.001,
        "decay": 0.98,
    }
    mixed = split_digits(split="qua")
    for method in ("fedavg", "fedprox"):
        assert mixed.defaults(method) == {**local, "fraction": 0.5, "batch": 16}
        assert split_digits().defaults(method) == {}
    for task in (mixed, split_digits()):
        for method in ("flea", "fedmix", "feddata", "feddecorr", "fedlc", "fedntd", "fedbr"):
            values = task.defaults(method)
            layer = values.pop("layer", "")
            values["batch"] += values.pop("shared_batch", 0)  # feddata's own examples and others'
            assert values == {**local, "fraction": 0.5, "batch": 16}
            assert layer == ("first" if method == "flea" else "")
    cifar10 = registry.load_plugin("tasks", "cifar10")
    for model, layer in (("resnet32", "stem"), ("mobilenetv2", "block1"), ("lenet", "first")):
        task = cifar10.build({"model": model, "split": "qua", "clients": 500}, "task")
        assert task.defaults("flea") == {**local, "fraction": 0.1, "batch": 32, "layer": layer}
        assert task.defaults("fedavg") == {**local, "fraction": 0.1, "batch": 32}


def test_under_shards_methods_train_as_fedaas_and_sharing_ones_as_fleas():
    aa = {"average": "weighted", "batch": 256, "steps": 0, "epochs": 11, "lr": 0.0025}
    task = registry.load_plugin("tasks", "cifar10").build(
        {"split": "shards", "split_param": 1.0, "clients": 100}, "task"
    )
    for method in ("fedavg", "fedprox", "fedbn", "moon"):
        assert task.defaults(method) == aa
    assert task.defaults("fedaa") == {**aa, "epochs": 10}
    assert (task.defaults("flea")["optimizer"], task.defaults("fedmix")["epochs"]) == ("adam", 5)
    own = {
        m: registry.load_plugin("defenses", m)().parameters() for m in ("fedaa", "fedbn", "moon")
    }
    for method, values in own.items():
        assert {k: values[k] for k in aa} == {**aa, "epochs": 10 if method == "fedaa" else 11}
    assert split_digits(split="shards").defaults("fedavg") == {**aa, "batch": 32}


def test_the_layer_that_flea_shares_is_a_stage_of_every_model():
    for name in MODELS:
        sensors = registry.load_plugin("tasks", "uci-har").build({"model": name}, "task")
        task = sensors if name.startswith("harnet") else split_digits(model=name)
        stages = [
            n
            for n, _ in task.module(
                task.facts(registry.load_plugin("defenses", "fedavg")())
            ).named_children()
        ]
        assert task.defaults("flea")["layer"] in stages[:-1]


@pytest.mark.parametrize(
    "name", ["fedhide", "fedgn", "fedcs", "fedaws", "fedmetric", "feduv", "deepsvdd"]
)
def test_a_method_with_one_class_per_client_is_refused_in_one_sentence(name, tmp_path):
    import leakbench
    from leakbench.federation.federation import Federation

    with pytest.raises(UsageError) as caught:
        leakbench.train(
            name, task_params={"split": "qua", "clients": 20}, rounds=2, out=tmp_path / "runs"
        )
    text = str(caught.value)
    assert "needs clients with one class each" in text
    assert "task.split=class and task.clients=10" in text
    assert "\n" not in text
    assert not (tmp_path / "runs").exists()
    task = split_digits(split="qua", clients=20)
    with pytest.raises(UsageError, match="needs clients with one class each"):
        Federation(registry.load_plugin("defenses", name)(), task, task.load())


@pytest.mark.parametrize(
    "params",
    [
        {"split": "dir", "split_param": 0.2, "clients": 24},
        {"split": "qua", "clients": 60, "mean_local_size": 5},
    ],
    ids=str,
)
def test_clients_with_few_and_different_numbers_of_examples_train_and_learn(params, tmp_path):
    import leakbench

    run = leakbench.train(
        "fedavg",
        task_params={**params, "model": "mlp", "width": 16, "evaluations": 10},
        params={"lr": 0.01},
        rounds=10,
        out=tmp_path / "runs",
    )
    assert len(set(run.tree("truth/data.safetensors")[0]["counts"].tolist())) > 1
    values = [r["value"] for r in run.table("utility.csv", ["value"])]
    assert values[-1] > 0.5
    assert run.meta["facts"]["clients"] == params["clients"]
