"""A run's folder: its spec, the messages kept, checkpoints; how an attacker may read it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
