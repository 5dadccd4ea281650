"""Distance correlation: against the dcor package, against its definition, and how much memory it
takes.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import warnings
from pathlib import Path

import numba
import pytest
import torch

from leakbench.statistics.distance_correlation import NAMES, correlations, p_value, permuted

DICE = torch.Generator().manual_seed(0)


def pair(n, p, q, noise=1.0, dtype=torch.float64):
    x = torch.randn(n, p, generator=DICE, dtype=torch.float64)
    z = x[:, :q].square() + noise * torch.randn(n, min(p, q), generator=DICE, dtype=torch.float64)
    return x.to(dtype), z.to(dtype)


@pytest.fixture(scope="module")
def by_dcor():
    """The numbers of the package. As it is imported it compiles what it has for single columns,
    half a minute that sets the process's number of threads, too; no batch here is one column.
    """

    def plain(*_, **__):
        return lambda function: function

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numba, "njit", plain)
        patch.setattr(numba, "guvectorize", plain)
        dcor = importlib.import_module("dcor")

    def numbers(x, z):
        # Never above n = 100: dcor 0.7 takes n * n * d numbers beside array-api-compat 1.16.
        x, z = x.double().flatten(1).numpy(), z.double().flatten(1).numpy()
        with warnings.catch_warnings():
            # An exponent of 2 "is not guaranteed to characterise independence": indeed.
            warnings.simplefilter("ignore")
            flea = dcor.distance_correlation(x, z, exponent=2)
        return {
            "dcor": float(dcor.distance_correlation(x, z)),
            "dcor2_corrected": float(dcor.u_distance_correlation_sqr(x, z)),
            "flea_correlation": float(flea) ** 2,  # the package takes the root
        }

    return numbers


@pytest.mark.parametrize(("n", "p", "q"), [(8, 3, 2), (30, 64, 5), (100, 40, 32)])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_agrees_with_the_dcor_package(by_dcor, n, p, q, offset):
    x, z = pair(n, p, q)
    x[1], x[2] = x[0], x[0] + 1e-6  # equal and almost equal rows
    x = x + offset
    theirs = by_dcor(x, z)
    for tile in (None, 7, 32):
        ours = correlations(x, z, tile=tile)
        assert list(ours) == list(NAMES)
        for name in NAMES:
            assert ours[name] == pytest.approx(theirs[name], abs=1e-10), (name, tile)


def test_flea_is_linear_cka():
    x, z = pair(60, 9, 4)
    xc, zc = x - x.mean(0), z - z.mean(0)
    cka = (xc.T @ zc).norm() ** 2 / ((xc.T @ xc).norm() * (zc.T @ zc).norm())
    assert correlations(x, z)["flea_correlation"] == pytest.approx(cka.item(), abs=1e-12)
    turn = torch.linalg.qr(torch.randn(9, 9, generator=DICE, dtype=torch.float64)).Q
    assert correlations(x, 3 * x @ turn)["flea_correlation"] == pytest.approx(1, abs=1e-12)


def test_sees_what_the_squared_one_does_not():
    x = torch.randn(1000, 1, generator=DICE)
    found = correlations(x, x.square())
    assert found["flea_correlation"] < 0.25 < 0.45 < found["dcor"]


def test_extremes():
    x, _ = pair(50, 6, 3)
    assert all(v == pytest.approx(1, abs=1e-9) for v in correlations(x, 2 * x + 1).values())
    assert set(correlations(torch.full((50, 7), 0.1), x).values()) == {0.0}
    assert set(correlations(x, torch.zeros(50, 2, 3)).values()) == {0.0}


def test_the_plain_one_is_biased_and_the_corrected_one_is_not():
    found = [
        correlations(torch.randn(32, 512, generator=DICE), torch.randn(32, 512, generator=DICE))
        for _ in range(20)
    ]
    mean = {name: sum(f[name] for f in found) / 20 for name in NAMES}
    assert mean["dcor"] > 0.9
    assert abs(mean["dcor2_corrected"]) < 0.03


@pytest.mark.parametrize("memory", [2**27, 0])
@pytest.mark.parametrize(("p", "q"), [(3, 5), (5, 3)])
def test_permuted_is_the_same_on_permuted_rows(memory, p, q):
    x, z = torch.randn(45, p, generator=DICE), torch.randn(45, q, generator=DICE)
    null = permuted(
        x, z, generator=torch.Generator().manual_seed(7), permutations=6, tile=16, memory=memory
    )
    dice = torch.Generator().manual_seed(7)
    for k in range(6):
        order = torch.randperm(45, generator=dice)
        want = correlations(x, z[order]) if p >= q else correlations(x[order], z)
        for name in NAMES:
            assert null[name][k].item() == pytest.approx(want[name], abs=1e-10)


def test_p_value():
    x = torch.randn(60, 8, generator=DICE)
    z = x[:, :4] + torch.randn(60, 4, generator=DICE)
    null = permuted(x, z, generator=DICE)["dcor2_corrected"]
    assert abs(null.mean().item()) < 0.02
    assert p_value(correlations(x, z)["dcor2_corrected"], null) == 1 / 201
    assert p_value(-1.0, null) == 1.0
    independent = []
    for _ in range(40):
        x, z = torch.randn(24, 6, generator=DICE), torch.randn(24, 6, generator=DICE)
        independent.append(
            p_value(
                correlations(x, z)["dcor2_corrected"],
                permuted(x, z, generator=DICE, permutations=99)["dcor2_corrected"],
            )
        )
    assert 0.3 < sum(independent) / 40 < 0.7
    assert sum(p <= 0.1 for p in independent) <= 12


def test_truth_values_and_complex_numbers_are_taken_as_what_they_are():
    """A complex number is a point in the plane; its imaginary part says as much as the real one."""
    x = torch.randn(40, 6, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    pairs = torch.complex(torch.zeros(40, 6, dtype=torch.float64), x)
    assert correlations(x, pairs)["dcor"] == pytest.approx(1)
    turned = pairs * torch.exp(torch.tensor(0.7j))  # a rotation, which keeps distances
    assert correlations(x, turned) == pytest.approx(correlations(x, pairs))
    assert correlations(x, turned.conj()) == pytest.approx(correlations(x, turned))
    assert correlations(x, x > 0) == correlations(x, (x > 0).double())
    seeded = torch.Generator().manual_seed(1)
    found = permuted(x, x > 0, generator=seeded, permutations=3)
    again = permuted(x, (x > 0).long(), generator=seeded.manual_seed(1), permutations=3)
    assert all(bool((found[k] == again[k]).all()) for k in found)


def test_wrong_inputs():
    x = torch.randn(10, 3, generator=DICE)
    with pytest.raises(ValueError, match="Pair the rows"):
        correlations(x, x[:9])
    with pytest.raises(ValueError, match="4 rows"):
        correlations(x[:3], x[:3])
    bad = x.clone()
    bad[4, 1] = torch.nan
    with pytest.raises(ValueError, match="not finite"):
        correlations(bad, x)
    with pytest.raises(ValueError, match="at least one permutation"):
        permuted(x, x, generator=DICE, permutations=0)


MEASURE = """
import sys, torch
from leakbench.statistics.distance_correlation import correlations
n, d = int(sys.argv[1]), int(sys.argv[2])
x, z = (torch.empty(n, k, dtype=torch.float64).normal_() for k in (d, 512))
# not getrusage: its peak begins at what the process that started this one held; nor VmHWM, which
# rises when inputs that were swapped out come back

def peak():
    lines = [line for line in open("/proc/self/status") if line.startswith("VmPeak")]
    return int(lines[0].split()[1]) / 1024

correlations(x[:300], z[:300])  # what the libraries take once
# Or the peak of the imports would hide what comes after.
ballast = torch.ones(2**29, dtype=torch.uint8)
before = peak()
more = torch.ones(int(sys.argv[3]), dtype=torch.float64)
correlations(x, z)
print(peak() - before)
"""


def rise(n, d, more=0):
    """MiB above the inputs (and above ``more`` numbers held beside), in a process of its own: the
    peak never falls again.
    """
    # One arena: glibc reserves 64 MiB of addresses for each thread that allocates.
    env = {**os.environ, "OMP_NUM_THREADS": "1", "MALLOC_ARENA_MAX": "1"}
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(n), str(d), str(more)],
        capture_output=True,
        text=True,
        check=True,
        env=env,
    )
    return float(done.stdout)


linux = pytest.mark.skipif(
    not Path("/proc/self/status").exists(),
    reason="the peak of a process is read from Linux's /proc",
)


@linux
@pytest.mark.slow
def test_memory_does_not_hold_pairs():
    assert rise(2560, 64) < 30  # one n x n matrix would be 50 MiB; dcor's n x n x d 3 GB
    assert rise(2560, 64, more=2560 * 2560) > 45  # and such a matrix would be seen


@linux
@pytest.mark.slow
def test_memory_of_five_thousand_images():
    """A matrix of pairs would be 191 MiB, a copy of the inputs 117.

    What it holds it holds each time; what a library reserved beside it, under load, it need not.
    """
    assert any(rise(5_000, 3072) < 50 for _ in range(3))
