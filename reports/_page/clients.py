"""Client by client: how often the worst case hits each.

As a strip of squares or a row of bars, and in words.
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from leakbench.words import plural
from reports._chart.svg import tag

Shares = Sequence[float | None]  # by client; None: not attacked

ROW = 25  # squares in a row
STEP, SIDE = 14, 12
MOST = 400  # clients in a strip; of more the words must do
NAMED = 8  # clients named one by one
HIT = 0.5
VERBS = {"clients": "named", "images": "rebuilt", "examples": "rebuilt"}  # what befalls them


def differ(shares: Shares) -> bool:
    """Is any client that was attacked hit more often than another?"""
    known = [s for s in shares if s is not None]
    return bool(known) and max(known) - min(known) > 1e-9


def strip(shares: Shares) -> Markup:
    """A square per client, in the order of their numbers.

    Full where it is hit in half of the cases or more.
    """
    if len(shares) > MOST:
        return Markup("")
    squares: dict[str, list[str]] = {"hit": [], "some": [], "never": [], "untried": []}
    for i, share in enumerate(shares):
        squares[_kind(share)].append(f"M{i % ROW * STEP} {i // ROW * STEP}h{SIDE}v{SIDE}h-{SIDE}z")
    wide, high = min(len(shares), ROW) * STEP, -(-len(shares) // ROW) * STEP
    inside = [tag("path", d="".join(d), class_=k) for k, d in squares.items() if d]
    label = (
        f"{plural(len(shares), 'client')}, a square each: full if hit in half of the cases or more,"
        " half if in fewer, empty if never"
    )
    return tag(
        "svg",
        *inside,
        class_="strip",
        role="img",
        aria_label=label,
        viewBox=f"0 0 {wide} {high}",
        width=wide,
        height=high,
    )


def _kind(share: float | None) -> str:
    if share is None:
        return "untried"
    if share >= HIT:
        return "hit"
    return "some" if share > 0 else "never"


def bars(shares: Shares) -> Markup:
    """A bar per client that was attacked, the worst off first; its height is the share."""
    known = sorted((s for s in shares if s is not None), reverse=True)
    d = "".join(f"M{5 * i + 2} 30V{30 - 30 * s:.1f}" for i, s in enumerate(known) if s > 0)
    inside = [tag("path", d=f"M0 30H{5 * len(known)}", class_="ground")]
    inside += [tag("path", d=d, class_="bars")] if d else []
    label = f"{plural(len(known), 'client')}, a bar each, the worst off first"
    return tag(
        "svg",
        *inside,
        class_="worst",
        role="img",
        aria_label=label,
        viewBox=f"0 0 {5 * max(len(known), 1)} 31",
        preserveAspectRatio="none",
    )


def worst_off(shares: Shares, settings: int, noun: str) -> str:
    """In words: how many are hit everywhere, how many never, and who is worst off."""
    known = {i: s for i, s in enumerate(shares) if s is not None}
    every = [i for i, s in known.items() if s >= 1 - 1e-9]
    never = [i for i, s in known.items() if s == 0]
    between = [i for i in known if i not in every and i not in never]
    where = "in every seed" if settings == 1 else f"in every seed of all {settings} settings"
    verb = VERBS.get(noun, "hit")
    clients = plural(len(known), "client")
    text = (
        f"{len(every)} of {clients} {verb} {where}{_who(every, len(known))},"
        f" {len(never)} never{_who(never, len(known))}."
    )
    if between and len(every) < NAMED:
        first = min(between, key=lambda i: (-known[i], i))
        text += f" Then client {first}, in {known[first]:.2f} of the cases."
    gone = len(shares) - len(known)
    return text + (f" {plural(gone, 'client')} not attacked." if gone else "")


def _who(clients: Sequence[int], of: int) -> str:
    """The numbers, where they say something: not of all, and not of very many."""
    if not clients or len(clients) == of or len(clients) > NAMED:
        return ""
    return f" ({', '.join(map(str, clients))})"
