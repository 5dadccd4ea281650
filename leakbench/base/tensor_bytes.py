"""Tensors as safetensors' bytes, the very same that its own `save` makes.

That one asks ctypes for every tensor: a run of thousands of small ones spends more time there than
in its network. What is read is read by safetensors itself.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

# As the format orders them: the widest first, so that each begins where its kind may.
ORDER = ("I64", "F64", "F32", "I32", "BF16", "F16", "I16", "I8", "U8", "BOOL")
NAMES = {
    "torch.int64": "I64",
    "torch.float64": "F64",
    "torch.float32": "F32",
    "torch.int32": "I32",
    "torch.bfloat16": "BF16",
    "torch.float16": "F16",
    "torch.int16": "I16",
    "torch.int8": "I8",
    "torch.uint8": "U8",
    "torch.bool": "BOOL",
}
ALIGNED = 8  # bytes that the header's length is a multiple of


def pack(leaves: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """The tensors on the host, contiguous, under their names; ``metadata`` in the header.

    Raises:
        KeyError: a kind of number that a tree does not hold.
    """
    import torch

    kinds = {name: NAMES[str(v.dtype)] for name, v in leaves.items()}
    head: dict[str, object] = {"__metadata__": dict(metadata)}
    parts, at = list[memoryview](), 0
    for name in sorted(leaves, key=lambda n: (ORDER.index(kinds[n]), n.encode())):
        v = leaves[name]
        array = (v.view(torch.int16) if kinds[name] == "BF16" else v).numpy()
        end = at + array.nbytes
        head[name] = {"dtype": kinds[name], "shape": [*v.shape], "data_offsets": [at, end]}
        parts.append(array.data)
        at = end
    text = json.dumps(head, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNED)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])
