"""Tasks: each public module is one task, named after its file (with '-' for '_')."""

LEAKBENCH_API = 1
