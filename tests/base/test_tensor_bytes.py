"""Our packing of tensors is that of safetensors, byte for byte."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load, save

from leakbench.base.tensor_bytes import ORDER, pack

KINDS = (
    torch.int64,
    torch.float64,
    torch.float32,
    torch.int32,
    torch.bfloat16,
    torch.float16,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
)
# What safetensors' own writer is asked, too: characters that JSON may write in several ways.
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
SHAPES = st.lists(st.integers(0, 3), max_size=4).map(tuple)


def tensor(kind, shape):
    return (torch.rand(shape, generator=torch.Generator().manual_seed(len(shape))) * 100).to(kind)


@settings(deadline=None)
@given(st.dictionaries(WORDS, st.tuples(st.sampled_from(KINDS), SHAPES), max_size=12), WORDS)
def test_bytes_are_those_of_safetensors(tree, said):
    leaves = {name: tensor(*one) for name, one in tree.items() if name != "__metadata__"}
    assert pack(leaves, {"leakbench": said}) == save(leaves, {"leakbench": said})


def test_every_kind_beside_every_other():
    leaves = {f"{i}/{k}": tensor(k, (2, i)) for i in range(3) for k in KINDS}
    assert len(KINDS) == len(ORDER)
    assert pack(leaves, {}) == save(leaves, {})
    back = load(pack(leaves, {}))
    assert back.keys() == leaves.keys()
    assert all(torch.equal(back[k], v) and back[k].dtype == v.dtype for k, v in leaves.items())


def test_what_a_tree_does_not_hold_is_refused():
    with pytest.raises(KeyError):
        pack({"x": torch.zeros(2, dtype=torch.complex64)}, {})
