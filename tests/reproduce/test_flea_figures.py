"""FLea's figures: what they draw is what the runs and tables hold."""

from __future__ import annotations

import pytest
from helpers.small_runs import FEW_PROBES, results

from leakbench import api
from leakbench.record.folders import load
from leakbench.reproduce import expected_exposure, figures
from leakbench.reproduce.catalogue import RECIPES
from leakbench.reproduce.figures import PaperFigure
from leakbench.reproduce.row import Measurement, Row
from leakbench.results.tables import collect

SPLIT = {"split": "qua", "clients": 10, "context": "square"}
TABLE, FIGURE9, FIGURE11 = (RECIPES[f"flea-{x}"] for x in ("table1", "figure9", "figure11"))
WITH = FIGURE9.cases[0].label


@pytest.fixture(scope="module")
def settings(tmp_path_factory):
    """FLea and FedMix on ten clients, attacked by what is cheap."""
    out, found = tmp_path_factory.mktemp("runs"), {}
    for label, method in ((WITH, "flea"), ("FedMix", "fedmix")):
        run = api.train(
            method,
            task_params=SPLIT,
            params={"epochs": 1, "fraction": 0.5},
            rounds=4,
            out=out,
            device="cpu",
            record=FEW_PROBES,
        )
        api.attack(run, "exposure")
        if method == "flea":
            api.attack(run, "distance_correlation")
        (found[label, "cifar10"],) = collect([load(run.path)]).settings
    return found


def line(case, measure, value=None):
    """A row of the table; without a value there is no number."""
    about = {"recipe": "r", "scale": "smoke", "dataset": "cifar10", "task": "digits"}
    numbers = {"value": value, "low": 0.1, "high": 0.9, "n": 10, "unit": "client"}
    ours = None if value is None else Measurement(**numbers)
    return Row(**about, label=case.label, measure=measure, metric=measure, ours=ours)


def lines(axes):
    """{label: its points}; what has no label is left out."""
    return {
        line.get_label(): dict(zip(*map(list, line.get_data()), strict=True))
        for line in axes.lines
        if line.get_label()[0] != "_"
    }


@pytest.fixture
def drawn(monkeypatch):
    """Figures as they are saved."""
    kept = []
    monkeypatch.setattr(
        figures.plots,
        "save",
        lambda figure, folder, stem: kept.append(figure) or [folder / f"{stem}.svg"],
    )
    return kept


def test_the_privacy_study_draws_every_round_of_the_attacks_and_what_is_expected(
    settings, drawn, tmp_path
):
    rows = [line(FIGURE9.cases[0], "exposure")]
    figures.FIGURES["privacy"](PaperFigure(FIGURE9, "smoke", rows, settings, tmp_path))
    exposure, correlation, _, context = drawn[0].axes
    seen = lines(exposure)
    assert seen.keys() == {WITH, "FedMix", "FLea, expected"}
    run = settings[WITH, "cifar10"].one
    folders = {a.name: a.path for a in run.attacks}
    assert sorted(seen[WITH]) == [1, 2, 3, 4]
    assert seen[WITH][4] == results(folders["exposure"], "exposure")["value"]
    assert seen[WITH][1] == results(folders["exposure"], "exposure", "untrained")["value"] == 0
    assert seen["FLea, expected"] == {t: expected_exposure.expected(10, 5, t) for t in range(1, 5)}
    row = results(folders["distance_correlation"], "dcor2_corrected")
    assert lines(correlation).keys() == {WITH}
    assert lines(correlation)[WITH][4] == row["value"]
    (floor,) = [x for x in correlation.lines if x.get_label()[0] == "_"]
    assert floor.get_ydata()[-1] == row["floor"]
    assert not lines(context)  # no context attack ran, so nothing stands there


def test_several_seeds_are_a_mean_and_a_band(settings, drawn, tmp_path):
    one = settings[WITH, "cifar10"]
    run, two = one.one, one.model_copy(update={"evaluated": one.evaluated * 2})
    shown = {("FLea", "uci-har"): two, ("FedAvg", "uci-har"): one}
    figures.FIGURES["rounds"](PaperFigure(TABLE, "smoke", [], shown, tmp_path))
    (axes,) = drawn[0].axes
    assert lines(axes).keys() == {"FLea", "FedAvg"}
    assert lines(axes)["FLea"] == lines(axes)["FedAvg"]
    assert len(axes.collections) == 1
    last = [
        float(r.split(",")[2])
        for r in (run.path / "utility.csv").read_text(encoding="utf-8").splitlines()[1:]
    ][-1]
    assert lines(axes)["FLea"][4] == pytest.approx(last)


def test_weights_stand_on_their_own_axes(drawn, tmp_path):
    rows = [
        line(c, m, 0.01 * i + (0.5 if m == "best" else 0.2))
        for i, c in enumerate(FIGURE11.cases)
        for m in ("best", "flea_correlation")
    ]
    rows[0] = line(FIGURE11.cases[0], "best")  # what was not run is no point
    figures.FIGURES["weights"](PaperFigure(FIGURE11, "smoke", rows, {}, tmp_path))
    across = [sorted(bars[0].get_xdata()) for axes in drawn[0].axes for bars in axes.containers]
    assert across == [[0, 4, 6], [0, 1, 6, 10], [0, 1, 4, 6], [0, 1, 3, 6, 10]]
