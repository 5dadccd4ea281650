from .columns import TABLES as TABLES
from .folders import Run as Run
from .folders import find as find
from .folders import load as load
from .knowledge import recurring as recurring
from .messages import Message as Message
from .recording import Recording as Recording
from .runspec import RunSpec as RunSpec
