"""Somebody's own data, network and loop, brought into the rooms where all others are."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
