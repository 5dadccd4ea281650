"""How clients of somebody's own loop train, as it is declared: by this attacks replay it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from leakbench.base.errors import UsageError, suggestion
from leakbench.base.raised import raised_text
from leakbench.own.arrays import is_whole, short
from leakbench.own.named import refuse_other_keys

# A rate, those of round 1, 2, ..., or a function of the round; of a round one, or one a step.
Rates: TypeAlias = "float | Sequence[Any] | Callable[[int], Any]"

USUAL = ("lr", "batch", "epochs", "steps")
MOMENTUM = ("momentum", "weight_decay", "nesterov")
# What any of ``torch.optim`` takes besides, by what it is called here.
MORE = {"clip_norm": "clip_norm", "clip_value": "clip_value", "eps": "epsilon"}
KNOWN = (*USUAL, *MOMENTUM, *MORE, "betas")
OPTIMIZERS = ("sgd", "adam", "adamw")
STATES = ("fresh", "kept")


@dataclass(frozen=True)
class DeclaredTraining:
    """A method whose local steps are those that were declared.

    Args:
        defense: its name.
        params: its parameters, without the rates of a schedule.
        rates: of a round, 1, 2, ..., the rate of all steps or of each; None where ``lr`` stays.
        kept: do clients keep velocity or moments from round to round?
    """

    defense: str
    params: Mapping[str, Any]
    rates: Callable[[int], list[float]] | None
    kept: bool

    def parameters(self, rounds: int) -> dict[str, Any]:
        """Those of the method in the first ``rounds`` rounds; the last rates stay.

        Raises:
            UsageError: the schedule has no rates for one of them.
        """
        if self.rates is None:
            return dict(self.params)
        each = [self.rates(t) for t in range(1, rounds + 1)]
        while len(each) > 1 and each[-1] == each[-2]:
            each.pop()
        return {**self.params, "lr": max(each[0]), "rates": each}


def declared_training(
    sgd: Mapping[str, Any] | None, optimizer: str, optimizer_state: str
) -> DeclaredTraining:
    """The training that ``leakbench.observe`` is told of.

    Raises:
        UsageError: something is missing or unknown, or does not go together.
    """
    if sgd is not None and not isinstance(sgd, Mapping):
        raise UsageError(f"sgd is {type(sgd).__name__}: expected dict(lr=..., batch=..., ...).")
    told = {k: v.tolist() if hasattr(v, "tolist") else v for k, v in (sgd or {}).items()}
    for key in ("optimizer", "optimizer_state"):
        if key in told:
            raise UsageError(f"sgd has {key!r}: give it beside sgd, as {key}={told[key]!r}.")
    refuse_other_keys("sgd", told, KNOWN)
    for key, value in told.items():
        each = value if key == "betas" and isinstance(value, list | tuple) else [value]
        if any(isinstance(v, float) and not math.isfinite(v) for v in each):
            raise UsageError(f"sgd has {key} = {short(value)}: expected finite numbers.")
    if "lr" not in told:
        raise UsageError("sgd says no lr: expected sgd=dict(lr=..., batch=..., epochs=...).")
    if ("steps" in told) == ("epochs" in told):
        raise UsageError(
            "sgd says how long clients train by steps or by epochs: expected one of the two."
        )
    for key in ("steps", "epochs"):
        if key in told and (not is_whole(told[key]) or told[key] < 1):
            raise UsageError(f"sgd has {key} = {told[key]!r}: expected a whole number from 1 on.")
    _known_optimizer(told, optimizer, optimizer_state)
    usual = {key: told[key] for key in USUAL if key in told}
    usual |= {"steps": 0} if "epochs" in told else {}
    rates = _schedule(told["lr"])
    if rates is not None:
        del usual["lr"]
    momentum = {key: told[key] for key in MOMENTUM if told.get(key)}
    more = {name: told[key] for key, name in MORE.items() if told.get(key)} | _betas(told)
    kept = optimizer_state == "kept" and (optimizer != "sgd" or "momentum" in momentum)
    adam: dict[str, Any] = {"optimizer": "adam"} if optimizer != "sgd" else {}
    adam |= {"decoupled": True} if optimizer == "adamw" else {}
    if rates is None and not more and not (adam and momentum):
        if momentum:
            params = {"momentum": 0.0, **usual, **momentum}
            return DeclaredTraining("fedavg_momentum", params, None, kept)
        return DeclaredTraining("fedavg", {**usual, **adam}, None, kept)
    return DeclaredTraining("fedavg_optim", {**usual, **momentum, **more, **adam}, rates, kept)


def _known_optimizer(told: Mapping[str, Any], optimizer: str, optimizer_state: str) -> None:
    """Raise UsageError where the optimizer is none of ours, or takes other numbers."""
    if optimizer not in OPTIMIZERS:
        raise UsageError(
            f"optimizer = {optimizer!r}: expected one of {', '.join(OPTIMIZERS)}."
            f"{suggestion(str(optimizer), OPTIMIZERS)}"
        )
    if optimizer_state not in STATES:
        raise UsageError(
            f"optimizer_state = {optimizer_state!r}: expected 'fresh', begun anew in each round, or"
            " 'kept' by each client from round to round."
        )
    theirs = ("betas", "eps") if optimizer == "sgd" else ("momentum", "nesterov")
    wrong = [key for key in theirs if told.get(key)]
    if wrong:
        whose = "optimizer='adam' or 'adamw'" if optimizer == "sgd" else "optimizer='sgd'"
        raise UsageError(f"{', '.join(wrong)} goes with {whose}; leave it out.")
    if told.get("nesterov") and not told.get("momentum"):
        raise UsageError(
            "sgd has nesterov without momentum: give momentum, as 0.9, or leave it out."
        )
    if told.get("eps") == 0:
        raise UsageError("sgd has eps = 0: expected more, as torch's own 1e-8; Adam divides by it.")
    if optimizer == "adamw" and "weight_decay" not in told:
        raise UsageError(
            "optimizer='adamw' needs sgd's weight_decay, as in sgd=dict(lr=..., weight_decay=0.01),"
            " which is torch's own."
        )


def _betas(told: Mapping[str, Any]) -> dict[str, Any]:
    if "betas" not in told:
        return {}
    given = told["betas"]
    if not isinstance(given, list | tuple) or len(given) != 2:
        raise UsageError(f"sgd has betas = {given!r}: expected two numbers, as (0.9, 0.999).")
    return {"beta1": given[0], "beta2": given[1]}


def _schedule(lr: Any) -> Callable[[int], list[float]] | None:
    """The rates of a round; None for one rate that stays.

    Raises:
        UsageError: it is neither a rate, nor rates, nor a function of the round.
    """
    if callable(lr):
        return lambda t: _each(_asked(lr, t), t)
    if isinstance(lr, str | Mapping) or not isinstance(lr, Iterable):
        return None
    rounds = [_each(one, t) for t, one in enumerate(lr, 1)]
    if not rounds:
        raise UsageError("sgd has lr = []: expected a rate for each round.")

    def of(t: int) -> list[float]:
        if t > len(rounds):
            raise UsageError(
                f"sgd names {len(rounds)} rates, and round {t} begins: expected one for each round,"
                " or a function of the round."
            )
        return rounds[t - 1]

    return of


def _asked(schedule: Callable[[int], Any], t: int) -> Any:
    try:
        return schedule(t)
    except Exception as error:  # somebody's code may raise anything
        raise UsageError(
            f"sgd's lr failed in round {t} ({raised_text(error)}): expected"
            " a function of the round, 1, 2, ..., that gives its rate."
        ) from error


def _each(given: Any, t: int) -> list[float]:
    """The rates of the steps of round ``t``; one where it stays."""
    plain = given.tolist() if hasattr(given, "tolist") else given
    each = list(plain) if isinstance(plain, list | tuple) else [plain]
    whole = [isinstance(v, int | float) and not isinstance(v, bool) and 0 <= v < 1e6 for v in each]
    if not each or not all(whole) or not max(each) > 0:
        raise UsageError(
            f"sgd's lr of round {t} is {short(given)}: expected a number above 0, or a list of one"
            " for each local step."
        )
    return [float(v) for v in each]


def refuse_other_loss(loss: Any) -> None:
    """Raise UsageError where ``loss`` is no cross-entropy: attacks would replay another loss."""
    called = getattr(loss, "__name__", type(loss).__name__)
    plain = (
        *("cross_entropy", "CrossEntropyLoss"),
        *("binary_cross_entropy_with_logits", "BCEWithLogitsLoss"),
    )
    if loss is not None and called not in plain:
        raise UsageError(
            f"loss is {called}: expected cross-entropy ({', '.join(plain)}), which attacks replay;"
            " a loss of your own goes into a method of your own (docs/methods.md)."
        )
    smooth = getattr(loss, "label_smoothing", 0.0)
    weighted = getattr(loss, "weight", None) is not None
    summed = getattr(loss, "reduction", "mean") != "mean"
    if smooth or weighted or summed:
        faults = {"label_smoothing": smooth, "class weights": weighted, "a sum for a mean": summed}
        what = next(name for name, on in faults.items() if on)
        raise UsageError(f"loss has {what}, which attacks do not replay: expected it without.")
