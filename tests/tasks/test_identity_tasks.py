"""Tasks of verification, from tiny files in official layouts: clients, tested and auxiliary people
are others, pairs are right; and trained, attacked, reported.
"""

from __future__ import annotations

import pytest
import torch
from helpers import people_files as tiny

from leakbench.base import registry
from leakbench.base.errors import UsageError
from leakbench.data import face_files, voxceleb_files
from leakbench.tasks._identity_task import all_pairs

SMALL = {
    "voxceleb1": {"clients": 5, "aux_people": 1, "test_crops": 2, "width": 2, "dim": 8},
    "vggface2": {"clients": 5, "aux_people": 1, "per_client": 3, "width": 4, "dim": 8},
    "orl-faces": {"width": 4, "dim": 8},
}
MADE = {"voxceleb1": tiny.voxceleb, "vggface2": tiny.vggface2, "orl-faces": tiny.orl}


def task(name, **params):
    return registry.load_plugin("tasks", name).build({**SMALL[name], **params}, f"task {name}")


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An empty folder of data."""
    monkeypatch.setenv("LEAKBENCH_DATA", str(tmp_path))
    return tmp_path


@pytest.fixture(scope="module", params=sorted(SMALL))
def loaded(request, tmp_path_factory):
    """A task and its data."""
    place = tmp_path_factory.mktemp("data")
    MADE[request.param](place)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEAKBENCH_DATA", str(place))
        found = task(request.param)
        yield found, found.load()


def contents(examples):
    flat = examples.stored.flatten(1)
    return {x.numpy().tobytes() for x in flat}


def test_clients_tested_and_auxiliary_identities_are_others(loaded):
    made, data = loaded
    people = [set(e.y.tolist()) for e in (data.train, data.test, data.aux)]
    assert people[0] == set(range(made.clients)) == set(range(made.classes))
    assert not people[0] & people[1]
    assert not people[0] & people[2]
    assert not people[1] & people[2]
    assert len(people[1]) >= 3
    assert people[2]
    if made.source != "voxceleb1":  # whose test segments are longer
        kinds = [contents(e) for e in (data.train, data.test, data.aux)]
        assert not kinds[0] & kinds[1]
        assert not kinds[0] & kinds[2]
        assert not kinds[1] & kinds[2]


def test_every_client_holds_one_identity(loaded):
    made, data = loaded
    for c in range(made.clients):
        assert set(data.train.y[data.rows[c, : int(data.counts[c])]].tolist()) == {c}
    assert int(data.counts.sum()) == len(data.train)
    assert data.client_class.tolist() == list(range(made.clients))
    assert data.train.stored.shape[1:] == made.shape == data.aux.stored.shape[1:]


def test_pairs_say_what_they_show(loaded):
    _, data = loaded
    i, j, same = data.pairs.T
    assert data.pairs.dtype == torch.int64
    assert bool((i != j).all())
    assert int(max(i.max(), j.max())) < len(data.test)
    assert torch.equal(data.test.y[i] == data.test.y[j], same == 1)
    assert 0 < int(same.sum()) < len(same)


def test_utility_is_verification_alone(loaded):
    made, _ = loaded
    assert (made.metric, made.better, made.chance) == ("eer", "down", 0.5)
    with pytest.raises(UsageError, match="utility"):
        type(made).build({"utility": "accuracy"}, "task")


def test_known_inputs_of_clients_are_theirs_no_more(place):
    tiny.orl(place)
    plain, known = task("orl-faces").load(), task("orl-faces", known=3).load()
    assert known.counts.unique().tolist() == [7]
    assert len(known.aux) == len(plain.aux) + 26 * 3
    of_clients = known.aux.some((known.aux.y < 26).nonzero().flatten())
    assert torch.bincount(of_clients.y).tolist() == [3] * 26
    assert contents(of_clients) | contents(known.train) == contents(plain.train)
    assert not contents(of_clients) & contents(known.train)
    assert contents(known.test) == contents(plain.test)
    with pytest.raises(UsageError, match=r"task\.known = 10, but an identity .* has 10 inputs"):
        task("orl-faces", known=10).load()


class TestVoxCeleb:
    def test_pairs_are_the_listed_ones_without_the_auxiliary_speakers(self, place):
        tiny.voxceleb(place)
        data = task("voxceleb1").load()
        assert data.test.stored.shape == (9, 2, 1, 40, 300)
        assert len(data.pairs) == 3 * 3 + 3 * 9
        assert int(data.pairs[:, 2].sum()) == 9
        assert data.train.stored.shape == (5 * 3 * 2, 1, 40, 200)
        assert torch.bincount(data.aux.y).max() == 6

    def test_only_utterances_in_pairs_are_tested(self, place):
        folder = tiny.voxceleb(place)
        lines = (folder / "veri_test2.txt").read_text().splitlines()
        kept = [line for line in lines if "00003" not in line]
        (folder / "veri_test2.txt").write_text("\n".join(kept))
        assert len(task("voxceleb1").load().test) == 6

    def test_too_many_people_asked_for(self, place):
        tiny.voxceleb(place)
        for wrong in ({"clients": 6}, {"aux_people": 2}):
            with pytest.raises(UsageError, match="5 speakers to train on and 4 others") as caught:
                task("voxceleb1", **wrong).load()
            assert "\n" not in str(caught.value)

    def test_a_network_that_takes_one_length_only_is_refused(self):
        fedavg = registry.load_plugin("defenses", "fedavg")()
        made = task("voxceleb1", model="lenet")
        with pytest.raises(UsageError, match="trained on 2 s and tested on 3"):
            made.module(made.facts(fedavg))
        unknown = task("voxceleb1", model="fast_resnet")
        with pytest.raises(UsageError, match="unknown model"):
            unknown.module(unknown.facts(fedavg))


class TestVggFace2:
    def test_every_tested_image_stands_in_two_pairs_of_its_own(self, place):
        tiny.vggface2(place)
        data = task("vggface2").load()
        assert data.train.stored.shape == (15, 3, 64, 64)
        assert len(data.test) == 12
        assert data.pairs.shape == (24, 3)
        assert data.pairs[:12, 0].tolist() == data.pairs[12:, 0].tolist() == list(range(12))
        assert data.pairs[:, 2].tolist() == [1] * 12 + [0] * 12

    def test_partners_are_drawn_from_all_that_qualify(self):
        pairs = task("vggface2")._pairs([300, 2, 500])
        assert torch.equal(pairs[300:302, 1], torch.tensor([301, 300]))
        i, j, same = pairs.T
        whose = torch.arange(3).repeat_interleave(torch.tensor([300, 2, 500]))
        assert torch.equal(whose[i] == whose[j], same == 1)
        assert bool((i != j).all())
        assert len(j[same == 1].unique()) > 450  # of 802, of which draws leave 1/e out

    def test_boxes_and_whole_images(self, place):
        folder = tiny.vggface2(place)
        cut, whole = task("vggface2").load(), task("vggface2", boxes=False).load()
        assert not torch.equal(cut.train.stored, whole.train.stored)
        (folder / "loose_bb_test.csv").unlink()
        assert len(task("vggface2", boxes=False).load().train) == 15

    def test_too_many_people_asked_for_and_one_image_each(self, place):
        tiny.vggface2(place)
        for wrong in ({"clients": 6}, {"aux_people": 2}):
            with pytest.raises(UsageError, match="5 people to train on and 4 others") as caught:
                task("vggface2", **wrong).load()
            assert "\n" not in str(caught.value)
        with pytest.raises(UsageError, match="one image only"):
            task("vggface2", test_images=1).load()


def test_orl_needs_people_left_over(place):
    tiny.orl(place)
    with pytest.raises(UsageError, match="the set has 40 people") as caught:
        task("orl-faces", clients=30).load()
    assert "\n" not in str(caught.value)


def test_the_papers_setting():
    """FedHide, Table 1 and Section 4.1."""
    for name, clients, fraction, rounds in (
        ("voxceleb1", 1211, 0.01, 50_000),
        ("vggface2", 8631, 0.001, 400_000),
    ):
        made = registry.load_plugin("tasks", name).build({}, "task")
        assert (made.clients, made.rounds, made.dim) == (clients, rounds, 512)
        for method in ("fedhide", "fedgn", "fedcs", "fedaws"):
            assert made.defaults(method)["fraction"] == fraction
    assert voxceleb_files.PAIRS["veri_test2.txt"] == 37_611
    assert face_files.OFFICIAL == {"train": 8631, "test": 500}


def test_all_pairs():
    pairs = all_pairs([2, 1, 3])
    assert len(pairs) == 15
    assert pairs[pairs[:, 2] == 1][:, :2].tolist() == [[0, 1], [3, 4], [3, 5], [4, 5]]
