"""Methods of this project that leakbench finds by the entry point in pyproject.toml."""

LEAKBENCH_API = 1
