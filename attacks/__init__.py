"""Attacks: each public module is one attack, named after its file."""

LEAKBENCH_API = 1
