"""What all test files share: one thread each, here and in every process that a test starts."""

import os

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: two workers share two cores

from federations import digits


@pytest.fixture(scope="session")
def task():
    """Digits with an MLP of eight hidden units and an embedding of eight."""
    return digits()


@pytest.fixture(scope="session")
def data(task):
    """Its data: ten clients with one digit each."""
    return task.load()
