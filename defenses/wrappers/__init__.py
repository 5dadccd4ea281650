"""Wrappers on the wire, for any method: each public module is one wrapper, named after its file."""

LEAKBENCH_API = 1
