"""A round of FedAvg in plain PyTorch, by hand: a contender of ``peers.py``."""

from __future__ import annotations

import sys

import torch
from peers_setting import Desk, put, read, sgd


def main(folder: str, name: str) -> None:
    setting = read(f"{folder}/setting.safetensors")
    torch.set_num_threads(setting.threads)
    net, weights = setting.network(), setting.start
    desk = Desk(folder, name, f"torch {torch.__version__}")
    clients = setting.chosen.shape[1]
    for t in range(setting.rounds):
        desk.wait()
        mean = [torch.zeros_like(w) for w in weights]
        for j in range(clients):
            put(net, weights)
            sgd(net, *setting.client(t, j), setting.lr)
            for total, parameter in zip(mean, net.parameters(), strict=True):
                total.add_(parameter.detach(), alpha=1 / clients)
        weights = mean
        desk.done()
    desk.end(weights)


if __name__ == "__main__":
    main(*sys.argv[1:3])
