"""Sentences as numbers of words: an embedding, its mean, a linear layer."""

import torch

import leakbench as lb

WORDS = ["pain", "fever", "cough", "well", "fine", "healthy", "today", "patient", "the", "is"]
ILL, WELL = (0, 1, 2), (3, 4, 5)


class Network(torch.nn.Module):
    def __init__(self, out):
        super().__init__()
        self.words = torch.nn.Embedding(len(WORDS), 16)
        self.head = torch.nn.Linear(16, out)

    def forward(self, tokens):
        return self.head(self.words(tokens).mean(1))


thrown = torch.Generator().manual_seed(0)
ill = torch.randint(0, 2, (600,), generator=thrown)
sentences = torch.randint(6, 10, (600, 6), generator=thrown)
said = torch.randint(0, 3, (600,), generator=thrown)
sentences[:, 2] = torch.where(ill.bool(), torch.tensor(ILL)[said], torch.tensor(WELL)[said])
data = lb.clients(sentences, ill, clients=6, split="dir", param=0.5)
task = lb.task("letters", data, model=Network, train={"lr": 0.5, "batch": 8})
run = lb.train("fedavg", task=task, rounds=20)
lb.attack_all(run, minutes=1)
print(lb.report([run], "report-text"))
