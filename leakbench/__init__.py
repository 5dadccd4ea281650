"""The vocabulary of a defense, an attack, a task or a report; and the commands as functions.

Names are loaded when they are first used: torch takes two seconds, and `leakbench --help` needs
none of it. What else a plugin may use stands in the faces of the rooms, as in
``from leakbench.metrics import P_LEAK``; deeper modules may move without notice.
"""

import lazy_loader

from leakbench.base.version import __version__ as __version__

__getattr__, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)
__all__ = [name for name in _names if name != "__version__"]
