from .baseline import UTILITY as UTILITY
from .baseline import Baseline as Baseline
from .baseline import GateRow as GateRow
from .gate import check as check
from .outcome import CheckResult as CheckResult
from .outcome import Comparison as Comparison
from .outcome import LimitOutcome as LimitOutcome
