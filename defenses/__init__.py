"""Federated methods: each public module is one method, named after its file."""

import lazy_loader

LEAKBENCH_API = 1
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
