"""The version of leakbench, as run folders and reports name it."""

__version__ = "0.1.0"
