"""What an attack is: its threat model, its view of a run, its guesses; and how it is replayed."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
