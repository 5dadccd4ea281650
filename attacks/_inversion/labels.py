"""The labels to try for an update: the true ones, or those that its last layer gives away.

A class in the batch lowers its row of the last layer's gradient: of cross-entropy over logits the
row of class c is the mean of (p_c - [y = c]) h over the examples, h (d,) the features that the
layer reads and p their predicted probabilities, and its bias is the same without h (iDLG, Zhao et
al. 2020; LLG, Wainakh et al. 2022). Neither p nor h is known, but both are tied by the weights,
p = softmax(W h + b), which the attacker has (iLRG, Ma et al. 2023). Here that is solved for one h
for each class in turns: mean features of all examples first, then predictions and shares from
features, and features from shares, ``TURNS`` times. A loss that makes something else of the logits
than cross-entropy does (margins, mixed labels) is told by its gradient on noise: there the classes
that were raised are taken, in proportion, and what is solved for comes second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

from attacks import _label_shares
from attacks._output_moves import both_classes, filled, of_classes, reads_classes
from attacks._strangers import frequencies
from attacks._updates import Behind
from leakbench import models
from leakbench.attacking import Outline, Replay, View
from leakbench.base import MethodError, torch
from leakbench.federation import Batch, Net, class_logits, kept_names

if TYPE_CHECKING:
    from torch import Tensor

TURNS = 10  # of features, predictions and shares; nothing changes after
TRIED = 4  # label vectors of labels=solved
SAME = 1e-3  # of its norm: such gradients are the same
NOISE = 64  # images that the received network is shown, where no bias tells the scale


class LabelSettings(Protocol):
    """What of the attack's fields is read here."""

    @property
    def labels(self) -> Literal["given", "inferred", "solved"]: ...


def obstacle(run: Outline) -> str:
    """Why the labels cannot be read off updates of this run; empty where they can.

    Or where no loss asks for any: methods whose network ends in an embedding.
    """
    if run.method.outputs != "logits":
        return ""
    name, last = models.last_layer(run.module(), run.facts.shape)
    reads = reads_classes(last, run.facts.classes)
    if not reads or not models.gives_logits(run.module(), run.facts.shape):
        return (
            "the network does not end in a linear layer of class logits, so labels cannot be"
            " inferred"
        )
    if models.tensor_of(name, "weight") in kept_names(run.method, run.module()):
        return f"the last layer ({name}) is not shared, so labels cannot be inferred"
    return ""


def behind(view: View, b: Behind, how: LabelSettings, rng: torch.Generator) -> list[Tensor]:
    """Label vectors (B,) int64 to try for an update, the likeliest first.

    ``given``: the true ones. ``inferred``: those that fit the last layer best. ``solved``: also up
    to three that fit next best, each with one label exchanged; the images then decide by their
    mismatch. Methods whose network ends in an embedding read no labels, and get zeros. [] where
    nothing was sent that tells them.

    Raises:
        MethodError: the network ends in an embedding, and the loss reads labels all the same.
    """
    if b.labels is not None:
        return [b.labels]
    replay = Replay(view, b.message, rng, rows=b.rows, phase=b.loss, dtype=torch.float64)
    if view.loss_method().outputs != "logits":
        _unread(replay, rng)
        return [torch.zeros(b.examples, dtype=torch.long, device=replay.device)]
    if not bool(_known(replay).any()):
        return []
    many = TRIED if how.labels == "solved" else 1
    times = 1.0 if replay.adam is not None else scale(replay, rng)
    found = vectors(inferred(replay, b.examples, rng, times or 1.0), b.examples, many)
    if times is None:
        found = [*vectors(_raised(replay), b.examples, 1), *found][: max(many, 1)]
    return [y.to(replay.device) for y in found]


def blind(view: View, b: Behind, rng: torch.Generator) -> Tensor | None:
    """(B,) the likeliest labels by their frequency in the auxiliary data; None if none are read.

    What a guesser is left with who is given no labels and reads no update.
    """
    if view.loss_method().outputs != "logits":
        return None
    y = view.know("aux_data").y
    return prior(y, b.examples, view.facts.classes, rng).to(y.device)


def _unread(replay: Replay, rng: torch.Generator) -> None:
    """Raise MethodError where the loss depends on labels."""
    x = torch.rand(replay.blank.x.shape, generator=rng, dtype=torch.float64).to(replay.blank.x)
    x = replay.facts.input_range.native(x)
    values = []
    for y in (0, 1):
        batch = Batch(x, torch.full_like(replay.blank.y, y))
        values.append(replay.loss(batch, replay.unknown).detach())
    if not torch.equal(values[0], values[1]):
        raise MethodError(
            "the method's loss reads labels, which cannot be inferred from a network that ends in"
            " an embedding: use labels=given."
        )


def scale(replay: Replay, rng: torch.Generator) -> float | None:
    """How many times that of cross-entropy's mean the loss's gradient by the last layer is.

    Once of the usual loss, and of a sum over the examples as often as a step has examples. None
    where it is no multiple of it. At the weights received, on noise and random labels, with private
    inputs as guessed.
    """
    found, usual = _slopes(replay, NOISE, rng)
    times = float(found @ usual / usual.square().sum().clamp(min=1e-300))
    if times <= 0 or bool((found - times * usual).norm() > SAME * found.norm()):
        return None
    each = []
    for step in replay.rows:
        found, usual = _slopes(replay, len(step), rng)
        each.append(float(found @ usual / usual.square().sum().clamp(min=1e-300)))
    return sum(each) / len(each)


def _slopes(replay: Replay, many: int, rng: torch.Generator) -> tuple[Tensor, Tensor]:
    """The gradients by the last layer of the loss of ``many`` examples, and of cross-entropy."""
    name, last = models.last_layer(replay.module, replay.facts.shape)
    if last is None:
        raise ValueError("the network has no last layer")
    model = replay.inbox["model"]
    own = models.of_layer(name, {k: v for k, v in model.items() if k in replay.trained})
    x = torch.rand(many, *replay.facts.shape, generator=rng, dtype=torch.float64)
    x = replay.facts.input_range.native(x)
    y = torch.randint(replay.facts.classes, (many,), generator=rng).to(replay.device)
    batch = Batch(x.to(replay.blank.x), y)
    private = {k: v for k, v in replay.unknown.items() if not k.startswith("draw/")}
    leaves = {k: v.detach().clone().requires_grad_() for k, v in own.items()}
    loss = replay.loss(batch, private, weights=leaves, mode=False)
    seen: list[Tensor] = []  # before a sigmoid, if one follows
    hook = last.register_forward_hook(lambda _m, _x, out: seen.append(out))
    Net(replay.module, model)(batch.x, weights=leaves)  # in evaluation mode, too
    hook.remove()
    usual = torch.nn.functional.cross_entropy(class_logits(seen[-1].flatten(1)), y)

    def slope(value: Tensor) -> Tensor:
        gradients = torch.autograd.grad(value, list(leaves.values()))
        return torch.cat([g.flatten() for g in gradients])

    return slope(loss), slope(usual)


def _known(replay: Replay) -> Tensor:
    """(outputs,) bool: those of the last layer of which anything was sent."""
    name, _ = models.last_layer(replay.module, replay.facts.shape)
    rows, biases = _told(replay, name)
    return rows.any(1) | biases


def _told(replay: Replay, name: str) -> tuple[Tensor, Tensor]:
    """Which numbers of the last layer's weights (outputs, d) and biases (outputs,) were sent."""
    own, keys = replay.sent(), (models.tensor_of(name, "weight"), models.tensor_of(name, "bias"))
    if keys[0] not in own:
        nothing = torch.zeros(1, 1, dtype=torch.bool)
        return nothing, nothing[0]
    rows = own[keys[0]].flatten(1).cpu()
    return rows, own[keys[1]].cpu() if keys[1] in own else torch.zeros_like(rows[:, 0])


def _raised(replay: Replay) -> Tensor:
    """(K,) float64 on the CPU: the classes that the update raised, in proportion."""
    name, _ = models.last_layer(replay.module, replay.facts.shape)
    seen = {k: v.double().cpu() for k, v in replay.observed().items()}
    rows = seen[models.tensor_of(name, "weight")].flatten(1)
    moves = seen.get(models.tensor_of(name, "bias"), rows.sum(1))
    if replay.message.sparse:
        moves, _ = filled(rows, moves, *_told(replay, name))
    fall = -of_classes(moves)
    rise = fall.clamp(min=0)
    return rise / rise.sum().clamp(min=1e-300)


def inferred(replay: Replay, examples: int, rng: torch.Generator, times: float = 1.0) -> Tensor:
    """(K,) float64 on the CPU: the shares of the classes among the ``examples`` of an update.

    The gradient is ``times`` that of a mean over them (see ``scale``).
    Of several steps it is their mean gradient, and what the network predicted between them is
    followed through the last layer alone. A step of Adam tells signs: there a share is one over the
    number of the classes that were raised.
    """
    name, _ = models.last_layer(replay.module, replay.facts.shape)
    steps = len(replay.rows)
    seen = {k: v.double().cpu() / steps / times for k, v in replay.observed().items()}
    keys = models.tensor_of(name, "weight"), models.tensor_of(name, "bias")
    rows, bias = seen[keys[0]].flatten(1), seen.get(keys[1])
    received = {k: v.double().cpu() for k, v in replay.inbox["model"].items()}
    weight, offset = received[keys[0]].flatten(1), torch.zeros(len(rows)).double()
    told = None
    if bias is not None:
        offset = received[keys[1]]
    if replay.message.sparse:
        numbers, known = _told(replay, name)
        usual = None if bool(known.any()) else _usual(replay, name, rng)
        bias = torch.zeros_like(rows[:, 0]) if bias is None else bias
        bias, known = filled(rows, bias, numbers, known, usual)
        told = both_classes(numbers), both_classes(known)
    elif bias is None:
        bias = _without_bias(rows, _usual(replay, name, rng))
    rate = replay.rate * times
    if len(rows) == 1:  # one logit z is (-z / 2, z / 2), and a step of both moves it twice as far
        rate, weight, offset = rate / 2, weight / 2, offset / 2
    rows, bias, weight, offset = (of_classes(t) for t in (rows, bias, weight, offset))
    if replay.adam is not None:
        return (bias < 0).double() / (bias < 0).sum().clamp(min=1)
    return settled(rows, bias, Layer(weight, offset, rate, steps), examples, told)


@dataclass(frozen=True)
class Layer:
    """The last layer as the victim received it, and how it was trained."""

    weight: Tensor  # (K, d)
    offset: Tensor  # (K,), its bias
    rate: float = 0.0
    steps: int = 1

    def predicted(self, features: Tensor, shares: Tensor) -> Tensor:
        """(K, K): row c, the mean over the steps of what is predicted for features (K, d) of c.

        Where the examples have ``shares`` (K,) of the classes, and the features stay as they are.
        """
        weight, offset, total = self.weight, self.offset, torch.zeros(len(shares), len(shares))
        total = total.to(features)
        for _ in range(self.steps):
            said = (features @ weight.T + offset).softmax(1)
            total = total + said / self.steps
            off = shares[:, None] * (said - torch.eye(len(shares)).to(said))
            weight = weight - self.rate * off.T @ features
            offset = offset - self.rate * off.sum(0)
        return total


def settled(
    rows: Tensor,
    bias: Tensor,
    layer: Layer,
    examples: int,
    told: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Shares (K,) of the classes whose features, predictions and shares explain each other.

    Args:
        rows: (K, d), the gradient of the last layer's weights, a mean over examples and steps.
        bias: (K,), that of its bias.
        layer: its weights.
        examples: how many there are; less than half of one is none.
        told: which of ``rows`` (K, d) were sent, and of which classes ``bias`` is told; None: all.
    """
    least = 0.5 / examples
    total = bias.square().sum().clamp(min=1e-300)
    sent, known = (torch.ones_like(rows, dtype=torch.bool), None) if told is None else told
    if told is not None:
        total = (bias.square() @ sent.to(bias)).clamp(min=1e-300)
    usual = ((bias[:, None] * rows).sum(0) / total).expand_as(rows)
    rise = (-bias).clamp(min=0)
    features, shares = usual, rise / rise.sum().clamp(min=1e-300)
    tried = [shares]
    for turn in range(TURNS + 1):
        predicted = layer.predicted(features, shares)
        shares = _label_shares.solved(-bias, predicted, known)
        tried.append(shares)
        if turn < TURNS:
            own = (predicted * shares[:, None]).T @ features - rows
            own = own / shares.clamp(min=least)[:, None]
            clear = (shares > least)[:, None] & sent
            features = torch.where(clear, own, (shares @ features)[None])
    if layer.steps == 1:
        return shares

    def far(shares: Tensor) -> float:
        """From the observed rise, of the whole numbers of examples that shares stand for."""
        whole = vectors(shares, examples, 1)[0].bincount(minlength=len(bias)) / examples
        made = whole - whole.to(bias) @ layer.predicted(usual, whole.to(bias))
        off = (made + bias).square()
        return float((off if known is None else off[known]).sum())

    # Steps that overshoot lead the turns astray: the nearest of all of them, or the rise itself.
    return min(tried, key=far)


def vectors(shares: Tensor, examples: int, many: int) -> list[Tensor]:
    """Up to ``many`` label vectors (examples,) int64 whose counts are nearest to ``shares`` (K,).

    The nearest first; the others differ from it in one label.
    """
    wanted = shares.clamp(min=0) * examples
    counts = wanted.floor().long().clamp(max=examples)
    for _ in range(examples - int(counts.sum())):
        counts[int((wanted - counts).argmax())] += 1
    over = wanted - counts  # of the largest, one more would cost least; of the smallest, one fewer
    classes = over.argsort().tolist()
    fewer = [c for c in classes if counts[c] > 0][:many]
    pairs = [(a, b) for a in fewer for b in classes[::-1][:many] if a != b]
    pairs.sort(key=lambda p: float(over[p[0]] - over[p[1]]))
    found = [counts]
    for a, b in pairs[: many - 1]:
        other = counts.clone()
        other[a] -= 1
        other[b] += 1
        found.append(other)
    return [torch.arange(len(c)).repeat_interleave(c) for c in found]


def prior(y: Tensor, examples: int, classes: int, rng: torch.Generator) -> Tensor:
    """(examples,) int64: the likeliest labels for who knows the frequencies in ``y`` alone.

    Ties fall as ``rng`` has it.
    """
    frequency = frequencies(y.cpu(), classes)
    jitter = 1e-9 * torch.rand(classes, generator=rng, dtype=torch.float64)
    shares = frequency + jitter
    return vectors(shares / shares.sum(), examples, 1)[0]


def _without_bias(rows: Tensor, usual: Tensor) -> Tensor:
    """(K,): what the gradient of a bias would be, of a layer that has none.

    The examples' mean features point where the gradient's first singular vector does, and are about
    as long as ``usual`` (d,), those of noise. That holds of what is never negative, after a ReLU,
    and less well of what is.
    """
    _, _, right = torch.linalg.svd(rows, full_matrices=False)
    return rows @ right[0] / (right[0] @ usual)


def _usual(replay: Replay, name: str, rng: torch.Generator) -> Tensor:
    """(d,) float64: the last layer's mean input where the network received is shown noise."""
    seen: list[Tensor] = []
    hook = replay.module.get_submodule(name).register_forward_hook(
        lambda _module, given, _out: seen.append(given[0].detach())
    )
    x = torch.rand(NOISE, *replay.facts.shape, generator=rng, dtype=torch.float64)
    x = replay.facts.input_range.native(x)
    with torch.no_grad():
        torch.func.functional_call(
            replay.module, dict(replay.inbox["model"]), (x.to(replay.blank.x),)
        )
    hook.remove()
    return seen[0].flatten(1).mean(0).double().cpu()
