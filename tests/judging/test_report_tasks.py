"""A report begins with what leaks on every one of its tasks, the worst first."""

from __future__ import annotations

import pytest
from helpers.verdicts import asked, change, judged, known, question, text_of

from leakbench.metrics import topics
from leakbench.metrics.prototypes import P_LEAK
from leakbench.words.headlines import first_sentences, with_words

HELD = "None of 2 defense settings leaked to the attacks on prototypes tried here."
MOST = "Both defense settings leak most of what there is to leak."
PART = "None of 2 defense settings is shown to give away most of it; 2 leak in part."


def named(words, **more):
    return [judged(word, f"s{i}", **more) for i, word in enumerate(words)]


def of(task, words, **more):
    return question(*named(words, **more)).model_copy(update={"task": task})


def unasked(task, **more):
    """A setting without a number of an attack."""
    one = known("FedCS")
    return change(one, configuration=change(one.configuration, task=task), name="FedCS", **more)


def said(*questions, settings=()):
    return text_of(first_sentences(with_words(questions), settings))


def test_one_task_begins_with_its_headline():
    (only,) = with_words([of("digits", ["held", "held"])])
    assert first_sentences([only], []) == only.headline


@pytest.mark.parametrize("order", [1, -1])
def test_no_task_is_passed_over_and_the_worst_comes_first(order):
    tasks = [of("a", ["held", "held"]), of("b", ["leaks", "leaks"]), of("c", ["part", "part"])]
    told = f"b, prototypes: {MOST} c, prototypes: {PART} a, prototypes: {HELD}"
    assert said(*tasks[::order]) == told


def test_what_cannot_be_judged_comes_before_what_held():
    open_ = "Nothing here can be judged: 2 not attacked."
    tasks = [of("a", ["held", "held"]), of("b", ["none", "none"])]
    assert said(*tasks) == f"b, prototypes: {open_} a, prototypes: {HELD}"


def test_what_leaks_on_another_question_or_stage_of_a_task_counts_there():
    held, part = of("a", ["held", "held"]), of("b", ["part", "held"])
    images = asked(topics.IMAGES, P_LEAK.meaning, named(["leaks", "held"]))
    early = of("a", ["leaks", "held"]).model_copy(update={"stage": "early"})
    for worse, name in (
        (images.model_copy(update={"task": "a"}), "images"),
        (early, "prototypes (early in training)"),
    ):
        told = said(part, held, worse)
        first = f"a, prototypes: {HELD} 1 of those leaks most of what there is to leak, on {name}."
        assert told.startswith(f"{first} b, prototypes: ")


def test_a_task_of_which_no_question_was_asked_says_why():
    told = said(of("a", ["leaks", "leaks"]), settings=[unasked("b"), unasked("b")])
    assert told == f"a, prototypes: {MOST} b: Nothing here can be judged: 2 not attacked."
    undone = unasked("b", runs=(), others=(), evaluated=(), utility=())
    told = said(of("a", ["leaks", "leaks"]), settings=[undone])
    assert "b: Nothing here can be judged: 1 not recorded, FedCS because: " in told


def test_of_many_tasks_the_worst_two_are_told_and_the_others_counted():
    tasks = [of(name, ["held", "held"]) for name in "abc"]
    tasks += [of("d", ["leaks", "leaks", "leaks"]), of("e", ["leaks", "leaks"])]
    tasks += [of("f", ["leaks", "held"]), of("g", ["held", "part"]), of("h", ["none", "held"])]
    told = said(*tasks, settings=[unasked("i")])
    assert told == (
        "d, prototypes: All 3 defense settings leak most of what there is to leak."
        f" e, prototypes: {MOST} 7 more tasks, each by its worst setting: 1 leaks,"
        " 1 leaks in part, 2 cannot be judged, 3 held."
    )
    assert "more tasks" not in said(*tasks[:3])
    assert said(*tasks[:4]).endswith(" 2 more tasks, each by its worst setting: 2 held.")


def test_of_a_dead_setting_only_a_leak_counts():
    tasks = [of(name, ["leaks", "leaks"]) for name in "ab"]
    tasks += [of("c", ["held"], dead=1), of("d", ["leaks"], dead=1), of("e", ["held"])]
    assert said(*tasks).endswith(
        " 3 more tasks, each by its worst setting: 1 leaks, 1 cannot be judged, 1 held."
    )


def test_references_count_where_there_is_nothing_else():
    tasks = [of(name, ["leaks", "leaks"]) for name in "ab"]
    tasks += [of("c", ["leaks"], reference=True), question(judged("held", "s"))]
    tasks[-1] = tasks[-1].model_copy(
        update={"judged": (*tasks[-1].judged, judged("leaks", "r", reference=True))}
    )
    assert said(*tasks).endswith(" 2 more tasks, each by its worst setting: 1 leaks, 1 held.")
