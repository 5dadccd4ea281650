"""Before round 1 everybody contributes to one set that all then train with (FedMix, FedData)."""

from __future__ import annotations

from abc import abstractmethod

from defenses._local_epochs import LocalEpochs
from leakbench import Client, Sent, Server, UsageError
from leakbench.base import torch
from leakbench.federation import Choreography


class SharedSet(LocalEpochs):
    """Contributions go up, the set comes down to everybody and lasts; then FedAvg's rounds."""

    def before(self, fed: Choreography) -> None:
        fed.clients(self.contribute)
        fed.server(self.pool)

    @abstractmethod
    def contribute(self, me: Client) -> Sent:
        """Client, once: {kind: inputs (n, ...), "labels": (n, classes) or (n,)}."""

    def pool(self, server: Server) -> Sent:
        """Server, once: what came in, as one set, to everybody.

        Raises:
            UsageError: nobody had enough examples to share anything.
        """
        pooled = {kind: torch.cat(list(sent)) for kind, sent in server.inbox.items()}
        if not all(len(rows) for rows in pooled.values()):
            raise UsageError(
                f"{type(self).__name__}: no client has enough examples to share any, so there is"
                " nothing to train with; use a smaller size, or more examples a client."
            )
        return pooled
