from .baseline import Baseline as Baseline
from .gate import check as check
from .outcome import CheckResult as CheckResult
from .outcome import Comparison as Comparison
from .outcome import LimitOutcome as LimitOutcome
from .row import UTILITY as UTILITY
from .row import GateRow as GateRow
