"""The tokens of a text that are no words of it: numbers below those of all words."""

from __future__ import annotations

PAD, START, END, UNKNOWN = range(4)  # behind the end; the start; the end; every word not known
SPECIAL = ("<pad>", "<start>", "<end>", "<unk>")
