from .attack import Attack as Attack
from .guess import Guess as Guess
from .metric import Metric as Metric
from .metric import Score as Score
from .replay import Replay as Replay
from .view import ThreatModel as ThreatModel
from .view import View as View
