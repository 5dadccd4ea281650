"""What a number means: stated by a metric, or read from a file that anybody may have written."""

from __future__ import annotations

import json
import math

import pytest
from pydantic import ValidationError

from leakbench.base.meaning import Meaning, Topic

OLD = {"leaks": "up", "low": 0.0, "high": 100.0, "unit": "image", "share": False, "version": 2}
ALL = Meaning(
    name="decibels",
    direction="down",
    low=10.0,
    high=None,
    unit="draw",
    version=3,
    scale="log",
    margin=math.log(2),
    title="how loud",
    short="loud",
    verb="hears",
    noun="",
    about="Loudness.",
    decimals=1,
    suffix=" dB",
    as_good=30.0,
    axis="open",
    topic=Topic(name="noise", order=3, kinds=("update", "sum"), kind="update", ask="hum. Louder?"),
    rank=4,
)


def plain(**more):
    kept = {"name": "mine", "direction": "up", "low": 0.0, "high": 1.0, "unit": "client"}
    return Meaning(**(kept | more))


def test_what_is_not_stated_is_made_of_the_name():
    m = plain(name="my\nerror\u202e")
    assert (m.heading, m.label, m.does) == ("my error\ufffd",) * 2 + ("reaches my error\ufffd",)
    assert m.question.name == "my error\ufffd"
    assert m.question.order == 100
    assert (m.matters, m.drawn, m.ends) == (0.05, "unit", (0.0, 1.0))


@pytest.mark.parametrize("ends", [(0.0, None), (None, 1.0), (0.0, 100.0), (-2.0, 0.0)])
def test_a_range_beyond_one_needs_a_margin(ends):
    low, high = ends
    with pytest.raises(ValidationError, match=r"'mine' has a range beyond .* state its marg"):
        plain(low=low, high=high)
    assert plain(low=low, high=high, margin=0.3).matters == 0.3


@pytest.mark.parametrize("ends", [(1.0, 1.0), (1.0, 0.0)])
def test_a_range_has_its_lower_end_first(ends):
    with pytest.raises(ValidationError, match="expected the lower end first"):
        plain(low=ends[0], high=ends[1], margin=0.1)


@pytest.mark.parametrize("low", [None, 0.0, 0.5])
def test_logarithms_are_of_numbers_from_one_on(low):
    """Below it nothing would be seen to change, and the gate would find every leak fine."""
    with pytest.raises(ValidationError, match="begin at 1 or above"):
        plain(low=low, high=1.0 if low is not None else None, margin=0.1, scale="log")


@pytest.mark.parametrize("ends", [(0.0, 100.0), (-1.0, 1.0), (0.0, None)])
def test_a_share_is_from_nought_to_one(ends):
    with pytest.raises(ValidationError, match="is a share"):
        plain(low=ends[0], high=ends[1], margin=0.1, share=True)


@pytest.mark.parametrize(
    ("more", "drawn"),
    [
        ({}, "unit"),
        ({"low": -1.0}, "unit"),
        ({"high": 2.0, "margin": 0.1}, "open"),
        ({"high": None, "margin": 0.1}, "open"),
        ({"low": 1.0, "high": None, "margin": 0.1, "scale": "log"}, "log"),
        ({"high": None, "margin": 0.1, "axis": "unit"}, "unit"),
        ({"low": 1.0, "high": 2.0, "margin": 0.1, "scale": "log", "axis": "open"}, "open"),
    ],
)
def test_an_axis_follows_the_range_unless_it_is_stated(more, drawn):
    assert plain(**more).drawn == drawn


def test_what_a_file_says_is_what_was_stated():
    for m in (ALL, plain()):
        written = json.loads(json.dumps({**m.parameters(), "leaks": m.direction}))
        assert Meaning.recorded(m.name, written) == m


def test_a_file_of_a_later_version_is_read_for_what_is_known_here():
    written = ALL.parameters() | {"colour": "red"}
    written["topic"] = written["topic"] | {"sound": [1]}
    assert Meaning.recorded("decibels", written) == ALL


@pytest.mark.parametrize(
    ("ends", "margin"),
    [
        ((0.0, 100.0), 5.0),
        ((0.0, 1.0), 0.05),
        ((-1.0, 1.0), 0.05),
        ((-1, 1), 0.05),
        ((0.0, 0.5), 0.05),
        ((-2.0, 2.0), 0.2),
        ((0.0, None), 0.05),
        ((None, 100.0), 0.05),
        ((None, None), 0.05),
    ],
)
def test_an_old_file_states_no_margin(ends, margin):
    m = Meaning.recorded("psnr", OLD | {"low": ends[0], "high": ends[1]})
    assert m.matters == pytest.approx(margin)
    assert (m.name, m.direction, m.unit, m.share, m.version) == ("psnr", "up", "image", False, 2)
    assert (m.low, m.high) == ends
    assert (m.heading, m.topic, m.scale) == ("psnr", None, "linear")


DEEP: list = []
for _ in range(100_000):
    DEEP = [DEEP]
WRONG = [
    *(({k: None}, k) for k in ("unit", "share", "version")),
    ({"low": True}, "low = True"),
    ({"low": "0"}, "low = '0'"),
    ({"low": [0]}, "low"),
    ({"low": 7, "high": 7}, "lower end first"),
    ({"low": 7, "high": 1}, "lower end first"),
    ({"high": math.nan}, "finite numbers"),
    ({"high": math.inf}, "finite numbers"),
    ({"high": 10**400}, "too large"),
    ({"low": -1e308, "high": 1e308}, "finite numbers"),
    ({"share": 1}, "share = 1"),
    ({"share": "yes"}, "share = 'yes'"),
    ({"version": 0}, "version = 0"),
    ({"version": 1.5}, "version = 1.5"),
    ({"unit": ["image"]}, "unit"),
    ({"leaks": "sideways"}, "direction = 'sideways'"),
    ({"leaks": ["up"]}, "direction"),
    ({"leaks": {}}, "direction"),
    ({"direction": "down"}, "its leaks contradicts"),
    ({"name": "ssim"}, "its name contradicts"),
    ({"name": 3}, "its name contradicts"),
    ({"margin": -1.0}, "margin = -1.0"),
    ({"margin": 0}, "margin = 0"),
    ({"margin": "1"}, "margin = '1'"),
    ({"margin": math.inf}, "finite numbers"),
    ({"scale": "cubic"}, "scale = 'cubic'"),
    ({"scale": None}, "scale = None"),
    ({"axis": "spiral"}, "axis = 'spiral'"),
    ({"decimals": 10**6}, "decimals = 1000000"),
    ({"decimals": -1}, "decimals = -1"),
    ({"title": 3}, "title = 3"),
    ({"as_good": "30"}, "as_good = '30'"),
    ({"rank": "first"}, "rank = 'first'"),
    ({"topic": "images"}, "topic = 'images'"),
    ({"topic": {"name": "images"}}, "topic.ask"),
    ({"topic": {"name": "images", "ask": 1}}, "topic.ask = 1"),
    ({"topic": {"name": "images", "ask": "", "kinds": "update"}}, "topic.kinds"),
    ({"topic": {"name": "images", "ask": "", "kinds": ["\ud800"]}}, "JSON"),
    ({"topic": {"name": "images", "ask": "", "order": "1"}}, "topic.order"),
    ({"title": DEEP}, "recursion"),
    ({"low": DEEP}, "recursion"),
    ({"topic": DEEP}, "recursion"),
]


@pytest.mark.parametrize(("change", "said"), WRONG, ids=[f"{next(iter(c))}: {s}" for c, s in WRONG])
def test_what_a_file_cannot_mean_is_one_sentence(change, said):
    with pytest.raises(ValueError, match="psnr") as error:
        Meaning.recorded("psnr", OLD | change)
    assert not isinstance(error.value, ValidationError)
    assert said in str(error.value)
    assert "\n" not in str(error.value)
    assert str(error.value).startswith("metric psnr: ")


@pytest.mark.parametrize("values", [None, [], "up", 3, {}, [("low", 0)]])
def test_no_object_is_one_sentence(values):
    with pytest.raises(ValueError, match=r"^metric psnr: (expected an object|'low' is missing)"):
        Meaning.recorded("psnr", values)


@pytest.mark.parametrize("key", OLD)
def test_nothing_may_be_missing(key):
    with pytest.raises(ValueError, match=r"^metric psnr: "):
        Meaning.recorded("psnr", {k: v for k, v in OLD.items() if k != key})


def test_text_of_a_file_is_one_line_without_tricks():
    evil = "a\nb\tc\r\u202ed\x1b[2J\ud800"
    texts = ("unit", "title", "short", "verb", "noun", "about", "suffix")
    topic = {"name": evil, "kind": evil, "ask": evil}
    m = Meaning.recorded("psnr", OLD | dict.fromkeys(texts, evil) | {"topic": topic})
    tame = "a b c\ufffd\ufffdd\ufffd[2J\ufffd"
    assert {getattr(m, key) for key in texts} == {tame}
    assert m.topic is not None
    assert {m.topic.name, m.topic.kind, m.topic.ask} == {tame}
    # A unit stands at a distance.
    assert Meaning.recorded("psnr", OLD | {"suffix": " dB"}).suffix == " dB"
