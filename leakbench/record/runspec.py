"""The spec of a run, as run.json has it, built from names; and the objects it stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from leakbench.base import registry
from leakbench.base.errors import UsageError
from leakbench.base.spec import Spec, fingerprint
from leakbench.federation.defense import Defense, Wrapper
from leakbench.federation.engines import ENGINES, Engine, resolve
from leakbench.federation.precision import DTYPES, Dtype
from leakbench.federation.task import Task
from leakbench.record import audited
from leakbench.record.policy import Policy
from leakbench.record.setting_name import BESIDE, PATTERN, well_formed

if TYPE_CHECKING:
    from leakbench.federation.federation import Federation
    from leakbench.federation.observer import Observer
    from leakbench.federation.task_data import TaskData

Params = Mapping[str, Any]


class Choice(Spec):
    """A method by name, with all its parameters."""

    name: str
    params: dict[str, Any] = Field(default_factory=dict)


class RunSpec(Spec):
    """Everything that a run depends on; its setting's name, and the attacks that are to follow."""

    task: Choice
    defense: Choice
    wrappers: tuple[Choice, ...] = ()
    rounds: int = Field(ge=1, le=10**6)
    seed: int = Field(0, ge=0)
    engine: Engine
    dtype: Dtype = "float32"
    record: Policy = Policy()
    name: str = Field("", pattern=PATTERN)  # of the setting, by its user; "" for none
    attacks: tuple[Choice, ...] = ()

    @model_serializer(mode="wrap")
    def _plain(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Without a name where there is none: such a run's spec is as it always was."""
        told: dict[str, Any] = dump(self)
        return {k: v for k, v in told.items() if k != "name" or v}

    def identity(self) -> str:
        """Eight hex digits over all that changes the run, except its seed."""
        return fingerprint(self.model_dump(mode="json", exclude={"seed", *BESIDE}))

    def public(self) -> RunSpec:
        """How it trains, without what is thrown and what of it is kept and attacked."""
        return self.model_copy(update={"seed": 0, "record": Policy(), "name": "", "attacks": ()})

    def folder(self) -> str:
        """The name of the run folder."""
        return f"{self.task.name}-{self.defense.name}-{self.identity()}-s{self.seed}"


@dataclass(frozen=True)
class Parts:
    """The objects a spec stands for."""

    spec: RunSpec
    task: Task
    method: Defense
    wrappers: tuple[Wrapper, ...]

    @property
    def hides(self) -> bool:
        """Does the method, or a wrapper of what clients send, claim to hide anything?"""
        return self.method.hides() or not all(w.active for w in self.wrappers)

    def federation(
        self,
        data: TaskData,
        *,
        device: str = "cpu",
        seed: int | None = None,
        engine: str = "",
        recorder: Observer[Federation] | None = None,
    ) -> Federation:
        """The run's federation before round 0, on ``data``.

        With another ``seed`` or ``engine``, where given.

        Raises:
            UsageError: the data are not as the task says.
        """
        import torch

        from leakbench.federation.federation import Federation

        return Federation(
            self.method,
            self.task,
            data,
            seed=self.spec.seed if seed is None else seed,
            engine=engine or self.spec.engine,
            wrappers=self.wrappers,
            dtype=getattr(torch, self.spec.dtype),
            device=device,
            recorder=recorder,
        )


def parts(spec: RunSpec) -> Parts:
    """Look every name up and build it."""

    def built(kind: str, one: str, choice: Choice) -> Any:
        return registry.load_plugin(kind, choice.name).build(choice.params, f"{one} {choice.name}")

    task, method = built("tasks", "task", spec.task), built("defenses", "defense", spec.defense)
    wrappers = tuple(built("wrappers", "wrapper", w) for w in spec.wrappers)
    return Parts(spec, task, method, wrappers)


def make_spec(
    defense: str,
    *,
    task: str = "digits",
    params: Params | None = None,
    task_params: Params | None = None,
    wrappers: Sequence[tuple[str, Params]] = (),
    rounds: int | None = None,
    seed: int = 0,
    engine: str = "auto",
    dtype: str = "float32",
    record: str | Policy = "standard",
    attacks: Sequence[tuple[str, Params]] = (),
    called: str = "",
) -> RunSpec:
    """A run from names; the user's values win over the task's for the method, over the method's.

    ``called``: the setting's name; "" for none.

    Raises:
        UsageError: a name, a field or a value is wrong; the method does not suit the task; the
            engine is not exact for the method.
    """
    if engine not in ("auto", *ENGINES):
        raise UsageError(f"engine {engine!r} is not known. Use {_choice('auto', *ENGINES)}.")
    if dtype not in DTYPES:
        raise UsageError(f"dtype {dtype!r} is not known. Use {_choice(*DTYPES)}.")
    if isinstance(record, str):
        record = Policy.build({"name": record}, "--record")
    task, defense = registry.meant("tasks", task), registry.meant("defenses", defense)
    for pair in wrappers:
        if not isinstance(pair, tuple | list) or [*map(type, pair)][:1] != [str] or len(pair) != 2:
            raise UsageError(
                f"wrappers has {pair!r}: expected pairs of a name and parameters, as [('top_k',"
                " {'share': 0.1})]."
            )
    wrappers = [(registry.meant("wrappers", n), p) for n, p in wrappers]
    chosen = registry.load_plugin("tasks", task).build(task_params or {}, f"task {task}")
    kind = registry.load_plugin("defenses", defense)
    for name in params or {}:
        if name in kind.model_fields:
            continue
        if name in type(chosen).model_fields:
            raise UsageError(
                f"defense {defense}: {name!r} is a parameter of the task; write -s task.{name}=...,"
                " in Python task_params."
            )
        for other, _ in wrappers:
            if name in registry.load_plugin("wrappers", other).model_fields:
                raise UsageError(
                    f"defense {defense}: {name!r} is a parameter of the wrapper {other}; write -s"
                    f" {other}.{name}=..., in Python wrappers."
                )
    method = kind.build({**chosen.defaults(defense), **(params or {})}, f"defense {defense}")
    chosen.suits(method)
    chosen.knows_model()
    audited.known_clients(record, chosen.facts(method).clients)
    names = [name for name, _ in wrappers]
    wraps = [registry.load_plugin("wrappers", n).build(p, f"wrapper {n}") for n, p in wrappers]
    last = chosen.rounds if rounds is None else rounds
    stages, clients = [*record.stages(last).values()], chosen.facts(method).clients
    wraps = [w.of_run(stages, clients) for w in wraps]
    values = {
        "task": {"name": task, "params": chosen.parameters()},
        "defense": {"name": defense, "params": method.parameters()},
        "wrappers": [
            {"name": n, "params": w.parameters()} for n, w in zip(names, wraps, strict=True)
        ],
        "rounds": last,
        "seed": seed,
        "engine": resolve(engine, method, wraps),
        "dtype": dtype,
        "record": record.parameters(),
        "name": well_formed(called, "called") if called else "",
        "attacks": [{"name": n, "params": dict(p)} for n, p in attacks],
    }
    return RunSpec.build(values, "run")


def _choice(*names: str) -> str:
    """The names, as a sentence has them."""
    *first, last = names
    return f"{', '.join(first)} or {last}"
