"""The private, auxiliary and test data of a run, held against the task's own on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from leakbench.base.errors import LeakbenchError
from leakbench.base.files import file_digest, read_tree
from leakbench.base.tree import flat
from leakbench.federation.task_data import TaskData
from leakbench.record import private_data
from leakbench.record.folders import Run
from leakbench.record.origin import data_digest, official
from leakbench.record.run_json import digest_of
from leakbench.record.runspec import RunSpec, parts
from leakbench.verifying import same
from leakbench.verifying.finding import Finding, differs, holds, unchecked

DATA = "truth/data.safetensors"


def of_task(run: Run) -> Iterator[Finding]:
    """Whether the run's data are what its task loads here."""
    what = "its data, loaded again"
    try:
        spec = RunSpec.build(run.spec, f"{run.path}/run.json")
        data = parts(spec).task.load()
    except LeakbenchError as error:
        yield unchecked("data", what, f"they cannot be loaded here: {error}")
        return
    with TemporaryDirectory(prefix="leakbench-verify-") as name:
        yield from _files(run, spec, data, Path(name))
    yield _said(run, data)
    now = digest_of(*data.tested)
    if now == run.meta["test_data"]:
        yield holds("run.json", "the test data, loaded again", "their SHA-256 is the recorded one")
    else:
        yield differs(
            "run.json", "the test data, loaded again", "their SHA-256 is not the recorded one"
        )


def _said(run: Run, data: TaskData) -> Finding:
    """The digest of all data, and whether they are the official ones."""
    said, what = run.meta.get("data"), "data"
    ours = {"digest": data_digest(data), "official": official(data)}
    if not said:
        return unchecked("run.json", what, "it does not say which data these were")
    wrong = [k for k, v in ours.items() if k not in said or said[k] != v]
    if wrong:
        return differs("run.json", what, f"the {wrong[0]} of all data is not the recorded one")
    return holds("run.json", what, "the digest of all data, and whether they are the official ones")


def _files(run: Run, spec: RunSpec, data: TaskData, folder: Path) -> Iterator[Finding]:
    """The files of a run that hold data of its task."""
    private_data.write_private_data(folder / DATA, data, spec)
    private_data.write_known(folder, data, spec)
    for name in sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*.safetensors")):
        if name not in run.meta["files"]:
            yield unchecked(name, "the task's data, loaded again", "this part of a run has it not")
        elif file_digest(folder / name) == run.meta["files"][name]:
            yield holds(name, "the task's data, loaded again", "byte for byte")
        else:
            (found, head), (made, ours) = run.tree(name), read_tree(folder / name)
            # An excerpt keeps a part of the tensors.
            kept = flat(found)
            mine = {k: v for k, v in flat(made).items() if "excerpt" not in run.meta or k in kept}
            why = "its header differs" if head != ours else same.differing_tensors(kept, mine)
            told = differs if why else holds
            yield told(name, "the task's data, loaded again", why or "tensor by tensor")
