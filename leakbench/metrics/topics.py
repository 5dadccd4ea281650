"""What an attacker may be after: the questions that a report asks, in its order."""

from __future__ import annotations

from leakbench.base.meaning import Topic

PROTOTYPES = Topic(
    name="prototypes",
    order=1,
    kinds=("prototype", "update", "variate"),
    kind="prototype",
    secrets=("prototype", "codeword"),
    ask=(
        "keep a prototype each (one vector that sums up their data) and send what stands for it, or"
        " what they learned with it. Can an attacker tell whose it is?"
    ),
)
IMAGES = Topic(
    name="images",
    order=2,
    kinds=("update", "variate", "sum", "mean_data", "data", "features"),
    kind="update",
    ask=(
        "send what they learned in place of their data. Can an attacker rebuild the images that it"
        " was learned from?"
    ),
)
EXAMPLES = IMAGES.model_copy(  # the same where clients hold signals, or rows of a table
    update={
        "name": "examples",
        "ask": (
            "send what they learned in place of their data. Can an attacker rebuild the examples"
            " that it was learned from?"
        ),
    }
)
LABELS = Topic(
    name="labels",
    order=3,
    kinds=("update", "variate", "sum", "labels", "label_counts", "statistics"),
    kind="update",
    ask=(
        "send what they learned in place of their data. Can an attacker tell which classes they"
        " hold?"
    ),
)
CONTEXT = Topic(
    name="context",
    order=4,
    kinds=("features", "mean_data", "data"),
    kind="features",
    ask=(
        "share features, means or a part of their data. Can an attacker tell whose carry a certain"
        " trait, such as a camera's defect?"
    ),
)
RESEMBLANCE = Topic(
    name="resemblance",
    order=5,
    kinds=("features",),
    kind="features",
    ask="share features of their examples. How much of the examples is still in them?",
)
EXPOSURE = Topic(
    name="exposure",
    order=6,
    kinds=("features", "mean_data", "data"),
    kind="features",
    ask="pass features, means or data on to each other. How many clients get to see another's?",
    contents=False,
)
IDENTITY = Topic(
    name="identity",
    order=7,
    kinds=("features",),
    kind="features",
    ask=(
        "share features of their examples again and again. Can an attacker tell that two sets come"
        " from the same client?"
    ),
)
MEMBERS = Topic(
    name="members",
    order=9,
    # All that is made of examples: an attack on one kind says nothing of another.
    kinds=(
        *("update", "sum", "features", "data", "mean_data", "prototype", "statistics"),
        *("generator", "variate"),
    ),
    kind="update",
    ask=(
        "send what they learned in place of their data. Can an attacker who holds an example tell"
        " whether it was among them?"
    ),
    listens=True,
)
ATTRIBUTES = Topic(
    name="attributes",
    order=10,
    kinds=MEMBERS.kinds,  # what tells an example tells whose it is
    kind="update",
    ask=(
        "send what they learned in place of their data. Can an attacker who knows some people tell"
        " whose data they are?"
    ),
    listens=True,
)
USERS = Topic(
    name="users",
    order=11,
    kinds=("update", "sum"),
    kind="update",
    ask=(
        "train together with people who are not named. Can an attacker who has somebody's data tell"
        " whether that one took part?"
    ),
    listens=True,
)
CAPTIONS = Topic(
    name="captions",
    order=8,
    kinds=("labels",),
    kind="captions",
    ask=(
        "send a caption of one of their images in place of the image. Can an attacker tell which"
        " image it is about, or what else the client's images show?"
    ),
)
