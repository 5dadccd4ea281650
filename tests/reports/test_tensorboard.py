"""Event files: as many points as curves, the worst case, the verdict in words."""

from __future__ import annotations

import pytest
from helpers.report_data import report_data
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from leakbench.words import short
from reports.tensorboard import EVENTS, Tensorboard


def read(folder):
    board = EventAccumulator(str(folder))
    board.Reload()
    return board


@pytest.fixture
def data():
    return report_data()


def test_every_setting_has_its_curves_and_its_verdict(data, tmp_path):
    written = Tensorboard().write(data, tmp_path)
    assert len(written) == len(data.settings)
    for path, setting in zip(written, data.settings, strict=True):
        board = read(path.parent)
        for curve in setting.curves:
            events = board.Scalars(
                f"{curve.name}{', on probes' * curve.probe}/{curve.by or 'of the run'}"
            )
            assert [e.step for e in events] == list(curve.rounds)
            assert [e.value for e in events] == pytest.approx(list(curve.value))
        own = [j for q in data.questions for j in q.judged if j.setting.id == setting.id]
        told = [t for t in board.Tags()["tensors"] if t.startswith("verdict")]
        assert len(told) == len(own)
        for judged in own:
            texts = [board.Tensors(t)[0].tensor_proto.string_val[0].decode() for t in told]
            assert f"**{short(judged.evidence, judged.verdict)}.** {judged.sentence}" in texts


def test_the_worst_case_stands_beside_the_papers_own_attack(data, tmp_path):
    from leakbench.results import ANY, END

    seen = 0
    for path, setting in zip(Tensorboard().write(data, tmp_path), data.settings, strict=True):
        board = read(path.parent)
        for n in setting.numbers:
            if n.attacker.name == ANY and n.stage in END:
                tag = f"{n.metric}{', on probes' * n.probe}/worst case"
                values = [e.value for e in board.Scalars(tag)]
                assert any(v == pytest.approx(n.value.value) for v in values)
                seen += 1
    assert seen


def test_written_again_it_is_the_same_files_and_names_no_machine(data, tmp_path):
    first = Tensorboard().write(data, tmp_path)
    (tmp_path / "tensorboard" / "gone").mkdir()
    (tmp_path / "tensorboard" / "gone" / EVENTS).write_bytes(b"of an earlier report")
    again = Tensorboard().write(data, tmp_path)
    assert first == again
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == [EVENTS] * len(first)
