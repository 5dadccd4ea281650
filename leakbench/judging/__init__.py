"""From numbers to verdicts and fronts; ``leakbench.words`` says them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
