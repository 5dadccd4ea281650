"""What run.json, attack.json and the headers of a run folder's files may say.

Whoever reads them may then take a number for a number; how much there is of anything is bounded.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from leakbench.base.shapes import Closed, Count, Name, Place, Round, Sha, Shape, Text
from leakbench.record.setting_name import PATTERN

ROOMS = ("transcript", "control", "known", "truth")
Status = Annotated[Text, Field(pattern=r"(?s)^(done|running|guessed|being replaced|failed: .*)$")]
Values = dict[Name, Any]
# A file below a folder, never elsewhere.
Listed = dict[Annotated[str, Field(max_length=1_000, pattern=r"^[^/\\]+(/[^/\\]+)*$")], Sha]
MANY = 100_000  # lines of a list


class _Choice(Shape):
    name: Name
    params: Values = {}


class _Policy(Shape):
    name: Name = ""
    last: Place = 0
    decade: Annotated[int, Field(ge=1, le=1_000)] = 1
    spaced: Annotated[int, Field(ge=0, le=10_000)] = 0
    audited: Place = 0
    probes: Place = 0
    clients: Annotated[list[Place], Field(max_length=MANY)] = []
    rounds: Annotated[list[Round], Field(max_length=MANY)] = []


class _Spec(Shape):
    task: _Choice
    defense: _Choice
    wrappers: Annotated[list[_Choice], Field(max_length=100)]
    rounds: Annotated[int, Field(ge=1, le=10**6)]
    seed: Annotated[int, Field(ge=0)]
    engine: Name = ""
    dtype: Name = ""
    record: _Policy = _Policy()
    name: Annotated[str, Field(pattern=PATTERN)] = ""
    attacks: Annotated[list[_Choice], Field(max_length=10_000)] = []


class _Utility(Shape):
    metric: Name
    better: Literal["up", "down"]
    chance: float
    meaning: Values = {}
    untaught: dict[Name, float] = {}


class _Sound(Closed):
    rate: Annotated[int, Field(ge=1, le=768_000)]
    window: Annotated[int, Field(ge=4, le=16_384, multiple_of=2)]
    hop: Annotated[int, Field(ge=1, le=4_096)]
    mels: Annotated[int, Field(ge=1, le=1_024)]
    frames: Annotated[int, Field(ge=2, le=8_192)]

    @model_validator(mode="after")
    def _windows_overlap(self) -> Self:
        if 2 * self.hop > self.window or self.samples <= self.window // 2:
            raise ValueError("windows do not overlap, or are longer than the sound")
        return self

    @property
    def samples(self) -> int:
        return self.hop * (self.frames - 1)


class _InputRange(Shape):
    low: Annotated[list[float], Field(max_length=16_384)]
    high: Annotated[list[float], Field(max_length=16_384)]


class _Facts(Shape):
    clients: Place = 0
    classes: Place = 0
    dim: Place = 0
    shape: Annotated[list[Place], Field(max_length=10)] = []
    sound: _Sound | None = None
    input_range: _InputRange | None = None


class _Sent(Shape):
    kind: Name
    sender: Name
    receiver: Name
    rounds: Count
    messages: Count
    bytes: Count
    covered: bool
    changed: bool = False


class _Missing(Shape):
    attack: Text = ""
    metric: Text
    reason: Text
    code: Literal["told", "no_weights", "unfit"] = "told"


class _LeftOut(Shape):
    left_out: Annotated[list[Text], Field(max_length=MANY)]


class _Excerpt(_LeftOut):
    of: Name
    run_json: Sha
    rounds: Annotated[list[Round], Field(min_length=2, max_length=2)]


class _Provenance(Shape):
    schema_: Annotated[Literal[2], Field(alias="schema")]
    status: Status
    device: Name = ""
    dtype: Name = ""
    commit: Name = ""
    dirty: bool = False
    command: Text = ""
    versions: dict[Name, Name] = {}
    sources: dict[Name, Annotated[Name, Field(min_length=1)]] = {}
    files: Listed = {}

    @field_validator("files")
    @classmethod
    def _where_they_belong(cls, files: dict[str, str]) -> dict[str, str]:
        for name in files:
            if {"..", "."} & set(name.split("/")):
                raise ValueError(f"{name} leads elsewhere")
        return files


class _Data(Shape):
    digest: Name = ""
    official: bool | None = None


class _Machine(Shape):
    threads: Annotated[int, Field(ge=1, le=100_000)] = 1
    cpu: Name = ""
    deterministic: bool = False


WHO = r"^(server|outsider|client/\d{1,9}|clients/\d{1,9}(,\d{1,9})+)$"


class _Declared(Closed):
    observer: Annotated[str, Field(pattern=WHO)]
    kinds: Annotated[list[Name], Field(max_length=1_000)]
    rounds: Literal["all", "one"]
    knows: Annotated[list[Name], Field(max_length=1_000)]


class RunJson(_Provenance):
    """run.json."""

    id: Text
    spec: _Spec
    hides: bool = True
    secrets: Annotated[list[Name], Field(max_length=1_000)] = []
    distance: Name = ""
    engine: Name = ""
    phases: dict[Name, Text] = {}
    fallbacks: dict[Name, Text] = {}
    utility: _Utility = _Utility(metric="", better="up", chance=0.0)
    facts: _Facts = _Facts()
    stages: dict[Name, Round] = {}
    pooled: Round = 0
    sent: Annotated[list[_Sent], Field(max_length=MANY)] = []
    missing: Annotated[list[_Missing], Field(max_length=MANY)] = []
    stand_in: Name = ""
    test_data: Name = ""
    data: _Data = _Data()
    machine: _Machine = _Machine()
    origin: Literal["", "outside"] = ""
    no_control: bool = False
    declared: _Declared | None = None
    begun_by: Annotated[list[Values], Field(max_length=MANY)] = []
    excerpt: _Excerpt = _Excerpt(left_out=[], of="", run_json="0" * 64, rounds=[0, 0])
    export: _LeftOut = _LeftOut(left_out=[])


class _Threat(Shape):
    observer: Name = ""
    kinds: Annotated[list[Name], Field(max_length=1_000)] = []
    rounds: Name = ""
    knows: Annotated[list[Name], Field(max_length=1_000)] = []
    rung: Name


class _Of(Shape):
    run: Text = ""
    content: Name = ""


class AttackJson(_Provenance):
    """attack.json."""

    of: _Of = _Of()
    machine: _Machine = _Machine()
    isolated: bool = False
    submitted: bool = False
    no_control: bool = False
    attack: Name
    params: Values
    threat: _Threat = _Threat(rung="")
    reads: Annotated[list[Name], Field(max_length=1_000)] = []
    pools: bool = False
    conditions: Annotated[dict[Name, Text], Field(max_length=100)] = {}
    order: Annotated[int, Field(ge=-(10**9), le=10**9)] = 0
    paper: Text = ""
    metrics: dict[Name, Any] = {}
    missing: Annotated[list[_Missing], Field(max_length=MANY)] = []
    seconds: Annotated[float, Field(ge=0)] = 0.0


class _Message(Closed):
    round: Round
    phase: Place
    sender: Annotated[str, Field(pattern=r"^(server|aggregator|client/\d{1,9})$")]
    receiver: Annotated[str, Field(pattern=r"^(server|aggregator|client/(\d{1,9}|\*))$")]
    kind: Name
    probe: Place | None
    part: Literal["", "last_layer"] = ""
    loss: Name = ""
    sparse: bool = False
    changed: bool = False


class _Elsewhere(Closed):
    file: Annotated[str, Field(pattern=r"^round-\d{6}\.safetensors$")]
    name: Text


class MessagesHeader(Shape):
    """Of a round's file in transcript/ or control/."""

    messages: Annotated[list[_Message], Field(max_length=10**7)]
    same: Annotated[dict[Text, _Elsewhere], Field(max_length=10**7)] = {}


class RoundHeader(Shape):
    """Of a round's file in known/ or truth/, and of the final model."""

    round: Round


class DataHeader(Shape):
    """Of truth/data.safetensors."""

    task: Name
    images: Name


class _Guess(Shape):
    role: Literal["attack", "floor", "control"]
    stage: Name
    unit: Annotated[str, Field(pattern=r"^[a-z_]+/(0|[1-9]\d{0,8})$")]
    round: Round
    probe: Place | None
    accepted: bool
    failed: Text
    flags: Annotated[list[Name], Field(max_length=1_000)]


class GuessesHeader(Shape):
    """Of guess.safetensors."""

    guesses: Annotated[list[_Guess], Field(max_length=10**7)]


class CheckpointHeader(Shape):
    """Of checkpoint/state.safetensors."""

    order: Annotated[list[Name], Field(max_length=10**7)]
    totals: dict[Name, Annotated[list[int], Field(min_length=4, max_length=4)]]
    diagnostics: Annotated[
        list[Annotated[list[int | float | str], Field(min_length=3, max_length=3)]],
        Field(max_length=10**7),
    ]
    phases: dict[Name, Text]
    fallbacks: dict[Name, Text]
