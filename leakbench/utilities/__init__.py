"""Utility metrics: each public module is one, named after its file."""

LEAKBENCH_API = 1
