"""Attack what a training loop of your own shares: a network, a loss and messages in memory.

uv run python examples/attack_in_memory.py
"""

import torch
from sklearn.datasets import load_digits
from torch import nn

import leakbench
from leakbench.metrics import P_LEAK, PSNR
from leakbench.scoring import KnownAnswer

# A client's training: one step on one digit. What it sends is the update, -lr * gradient.
digits = load_digits()
x = torch.tensor(digits.images[7:8, None] / 16, dtype=torch.float32)
y = torch.tensor(digits.target[7:8])
net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.Sigmoid(), nn.Linear(32, 10))
loss = nn.functional.cross_entropy(net(x), y)
update = [-0.1 * g for g in torch.autograd.grad(loss, net.parameters())]

# Ten clients show a secret direction under noise that is drawn afresh in each of 50 rounds.
secret = nn.functional.normalize(torch.randn(10, 32), dim=1)
shown = [secret + 0.5 * torch.randn(10, 32) for _ in range(50)]

# What the server makes of that.
seen = leakbench.Transcript(net, nn.functional.cross_entropy, shape=(1, 8, 8), lr=0.1)
seen.add("update", update, labels=y)
(classes,) = seen.attack("label_inference", source="update")
(image,) = seen.attack("gradient_inversion", message="update")

vectors = leakbench.Transcript(method="fedgn")
for t, sent in enumerate(shown, start=1):
    for client, vector in enumerate(sent):
        vectors.add("prototype", vector, sender=f"client/{client}", round=t)
newest = vectors.attack("prototype_leakage")
averages = vectors.attack("prototype_averaging", window=50)

# How near it came: this needs the truth, which no attack was given.
psnr = PSNR.score(image, KnownAnswer(x=x))[0].value
answers = [KnownAnswer(client=c, prototypes=secret) for c in range(10)]
named = []
for found in (newest, averages):
    hits = [P_LEAK.score(g, a)[0].value for g, a in zip(found, answers, strict=True)]
    named.append(sum(hits) / len(hits))
print(f"the label: {int(classes.tensors['shares'].argmax())}, and it is {int(y)}")
print(f"the image: {psnr:.0f} dB")
print(f"clients named by their newest message: {named[0]:.0%}, by the mean of 50: {named[1]:.0%}")
