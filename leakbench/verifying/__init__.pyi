from .checks import verify as verify
from .finding import Finding as Finding
from .finding import Outcome as Outcome
