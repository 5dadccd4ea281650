"""The folder and the environment that a command is begun in may be a stranger's.

What libraries would read of them, though nobody meant it, is put out of their sight. What tells a
machine apart stays, for runs say of it what they rest on: threads, instructions, devices. So do
where data, plugins and caches lie.
"""

from __future__ import annotations

import os
import sys
from contextlib import chdir
from importlib.util import find_spec
from pathlib import Path

# Other arithmetic (SciPy's arrays, torch's compiler), files written beside what was asked for
# (torch's logs and traces), figures of another look, another repository's commit.
FORGOTTEN = (
    *("MATPLOTLIBRC", "MPLBACKEND", "MPL_IGNORE_SYSTEM_FONTS", "SOURCE_DATE_EPOCH"),
    *("HYDRA_FULL_ERROR", "FX_PATCH_GETITEM", "NPY_PROMOTION_STATE"),
    *("PYDANTIC_DISABLE_PLUGINS", "TORCH_DTRACE", "TORCH_PYTHON_NATIVE_USER_GRAPH_ORDER_FN"),
)
PREFIXES = (
    *("GIT_", "SCIPY_", "SYMPY_", "MPMATH_", "PYPARSING", "TQDM_", "PYTORCH_JIT", "PYTORCH_SUM_"),
    *("TORCH_LOGS", "TORCH_TRACE", "TORCH_COMPILE_", "TORCH_FAKE_", "TORCHDYNAMO_"),
    *("TORCHINDUCTOR_", "TORCHEXPORT_", "TORCH_DISABLE_NATIVE_", "FX_NET_ACC_"),
)
RC = "matplotlibrc"  # matplotlib obeys one that lies where the user is


def forget() -> None:
    """Make a command's process independent of these, before any library is loaded."""
    for name in list(os.environ):
        if name in FORGOTTEN or name.startswith(PREFIXES):
            del os.environ[name]
    if os.path.lexists(RC) and "matplotlib" not in sys.modules:
        found = find_spec("matplotlib")
        folder = Path(found.origin or "").parent / "mpl-data" if found else Path()
        if (folder / RC).is_file():
            with chdir(folder):  # where its own lies, which may be a pipe elsewhere
                __import__("matplotlib")
