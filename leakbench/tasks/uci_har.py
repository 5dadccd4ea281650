"""`uci-har`: 2.56 s of a phone's motion at the waist, six activities (Anguita et al. 2013)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from leakbench.base import UsageError, shared, torch
from leakbench.data import Rule, Windows
from leakbench.data import har_files as files
from leakbench.federation import Examples, TaskData
from leakbench.tasks._attributed_task import AttributedTask
from leakbench.tasks._split_task import FLEA, OF_FLEA, SPLIT

if TYPE_CHECKING:
    from torch import Tensor

KNOWN = "share of each person's windows that an attacker may know, with attribute person"
AUX = "people of the official test set that are the auxiliary data; one at least is tested"


class UciHar(AttributedTask):
    """75 clients with two activities each (Qua(2)), about 98 windows (1, 128, 3) a client.

    128 samples at 50 Hz of three axes. As FLea, Section 4.1 and Appendix C: HARNet, a tenth of the
    clients in a round, batches of 32, 5 local epochs of Adam at 0.001 that decays by 2 % a round,
    100 rounds, accuracy on the test set after every one. FLea shares what follows ``layer2``: its
    text says the first layer, its code does the second.

    The official parts are split by subject: 7,352 windows of 21 people for training, 2,947 of 9
    others for testing. Of those 9, ``aux_subjects`` (a named draw) are the auxiliary data and the
    rest are the test set, so an attacker may know people, but none of the clients' and none of the
    tested; the paper tests on all nine. Windows overlap by half, as published: clients, whom FLea
    deals single windows and not people, share samples and subjects with each other.

    ``sensor`` body is the accelerometer without gravity, which of FLea's "accelerometer" is ours to
    choose (its three channels are the first of nine in a file that was not released). Each axis is
    standardised with mean and standard deviation over all training windows, as if clients had
    agreed on these six numbers; the paper says nothing of scaling.

    ``attribute`` person tells whose each window is. An attacker may then be granted windows of the
    clients' own people: of each person and activity the last ``known_share`` of the recording,
    which no client gets, nor any window that overlaps one of these.
    """

    about = "UCI-HAR (3 axes of motion, 6 activities), 75 clients with two classes each"
    source: ClassVar[str] = "uci-har"
    shape: ClassVar[tuple[int, ...]] = (1, files.LENGTH, 3)
    classes: ClassVar[int] = files.CLASSES
    rounds: ClassVar[int] = 100
    signal: ClassVar[bool] = True
    _methods: ClassVar[tuple[str, ...]] = ("fedavg", "fedprox", *OF_FLEA)
    tables: ClassVar[dict[str, dict[str, Any]]] = dict.fromkeys(_methods, FLEA)

    clients: int = Field(75, ge=2, description="clients; with split class 6, one per class")
    split: Rule = Field("qua", description=SPLIT)
    sensor: Literal["body", "total", "gyro"] = Field(
        "body", description="acceleration without gravity, with gravity, or angular velocity"
    )
    aux_subjects: int = Field(3, ge=1, description=AUX)
    model: str = Field("harnet", description="network, one of `leakbench list models`")
    width: int = Field(64, ge=1, le=4096, description="channels of the first convolution")
    dim: int = Field(64, ge=2, le=4096, description="width of the embedding")
    evaluations: int = Field(
        100,
        ge=10,
        le=1000,
        description="evaluations over the run, evenly spaced, the last round among them",
    )
    context: Literal["none", "bump"] = Field(
        "none",
        description="marker in all windows of half of the clients, for attacks that infer it",
    )
    attribute: Literal["none", "person"] = Field(
        "none", description="whose a window is, for attacks that infer it"
    )
    known_share: float = Field(0.25, gt=0, lt=1, description=KNOWN)

    @property
    def idle(self) -> set[str]:
        """Where no person is told no window is known."""
        return super().idle | ({"known_share"} if self.attribute == "none" else set())

    def load(self) -> TaskData:
        """Standardised signals, float32.

        Raises:
            UsageError: the set is nowhere, has too few people, or cannot be dealt to the clients as
                the fields ask.
            BrokenFile: a file is not what its name says.
        """
        train, test = files.load_sensor(self.sensor)
        tested = set(test.subject.tolist())
        people = torch.tensor(sorted(tested))
        if len(people) <= self.aux_subjects:
            raise UsageError(
                f"task.aux_subjects = {self.aux_subjects}, but the set has {len(people)} test"
                " subjects, one of whom at least is tested; use fewer."
            )
        order = shared(0, f"task/{self.source}/aux").permutation("subjects", len(people))
        granted = torch.isin(test.subject, people[order[: self.aux_subjects]])
        # Rounded to float32: the sums' last bits differ between machines, the data must not.
        mean = train.x.mean((0, 1)).float().double()
        std = train.x.std((0, 1), correction=0).float().double()
        if not bool((std > 0).all()):
            raise UsageError(
                f"uci-har: an axis of {self.sensor} never changes, so it cannot be standardised."
                " Get the set anew."
            )

        def examples(windows: Windows, rows: Tensor) -> Examples:
            return Examples(((windows.x[rows] - mean) / std).float()[:, None], windows.y[rows])

        def told(rows: Tensor) -> Examples:
            person = torch.unique(train.subject, return_inverse=True)[1]
            return replace(examples(train, rows), attribute=person[rows])

        tested_set, aux = (examples(test, rows) for rows in (~granted, granted))
        held = known = torch.ones(len(train.y), dtype=torch.bool)
        if self.attribute == "person":
            held, known = files.last_of_each(train, self.known_share)
        data = self.dealt(told(held), tested_set, aux, told(known))
        return replace(data, unofficial=files.unofficial(self.sensor))
