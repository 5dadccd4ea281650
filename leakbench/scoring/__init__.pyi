from .known_answer import KnownAnswer as KnownAnswer
from .truth import Truth as Truth
