"""What a wrapper says that it does to a message, for who counts what that is worth: (ε, δ).

A wrapper is a function of a client's whole message. What is said here of it holds whatever the
client's data are.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Gaussian:
    """The message's L2 norm is at most ``bound``, and every number gets N(0, ``deviation``^2).

    Noise is drawn anew for each message. Two messages are 2 ``bound`` apart at most, whatever they
    are made of: that is the sensitivity (Dwork and Roth 2014, Definition 3.8) if a client's data
    are replaced by any others.
    """

    bound: float
    deviation: float

    @property
    def shift(self) -> float:
        """How far apart two messages may be, in deviations of the noise; infinite without noise."""
        return 2 * self.bound / self.deviation if self.deviation else float("inf")


@dataclass(frozen=True)
class Processing:
    """What leaves is made of the message that comes in, of public facts and of dice alone.

    It tells no more than that message does (Dwork and Roth 2014, Proposition 2.1).
    """


Mechanism = Gaussian | Processing
