from .baseline import UTILITY as UTILITY
from .baseline import Baseline as Baseline
from .baseline import GateRow as GateRow
from .gate import CheckResult as CheckResult
from .gate import Comparison as Comparison
from .gate import check as check
