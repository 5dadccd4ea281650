"""Names that people read: "FedHide α 0.01, K 20 + clip_noise" from a configuration's parameters."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from leakbench.base.printable_text import one_line
from leakbench.base.spec import canonical, fingerprint
from leakbench.results.keys import Row, params

METHODS = {
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "fedhide": "FedHide",
    "fedgn": "FedGN",
    "fedcs": "FedCS",
    "fedaws": "FedAwS",
    "fedmetric": "FedMetric",
    "feduv": "FedUV",
    "deepsvdd": "DeepSVDD",
    "flea": "FLea",
    "fedmix": "FedMix",
    "feddata": "FedData",
    "fedaa": "FedAA",
    "fedbn": "FedBN",
    "moon": "MOON",
    "feddecorr": "FedDecorr",
    "fedlc": "FedLC",
    "fedntd": "FedNTD",
    "fedbr": "FedBR",
    "ccvr": "CCVR",
    "fedgen": "FedGen",
}
# Always told, whether they differ or not.
PRINCIPAL = {
    "fedhide": ("alpha", "k"),
    "fedgn": ("sigma",),
    "fedcs": ("cos_theta",),
    "fedprox": ("mu",),
    "moon": ("mu",),
}
LONGEST = 120  # characters of a setting's name
LETTERS = {
    "alpha": "α",
    "sigma": "σ",
    "lam": "λ",
    "lam1": "λ1",
    "lam2": "λ2",
    "mu": "μ",
    "k": "K",
    "cos_theta": "cos",
}


def setting_names(rows: Mapping[str, Row]) -> dict[str, str]:
    """``setting_key`` -> name: the family, the parameters that differ between its settings of a
    task, the wrappers.
    """
    values: dict[tuple[str, str, str], set[str]] = defaultdict(set)
    seen: dict[str, dict[str, Any]] = {}
    for key, row in rows.items():
        seen[key] = dict(params(row["defense_params"]))
        for name, value in seen[key].items():
            values[row["task"], row["defense"], name].add(canonical(value))
    names = {}
    for key, row in rows.items():
        family = (row["task"], row["defense"])
        shown = {
            n: v
            for n, v in seen[key].items()
            if n in PRINCIPAL.get(row["defense"], ()) or len(values[*family, n]) > 1
        }
        told = [f"{LETTERS.get(n, n)} {_value(v)}" for n, v in shown.items()]
        wrapped = "".join(f" + {w['name']}" for w in params(row.get("wrappers", "[]")) or [])
        names[key] = _short(
            " ".join([str(METHODS.get(row["defense"], row["defense"])), ", ".join(told)]).strip()
            + wrapped,
            LONGEST,
        )
    twice = Counter((rows[k]["task"], n) for k, n in names.items())
    return {
        k: n if twice[rows[k]["task"], n] == 1 else f"{n} #{fingerprint(k)[:4]}"
        for k, n in names.items()
    }


def _value(value: Any) -> str:
    text = (
        value
        if isinstance(value, str)
        else f"{value:g}"
        if isinstance(value, float)
        else canonical(value)
    )
    return _short(text, 24)


def _short(text: str, most: int) -> str:
    """On one line, cut where it is too long to be read as a name."""
    shown = one_line(text)
    return shown if len(shown) <= most else shown[: most - 1] + "…"
