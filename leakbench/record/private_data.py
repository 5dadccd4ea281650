"""truth/data.safetensors: which examples every client holds.

Small sets lie in it; of a large one only its SHA-256, and the task has it.
"""

from __future__ import annotations

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakbench.base import registry
from leakbench.base.errors import LeakbenchError, NotMeasured
from leakbench.base.files import write_tree
from leakbench.base.spec import canonical
from leakbench.base.tree import Tree, nbytes
from leakbench.record import candidates, users
from leakbench.record.knowledge import FILES

if TYPE_CHECKING:
    from torch import Tensor

    from leakbench.federation.task_data import Examples, TaskData
    from leakbench.record.runspec import RunSpec

LARGEST = 16 * 1024**2  # bytes of images kept in a run folder


def write_private_data(path: Path, data: TaskData, spec: RunSpec) -> None:
    """Write y (n,), rows (C, n_max), counts (C,), client_class (C,), and x (n, ...) where small.

    Where the task plants a marker, also context (C,) bool; where it tells an attribute, attribute
    (n,); where it asks for texts, targets (n, T) and shown (n,), the number of the image that each
    example shows; where it can be asked for membership, member (m,), of each candidate its row, or
    -1, and user (p,), of each of these people the client, or -1.
    """
    tree = {"y": data.train.y, "rows": data.rows, "counts": data.counts}
    tree["client_class"] = data.client_class
    if data.train.targets is not None:
        tree["targets"] = data.train.targets
        tree["shown"] = data.train.shown
    if data.context is not None:
        tree["context"] = data.context
    if data.train.attribute is not None:
        tree["attribute"] = data.train.attribute
    if nbytes(data.train.stored) <= LARGEST:
        tree["x"] = data.train.stored
    asked = candidates.drawn(data, spec.seed)
    if asked is not None:
        tree["member"] = asked[1]
    people = users.drawn(data, spec.seed)
    if people is not None:
        tree["user"] = people[1]
    write_tree(path, tree, {"task": spec.task.name, "images": _digest(data.train.stored)})


def write_known(folder: Path, data: TaskData, spec: RunSpec) -> None:
    """Write the examples that an attacker may be granted into the run ``folder``.

    x (n, ...), y (n,), and targets where there are some: auxiliary data, the candidates, those of
    which the attribute (n,) is told, and those of people who may be clients.
    """
    head = {"task": spec.task.name}
    write_tree(folder / FILES["aux_data"], data.aux.tree, head)
    asked = candidates.drawn(data, spec.seed)
    if asked is not None:
        write_tree(folder / FILES["candidates"], asked[0].tree, head)
    people = users.drawn(data, spec.seed)
    if people is not None:
        write_tree(folder / FILES["users"], people[0].tree, head)
    if data.attributed is not None:
        write_tree(folder / FILES["attributes"], data.attributed.tree, head)


def images(tree: Tree, meta: Any, task: dict[str, Any], rows: Tensor) -> Tensor:
    """(k, ...) float64, in [0, 1] (sensors: standardised), of the file or of the task's data.

    Args:
        tree: of the file.
        meta: its header.
        task: the run's task, {"name", "params"}.
        rows: (k,) int64.

    Raises:
        NotMeasured: the data set is not on this machine, or is another one than the run was trained
            on.
    """
    from leakbench.federation.task_data import Examples

    if "x" in tree:
        return Examples(tree["x"], tree["y"]).images(rows)
    examples, found = _train(task["name"], canonical(task["params"]))
    if found != meta["images"]:
        raise NotMeasured(
            f"the images of {task['name']} on this machine are not those that the run was trained"
            " on (SHA-256 differs)."
        )
    return examples.images(rows)


def gallery(name: str, params: dict[str, Any]) -> Examples:
    """The training inputs of the task, nameless, for an attacker who is granted them.

    Raises:
        NotMeasured: the data set is not on this machine.
    """
    return _train(name, canonical(params))[0].gallery()


@lru_cache(maxsize=1)
def _train(name: str, params: str) -> tuple[Examples, str]:
    try:
        train = (
            registry.load_plugin("tasks", name)
            .build(json.loads(params), f"task {name}")
            .load()
            .train
        )
    except LeakbenchError as error:
        raise NotMeasured(
            f"the run does not hold the images of {name}, and they were not found: {error}"
        ) from None
    return train, _digest(train.stored)


def _digest(stored: Tensor) -> str:
    return hashlib.sha256(stored.contiguous().numpy().tobytes()).hexdigest()
