"""What is noised or summed is held only where somebody heard out all of its rounds."""

from types import SimpleNamespace

import pytest

from leakbench.base import registry
from leakbench.base.reason import reason
from leakbench.judging.gaps import unheard, unread
from leakbench.metrics import topics


def run(**kinds):
    """A run of 20 rounds whose clients sent, covered, each of these kinds in so many rounds."""
    sent = [{"kind": k, "rounds": n, "covered": n > 0} for k, n in kinds.items()]
    return SimpleNamespace(spec={"rounds": 20}, meta={"sent": sent, "pooled": 20})


def number(*reads, pools=True, able=True):
    attacker = SimpleNamespace(pools=pools, paper=False, listener="server", reads=reads)
    return SimpleNamespace(attacker=attacker, weak=not able, able=able)


@pytest.mark.parametrize(
    ("topic", "kind"),
    [
        (topics.PROTOTYPES, "prototype"),
        (topics.PROTOTYPES, "update"),
        (topics.LABELS, "label_counts"),
        (topics.LABELS, "update"),
        (topics.IMAGES, "features"),
    ],
)
def test_a_covered_kind_asks_for_an_attack_that_adds_it_up(topic, kind):
    setting = SimpleNamespace(runs=[run(**{kind: 20})])
    said = (reason("not_added_up", kind=kind),)
    assert unheard(topic, setting, [number(kind)]) == ()
    assert unheard(topic, setting, [number(kind, pools=False)]) == said
    assert unheard(topic, setting, [number(kind, able=False)]) == said
    assert unheard(topic, setting, [number("model")]) == said


def test_each_covered_kind_asks_by_itself():
    setting = SimpleNamespace(runs=[run(prototype=20, update=20)])
    said = unheard(topics.PROTOTYPES, setting, [number("prototype")])
    assert said == (reason("not_added_up", kind="update"),)
    assert unheard(topics.PROTOTYPES, setting, [number("prototype"), number("update")]) == ()


def test_of_people_all_is_read_that_is_made_of_examples():
    """A prototype, or a sum, that nobody looked into may tell whose the data are."""
    assert {*topics.ATTRIBUTES.kinds} == {*topics.MEMBERS.kinds}
    setting = SimpleNamespace(received={"update", "prototype", "sum"})
    said = unread(topics.ATTRIBUTES, setting, [number("update")])
    assert said == (reason("unread", kinds=["prototype", "sum"], by="nobody"),)


def test_what_is_not_covered_or_sent_once_has_nothing_to_add_up():
    for kinds in ({"label_counts": 0}, {"label_counts": 1}, {"data": 20}):
        assert unheard(topics.LABELS, SimpleNamespace(runs=[run(**kinds)]), [number("x")]) == ()
    exposed = SimpleNamespace(runs=[run(features=20)])
    assert unheard(topics.EXPOSURE, exposed, [number("x")]) == ()


def test_a_method_that_draws_its_own_noise_is_asked_the_same():
    plain = run(prototype=0)
    plain.meta["sent"][0]["rounds"] = 20
    for hides, said in ((False, ()), (True, (reason("not_added_up", kind="prototype"),))):
        plain.meta["hides"] = hides
        setting = SimpleNamespace(runs=[plain])
        assert unheard(topics.PROTOTYPES, setting, [number("prototype", pools=False)]) == said
        assert unheard(topics.PROTOTYPES, setting, [number("prototype")]) == ()


def test_which_attacks_add_up():
    pooling = {
        ("prototype_averaging", ()),
        ("prototype_centring", ()),
        ("label_inference", (("source", "messages"),)),
        ("label_inference", (("source", "denoised"),)),
        ("label_inference", (("source", "pooled"),)),
        ("prototype_from_update", (("source", "pooled"),)),
        ("codeword_from_update", (("source", "pooled"),)),
    }
    for name, params in pooling:
        attack = registry.load_plugin("attacks", name).build(dict(params), name)
        assert attack.pools, name
    for name, params in (
        ("prototype_averaging", {"window": 5}),
        ("label_inference", {"source": "message"}),
        ("prototype_leakage", {}),
        ("gradient_inversion", {}),
    ):
        assert not registry.load_plugin("attacks", name).build(params, name).pools, name


def recorded(record, **kinds):
    """A run whose record keeps this, at four stages."""
    one = run(**kinds)
    one.spec["record"] = {"name": record}
    one.meta["stages"] = {"start": 1, "early": 5, "middle": 10, "final": 20}
    return SimpleNamespace(runs=[one])


def test_members_are_listened_for_in_the_updates_of_all_rounds():
    few = reason("few_updates", kept=4, all=20)
    assert unheard(topics.MEMBERS, recorded("standard", update=False), [number("update")]) == (few,)
    whole = recorded("all", update=False, features=False)
    assert unheard(topics.MEMBERS, whole, [number("update")]) == ()
    said = (reason("not_listened"),)
    assert unheard(topics.MEMBERS, whole, [number("update", pools=False)]) == said
    # Who reads what is shared besides has not heard the updates.
    assert unheard(topics.MEMBERS, whole, [number("features")]) == said
