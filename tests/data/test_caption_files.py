"""MS COCO's and Flickr8k's layouts: read right; damaged, foreign and missing files are refused in
one sentence. Words as numbers and back.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from helpers.caption_files import NOUNS, sentences, write_coco, write_flickr8k
from PIL import Image

from leakbench.base.errors import BrokenFile, UsageError
from leakbench.data import caption_files as files
from leakbench.data import vocabulary as numbers


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder of data."""
    monkeypatch.setenv("LEAKBENCH_DATA", str(tmp_path / "data"))
    return tmp_path / "data"


def refused(run, words, error=BrokenFile):
    with pytest.raises(error) as caught:
        run()
    text = str(caught.value)
    assert words in text
    assert "\n" not in text
    assert text.endswith(".")


def test_coco_is_read_as_it_was_written(place):
    write_coco(place)
    held = files.coco("train2014")
    assert len(held) == 16
    assert files.found("coco-captions") == place / "coco"
    for i, image in enumerate(held):
        assert image.captions == tuple(sentences(NOUNS[i % 4], i))
        more = {NOUNS[(i + 1) % 4]} if i % 5 == 4 else set()
        assert set(image.objects) == {NOUNS[i % 4], *more}
        assert image.path.is_file()
    assert len(files.coco("val2014")) == 12


def test_flickr8k_is_read_as_it_was_written(place):
    write_flickr8k(place)
    held = files.flickr8k()
    assert [i.path.name for i in held] == [f"{i}.jpg" for i in range(24)]
    assert held[1].captions == tuple(sentences("girl", 1))
    assert files.found("flickr8k") == place / "flickr8k"


def test_nothing_there_is_one_sentence_that_says_where_from(place):
    refused(files.flickr8k, "LEAKBENCH_DATA", UsageError)
    refused(lambda: files.coco("train2014"), "COCO 2014", UsageError)
    assert files.found("flickr8k") is files.found("coco-captions") is None


def edited(path, change):
    held = json.loads(path.read_text())
    change(held)
    path.write_text(json.dumps(held))


COCO_FAULTS = {
    "cut": (lambda p: p.write_bytes(p.read_bytes()[:100]), "damaged"),
    "no json": (lambda p: p.write_text("image,caption"), "damaged"),
    "a list": (lambda p: p.write_text("[1]"), "no annotations"),
    "empty": (lambda p: edited(p, lambda h: h["annotations"].clear()), "no annotations"),
    "text": (lambda p: edited(p, lambda h: h["annotations"][0].pop("caption")), "caption"),
    "number": (lambda p: edited(p, lambda h: h["annotations"][0].update(caption=3)), "no text"),
    "other": (lambda p: edited(p, lambda h: h["annotations"][0].update(image_id=9)), "no image 9"),
    "silent": (
        lambda p: edited(p, lambda h: h["images"].append({"id": 7, "file_name": "7.jpg"})),
        "image 7 has no caption",
    ),
    "nameless": (lambda p: edited(p, lambda h: h["images"][0].pop("file_name")), "file_name"),
    "way out": (
        lambda p: edited(p, lambda h: h["images"][0].update(file_name="../../x.jpg")),
        "no name of an image",
    ),
}


@pytest.mark.parametrize("fault", COCO_FAULTS)
def test_damaged_and_foreign_captions_of_coco_are_refused(place, fault):
    spoil, words = COCO_FAULTS[fault]
    spoil(write_coco(place) / "annotations" / "captions_train2014.json")
    refused(lambda: files.coco("train2014"), words)


def test_damaged_objects_of_coco_are_refused(place):
    path = write_coco(place) / "annotations" / "instances_train2014.json"
    whole = path.read_text()
    edited(path, lambda h: h["categories"].pop())
    refused(lambda: files.coco("train2014"), "category has no name")
    path.write_text(whole)
    edited(path, lambda h: h.pop("categories"))
    refused(lambda: files.coco("train2014"), "categories")
    path.unlink()
    refused(lambda: files.coco("train2014"), "is missing beside")


FLICKR_FAULTS = {
    "another head": ("name|caption\n1.jpg|a dog\n", "first line"),
    "three columns": ("image,caption\n1.jpg,a dog,a cat\n", "line 2"),
    "no words": ("image,caption\n1.jpg, . \n", "line 2"),
    "nothing": ("image,caption\n", "no captions"),
    "empty": ("", "damaged"),
    "way out": ("image,caption\n../1.jpg,a dog\n", "no name of an image"),
    "open quote": ('image,caption\n1.jpg,"a dog\n', "damaged"),
}


@pytest.mark.parametrize("fault", FLICKR_FAULTS)
def test_damaged_and_foreign_captions_of_flickr8k_are_refused(place, fault):
    text, words = FLICKR_FAULTS[fault]
    (write_flickr8k(place) / "captions.txt").write_text(text)
    refused(files.flickr8k, words)


def test_bytes_that_are_no_text_are_refused(place):
    (write_flickr8k(place) / "captions.txt").write_bytes(b"image,caption\n1.jpg,\xff\xfe\n")
    refused(files.flickr8k, "damaged")


def test_pictures_are_the_middle_square_in_colour(place):
    write_flickr8k(place, images=3)
    held = files.flickr8k()
    x = files.images([i.path for i in held], 30)
    assert x.shape == (3, 3, 30, 30)
    assert x.dtype == torch.uint8
    with Image.open(held[0].path) as picture:
        want = np.asarray(picture.crop((5, 0, 35, 30)))
    assert x[0].permute(1, 2, 0).numpy().tolist() == want.tolist()
    assert files.images([i.path for i in held], 8).shape == (3, 3, 8, 8)
    grey = held[1].path
    Image.new("L", (9, 9), 77).save(grey)
    assert files.images([grey], 4).unique().tolist() == [77]


def test_damaged_and_missing_pictures_are_refused(place):
    write_flickr8k(place, images=2)
    first, second = (i.path for i in files.flickr8k())
    first.write_bytes(first.read_bytes()[:300])
    refused(lambda: files.images([first], 8), "damaged")
    first.write_text("a dog")
    refused(lambda: files.images([first], 8), "damaged")
    second.unlink()
    refused(lambda: files.images([second], 8), "is missing beside")


def test_words_become_numbers_and_come_back():
    said = ["A dog's ball , on the t-shirt .", "a dog !", "A cat"]
    assert numbers.words(said[0]) == ["a", "dog's", "ball", "on", "the", "t-shirt"]
    vocabulary = numbers.Vocabulary.of(said, least=1, most=100)
    assert vocabulary.words[:5] == (*numbers.SPECIAL, "a")
    assert len(vocabulary.words) == 4 + 8
    assert numbers.Vocabulary.of(said, least=2, most=100).words[4:] == ("a",)
    assert numbers.Vocabulary.of(said, least=1, most=6).words[4:] == ("a", "ball")
    tokens = vocabulary.encode([*said, "a blue dog"], 6)
    assert tokens[:, 0].tolist() == [numbers.START] * 4
    assert tokens[0, -1] == numbers.END  # cut, and ended all the same
    assert (tokens[1] == numbers.PAD).sum() == 2
    assert vocabulary.text(tokens[1]) == "a dog"
    assert vocabulary.text(tokens[3]) == "a <unk> dog"
    assert vocabulary.text(torch.tensor([1, 99, 2, 4])) == "<unk>"
