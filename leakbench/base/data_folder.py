"""Where data sets and weights are looked for."""

from __future__ import annotations

import os
from pathlib import Path


def data_folder() -> Path:
    """$LEAKBENCH_DATA, or `leakbench` in the user's cache folder."""
    chosen = os.environ.get("LEAKBENCH_DATA")
    if chosen:
        return Path(chosen)
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("leakbench"))
