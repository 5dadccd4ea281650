"""Rows of the gate, made by hand."""

from pydantic_core import to_jsonable_python

from leakbench.federation.utility import METRICS
from leakbench.gate import gate
from leakbench.gate import update as gate_update
from leakbench.gate.row_fields import fields_of, row_of
from leakbench.metrics import LPIPS, MSE, P_LEAK, SAMPLES_TO_90
from leakbench.words.outcomes import check_in_words

MEANINGS = {
    **{m.name: m.meaning for m in (P_LEAK, LPIPS, MSE, SAMPLES_TO_90)},
    "accuracy": METRICS["accuracy"].meaning,
}


def scores(p, seeds=range(20), units=100, start=0):
    """{seed: {unit: 0 or 1}} with exactly a share p of ones in each seed, on other units each
    time.
    """
    ones = round(p * units)
    return {
        s: {f"client/{i}": float((i + 7 * s + start) % units < ones) for i in range(units)}
        for s in seeds
    }


def row(p=0.2, **kept):
    """A cascade row; ``p`` its share, the guesses named after it."""
    units = kept.pop("scores", None) or scores(p)
    fields = {
        "task": "digits",
        "defense": "fedgn",
        "defense_params": {"sigma": 0.1},
        "attack": "cascade",
        "rung": "transcript",
        "metric": "p_leak",
        "stage": "final",
        "worse": "up",
        "share": True,
        "range": (0.0, 1.0),
        "unit": "client",
        "value": sum(x for u in units.values() for x in u.values()) / sum(map(len, units.values())),
        "low": 0.0,
        "high": 1.0,
        "scores": units,
        "control": 1.0,
        "record": {"name": "standard", "last": 200},
        "guesses": {s: [f"guess {p} {s}"] for s in units},
        "truths": {s: ["truth"] for s in units},
        "engine": "fused",
        "dtype": "float32",
    }
    fields |= kept
    return made(fields, MEANINGS.get(fields["metric"]))


def utility(p=0.9, **kept):
    return row(p, attack="utility", rung="", metric="accuracy", worse="down", **kept)


def check(*rows, **asked):
    """As ``leakbench.gate.check``, in words."""
    return check_in_words(gate.check(*rows, **asked))


def update(*rows, **asked):
    """As ``leakbench.gate.update``, in words."""
    fresh, result = gate_update.update(*rows, **asked)
    return fresh, check_in_words(result)


BESIDE = ("label", "tag", "sketches", "files", "written")  # in no row of a file


def made(fields, metric):
    """A row of these keys of a baseline's row, and of what is not in the file."""
    told = to_jsonable_python({k: v for k, v in fields.items() if k not in BESIDE})
    more = {k: fields[k] for k in BESIDE if k in fields}
    return row_of(told, metric).model_copy(update=more)


def changed(row, **keys):
    """The row with other values of these keys."""
    more = {k: getattr(row, k) for k in BESIDE} | keys
    return made(fields_of(row) | more, row.meaning if row.stated else None)
