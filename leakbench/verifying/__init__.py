"""For a reviewer: everything in a run folder that can be derived again, derived and compared."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
