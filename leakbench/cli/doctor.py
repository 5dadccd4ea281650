"""doctor: what is here, and what to do for what is missing."""

from __future__ import annotations

from typing import Any

from leakbench.cli.console import emit, emit_json


def run_doctor(*, as_json: bool) -> int:
    """Versions, device, data, LPIPS weights, plugins."""
    found = [_versions(), _device(), _data(), _lpips(), _plugins()]
    if as_json:
        emit_json(found)
        return 0
    for item in found:
        emit(f"{'ok     ' if item['ok'] else 'missing'}  {item['what']}: {item['found']}")
        if item["do"]:
            emit(f"         {item['do']}")
    return 0


def _item(what: str, found: str, *, ok: bool = True, do: str = "") -> dict[str, Any]:
    return {"what": what, "found": found, "ok": ok, "do": do}


def _versions() -> dict[str, Any]:
    from leakbench.base import provenance

    commit, dirty = provenance.source()
    known = [f"{name} {version}" for name, version in provenance.versions().items()]
    if commit:
        known.append(f"commit {commit[:10]}" + " (changed)" * dirty)
    return _item("versions", ", ".join(known))


def _device() -> dict[str, Any]:
    import os

    import torch

    if torch.cuda.is_available():
        return _item("device", f"{torch.cuda.get_device_name()}, and {os.cpu_count()} CPU cores")
    do = "No GPU is needed for digits and digit-pairs."
    return _item("device", f"CPU, {os.cpu_count()} cores", do=do)


def _data() -> dict[str, Any]:
    from leakbench.base import registry
    from leakbench.base.data_folder import data_folder
    from leakbench.data import sets

    where = {name: sets.found(name) for name in sets.NAMES}
    needs = {n: getattr(task, "source", n) for n, task in registry.every("tasks").items()}
    embedded = ", ".join(n for n, name in needs.items() if name not in where)
    here, odd = "", []
    for name, folder in where.items():
        unlike = sets.unofficial(name) if folder else ""
        odd += [unlike] if unlike else []
        here += f"; {name} in {folder} ({'not ' * bool(unlike)}the official files)" * bool(folder)
    absent = [name for name, folder in where.items() if not folder]
    text = f"{embedded} need no download{here}"
    unofficial = f"{'; '.join(odd)}: what is trained on them is flagged unofficial_data."
    if not absent:
        return _item("data", text, do=unofficial * bool(odd))
    looked = "; ".join(f"{name} ({sets.layouts(name)})" for name in absent)
    do = (
        "Training fetches a set there where it can; or put it there, or set LEAKBENCH_DATA to the"
        " folder that has it."
    )
    for name in (n for n in absent if n in sets.PAGES):
        do += f" {name} cannot be fetched: take it from {sets.PAGES[name]}."
    do = " ".join([do, *([unofficial] if odd else [])])
    return _item("data", f"{text}; not in {data_folder()}: {looked}", ok=False, do=do)


def _lpips() -> dict[str, Any]:
    from leakbench.metrics import lpips

    try:
        path = lpips.find_weights()
    except lpips.WeightsNotFound as error:
        text = "not found; perceptual distance is left out of reports"
        return _item("LPIPS weights", text, ok=False, do=str(error))
    return _item("LPIPS weights", str(path))


def _plugins() -> dict[str, Any]:
    from leakbench.base import plugins, registry

    own = [name for kind in registry.KINDS for name in registry.plugged(kind)]
    there = f"{', '.join(own) or 'none'}; looked in {', '.join(plugins.sources())}"
    return _item("methods of your own", there)
