"""Every sentence of a report: verdicts, counts and attackers in words. No rule lives here."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
