"""Who holds which training examples: rules that deal rows to clients, each row at most once.

A split is a list of C tensors of row numbers, ascending, disjoint, together all of the rows that it
was given.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal

from leakbench.base.errors import UsageError
from leakbench.base.lazy import torch
from leakbench.base.streams import Rng, shared

if TYPE_CHECKING:
    from torch import Tensor

Rule = Literal["class", "qua", "dir", "iid", "shards"]
LEAST = 2  # examples of every client under Dir(mu)
TOGETHER = 50  # clients among whom one Dirichlet draw deals
TRIES = 5000  # Dirichlet draws before it is given up
MU = (0.01, 1000.0)


def kept_rows(
    n: int, clients: int, mean_local_size: int, stream: str, *, who: str = "clients"
) -> Tensor:
    """The rows of n that are kept, ascending: ``mean_local_size`` a client on average; 0: all.

    Drawn at random whatever their class; a smaller size is a part of a larger one. ``who``: what
    clients are called in a message.

    Raises:
        UsageError: there are not so many.
    """
    size = clients * mean_local_size or n
    if size > n:
        raise UsageError(
            f"task.mean_local_size = {mean_local_size} with {clients} {who} needs {size} training"
            f" examples, but there are {n}: use at most {n // clients}, or fewer {who}."
        )
    if size == n:
        return torch.arange(n)
    return _rng(stream, "size").permutation("rows", n)[:size].sort().values


def split_rows(
    y: Tensor, *, clients: int, classes: int, rule: Rule, param: float, stream: str
) -> list[Tensor]:
    """The rows of each client.

    Args:
        y: (n,) int64, the class of each example, 0 to ``classes`` - 1.
        clients: C.
        classes: K.
        rule: "class": client c has the examples of class c (C = K). "qua": see ``qua``. "dir": see
            ``dirichlet``. "iid": a random permutation cut evenly. "shards": see ``shards``.
        param: q, mu or the shards per client; not used by "class" and "iid".
        stream: of the task; the same stream and arguments give the same split.

    Raises:
        UsageError: these examples cannot be dealt so.
    """
    if rule == "class":
        if clients != classes:
            raise UsageError(
                f"task.clients = {clients} with split class: expected {classes}, one client per"
                " class; or use another split."
            )
        return _nobody_without([(y == c).nonzero().flatten() for c in range(clients)], rule)
    if clients > len(y):
        raise UsageError(
            f"task.clients = {clients}, but there are {len(y)} training examples: use at most so"
            " many clients."
        )
    rng = _rng(stream, rule)
    if rule == "qua":
        q = _whole(rule, param, most=classes)
        return _nobody_without(qua(y, clients, classes, q, rng), rule)
    if rule == "dir":
        return dirichlet(y, clients, classes, param, stream)
    if rule == "shards":
        return shards(y, clients, _whole(rule, param, most=len(y) // clients), rng)
    return [part.sort().values for part in rng.permutation("rows", len(y)).tensor_split(clients)]


def holders(clients: int, classes: int, q: int, rng: Rng) -> Tensor:
    """(C, K) bool: client c has class c mod K and q - 1 others drawn at random."""
    out = torch.zeros(clients, classes, dtype=torch.bool)
    for c in range(clients):
        out[c, c % classes] = True
        if classes > 1:
            others = 1 + rng.permutation(f"others/{c}", classes - 1)[: q - 1]
            out[c, (c + others) % classes] = True
    return out


def qua(y: Tensor, clients: int, classes: int, q: int, rng: Rng) -> list[Tensor]:
    """FLea's Qua(q): every client has exactly q classes.

    Each class is shuffled and cut evenly among its holders. So sizes vary around the mean as the
    number of a class's holders does.

    Raises:
        UsageError: fewer clients than classes (one would be nobody's), or a class has fewer
            examples than holders.
    """
    if clients < classes:
        raise UsageError(
            f"task.clients = {clients} with split qua: expected at least {classes}, or a class"
            " would be nobody's."
        )
    held, mine = holders(clients, classes, q, rng), _dealt(clients)
    for k in range(classes):
        rows, who = _shuffled(y, k, rng), held[:, k].nonzero().flatten()
        if len(rows) < len(who):
            raise UsageError(
                f"split qua with q = {q} and {clients} clients: class {k} has {len(rows)} training"
                f" examples for {len(who)} holders; use fewer clients, a smaller split_param or a"
                " larger mean_local_size."
            )
        for c, part in zip(who.tolist(), rows.tensor_split(len(who)), strict=True):
            mine[c].append(part)
    return _rows(mine)


def dirichlet(y: Tensor, clients: int, classes: int, mu: float, stream: str) -> list[Tensor]:
    """Dir(mu): each class is dealt in shares drawn from a symmetric Dirichlet over the clients.

    Class after class; a client that has its even share of all examples already gets none of the
    classes that follow. All is drawn again until every client has ``LEAST`` = 2 examples. Under a
    small mu that never happens to many clients at once, so more than ``TOGETHER`` = 50 are parted
    into groups of equal size, each class is cut evenly among the groups, and each group draws for
    itself. FLea's code does so too (parts of 100, on HAR of 75, at least as many examples as
    classes or 3); its paper says "Dirichlet" and no more.

    Raises:
        UsageError: mu is out of range, or ``TRIES`` draws left somebody with too few.
    """
    if not MU[0] <= mu <= MU[1]:
        raise UsageError(
            f"task.split_param = {mu} with split dir: expected a concentration from {MU[0]} to"
            f" {MU[1]}."
        )
    rng, groups = _rng(stream, "dir"), -(-clients // TOGETHER)
    sizes = [len(g) for g in torch.arange(clients).tensor_split(groups)]
    cut = [_shuffled(y, k, rng).tensor_split(groups) for k in range(classes)]
    out = []
    for g, size in enumerate(sizes):
        out += _group([parts[g] for parts in cut], size, mu, f"{stream}/{g}")
    return out


def _group(by_class: list[Tensor], clients: int, mu: float, stream: str) -> list[Tensor]:
    """The first draw that leaves every one of ``clients`` with ``LEAST`` rows."""
    from scipy.special import gammaincinv

    n = sum(map(len, by_class))
    for attempt in range(TRIES if n >= LEAST * clients else 0):
        rng, ends, held = _rng(stream, "dir", attempt), [], torch.zeros(clients, dtype=torch.long)
        for k, rows in enumerate(by_class):
            gamma = torch.as_tensor(gammaincinv(mu, rng.uniform(str(k), clients).numpy()))
            gamma = gamma * (held < n / clients)
            upto = (gamma.cumsum(0) / gamma.sum() * len(rows)).nan_to_num().long()
            upto[-1] = len(rows)
            ends.append(upto)
            held += upto.diff(prepend=torch.zeros(1, dtype=torch.long))
        if int(held.min()) >= LEAST:
            cut = [rows.tensor_split(end[:-1]) for rows, end in zip(by_class, ends, strict=True)]
            return _rows(zip(*cut, strict=True))
    raise UsageError(
        f"split dir with mu = {mu}: {n} training examples among {clients} clients leave somebody"
        f" with fewer than {LEAST} in each of {TRIES} draws; use a larger split_param, fewer"
        " clients or a larger mean_local_size."
    )


def shards(y: Tensor, clients: int, each: int, rng: Rng) -> list[Tensor]:
    """McMahan et al. 2017, Section 3.

    Sorted by class (shuffled within), cut into ``each`` shards a client, dealt at random.
    """
    rows = torch.cat([_shuffled(y, k, rng) for k in range(int(y.max()) + 1)])
    pieces, mine = rows.tensor_split(clients * each), _dealt(clients)
    for i, p in enumerate(rng.permutation("deal", clients * each).tolist()):
        mine[i // each].append(pieces[p])
    return _rows(mine)


def held_out(parts: list[Tensor], each: int, stream: str) -> tuple[list[Tensor], list[Tensor]]:
    """Of each client ``each`` rows drawn at random that it does not train on: the rest, and these.

    Raises:
        UsageError: that would leave a client with fewer than ``LEAST`` = 2.
    """
    least = min(map(len, parts))
    if least < each + LEAST:
        raise UsageError(
            f"task.held_out = {each}, but a client has {least} examples and trains on {LEAST} at"
            f" least: use at most {max(0, least - LEAST)}, or fewer clients."
        )
    rest, out = [], []
    for c, rows in enumerate(parts):
        order = _rng(stream, "held_out").permutation(f"client/{c}", len(rows))
        rest.append(rows[order[each:]].sort().values)
        out.append(rows[order[:each]])
    return rest, out


def absent(parts: list[Tensor], many: int, stream: str) -> tuple[list[Tensor], list[Tensor]]:
    """Those who stay, in their order, and ``many`` drawn at random who do not."""
    if not many:
        return parts, []
    order = _rng(stream, "absent").permutation("people", len(parts)).tolist()
    away = {*order[:many]}
    return [p for i, p in enumerate(parts) if i not in away], [parts[i] for i in sorted(away)]


def _rng(stream: str, what: str, attempt: int = 0) -> Rng:
    return shared(0, f"{stream}/split/{what}", round=attempt)


def _shuffled(y: Tensor, k: int, rng: Rng) -> Tensor:
    """The rows of class k in a named order."""
    rows = (y == k).nonzero().flatten()
    return rows[rng.permutation(f"class/{k}", len(rows))]


def _whole(rule: str, param: float, *, most: int) -> int:
    if param != int(param) or not 1 <= param <= most:
        what = "classes" if rule == "qua" else "shards"
        raise UsageError(
            f"task.split_param = {param:g} with split {rule}: expected a whole number of {what} a"
            f" client, 1 to {most}."
        )
    return int(param)


def _dealt(clients: int) -> list[list[Tensor]]:
    return [[] for _ in range(clients)]


def _rows(mine: Iterable[Sequence[Tensor]]) -> list[Tensor]:
    return [torch.cat(list(parts)).sort().values for parts in mine]


def _nobody_without(parts: list[Tensor], rule: str) -> list[Tensor]:
    """Only ``class`` and ``qua`` can leave a client without examples: where a class has none."""
    empty = [c for c, rows in enumerate(parts) if not len(rows)]
    if empty:
        raise UsageError(
            f"split {rule}: client {empty[0]} would have no training examples; use a larger"
            " mean_local_size."
        )
    return parts
