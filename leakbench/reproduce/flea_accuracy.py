"""The three accuracies that stand in every table of FLea's."""

from __future__ import annotations

from dataclasses import replace

from leakbench.reproduce.recipe import UTILITY, Measure

BEST = Measure("best", "best accuracy", statistic="best")
FINAL = Measure(UTILITY, "final accuracy", printed=False)
LAST10 = Measure("last10", "mean of the last ten", statistic="last10", printed=False)
ACCURACY = (BEST, FINAL, LAST10)
UNPRINTED = (replace(BEST, printed=False), FINAL, LAST10)  # of a figure without numbers
