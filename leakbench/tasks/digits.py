"""`digits`: scikit-learn's handwritten digits, 10 clients with one class each; embedded, nothing is downloaded."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from leakbench.task import Examples, Task, TaskData, by_class
from leakbench.tasks._sklearn_digits import split


class Digits(Task):
    """Ten clients, client c has the images of digit c (104 to 113 of 8x8 pixels). 400 test and 300 auxiliary images."""

    about: ClassVar[str] = "scikit-learn's 8x8 digits, 10 clients with one class each"
    shape: ClassVar[tuple[int, ...]] = (1, 8, 8)
    classes: ClassVar[int] = 10
    rounds: ClassVar[int] = 300
    # Ten clients have no ten neighbours, and lam = 10 drives all prototypes to one direction here.
    _prototypes: ClassVar[dict[str, Any]] = {"lam": 1.0, "own_lr": 1.0, "lr": 0.1}
    tables: ClassVar[dict[str, dict[str, Any]]] = {
        "fedhide": {**_prototypes, "k": 3},
        "fedgn": _prototypes,
        "fedcs": _prototypes,
        "fedaws": _prototypes,
        "fedmetric": {"normalised": True, "lam": 1.0, "lr": 0.03},  # at any norm the spheres blow each other up here
        "feduv": {"lr": 3.0},
    }

    clients: int = Field(10, ge=10, le=10, description="clients, one per class")
    model: str = Field("lenet", description="network, one of `leakbench list models`")
    width: int = Field(12, ge=1, le=4096, description="channels of each convolution")
    dim: int = Field(32, ge=2, le=4096, description="width of the embedding")

    def load(self) -> TaskData:
        """Images in [0, 1], float64."""
        train, test, aux = (Examples(*split()[k]) for k in ("train", "test", "aux"))
        rows, counts = by_class(train.y, self.clients)
        return TaskData(train, test, aux, rows, counts, client_class=train.y[rows[:, 0]])
