"""The vocabulary of a defense, an attack, a task or a report; and the commands as functions.

Names are loaded when they are first used: torch takes two seconds, and `leakbench --help` needs
none of it. What else a plugin may use stands in the faces of the rooms, as in
``from leakbench.metrics import P_LEAK``; deeper modules may move without notice.
"""

import os
import sys

if sys.version_info < (3, 11):  # noqa: UP036 - of a checkout nobody asks before
    _here = ".".join(map(str, sys.version_info[:3]))
    raise ImportError(f"leakbench needs Python 3.11 or newer, and this is {_here}.")

# `python -m leakbench` put the working folder before all packages: what lies there must not stand
# for one of them, in what follows already. A checkout that is run in place stays.
if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:
    _checkout = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # noqa: PTH120
    if os.path.realpath(sys.path[0]) != _checkout:
        del sys.path[0]

os.environ.pop("EAGER_IMPORT", None)  # by it lazy_loader would load torch, for a `--help` even

import lazy_loader

from leakbench.base.version import __version__ as __version__

__getattr__, __dir__, _names = lazy_loader.attach_stub(__name__, __file__)
__all__ = [name for name in _names if name != "__version__"]
