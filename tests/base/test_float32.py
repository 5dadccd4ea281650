"""float32 is multiplied as float32 for a while, and then as before."""

import pytest
import torch

from leakbench.base.float32 import whole_float32


@pytest.mark.parametrize("before", [True, False])
def test_no_factor_is_rounded_meanwhile(before, monkeypatch):
    backend = torch.backends.cudnn
    monkeypatch.setattr(backend, "allow_tf32", before)
    kept = backend.enabled, backend.deterministic, backend.benchmark
    with whole_float32():
        assert not backend.allow_tf32
        assert (backend.enabled, backend.deterministic, backend.benchmark) == kept
    assert backend.allow_tf32 == before
