"""Federated methods: each public module is one method, named after its file."""

LEAKBENCH_API = 1
