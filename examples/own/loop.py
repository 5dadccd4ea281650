"""A plain loop: leakbench trains nothing, and is told what is sent."""

import copy

import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits

import leakbench as lb

digits = load_digits()
pictures = torch.tensor(digits.images[:, None] / 16).float()
data = lb.clients(pictures, digits.target, clients=8, split="dir", param=0.5)
net = torch.nn.Sequential(
    torch.nn.Flatten(), torch.nn.Linear(64, 32), torch.nn.Tanh(), torch.nn.Linear(32, 10)
)
x_test, y_test = data.test
sgd = {"lr": 0.3, "batch": 16, "steps": 1, "momentum": 0.9}

with lb.observe("runs", name="clinic", model=net, loss=F.cross_entropy, sgd=sgd, data=data) as seen:
    for t in range(seen.begun + 1, 11):
        seen.sent("model", net.state_dict(), round=t)
        locals_ = []
        for c in range(len(data)):
            local, (x, y) = copy.deepcopy(net), data.client(c)
            optimizer = torch.optim.SGD(local.parameters(), lr=0.3, momentum=0.9)
            rows = torch.randperm(len(y))[:16]
            optimizer.zero_grad()
            F.cross_entropy(local(x[rows]), y[rows]).backward()
            optimizer.step()
            seen.update(local.state_dict(), client=c, round=t, rows=rows)
            locals_.append(local.state_dict())
        for name, weights in net.state_dict().items():
            weights.copy_(torch.stack([w[name] for w in locals_]).mean(0))
        seen.utility("accuracy", net(x_test).argmax(1) == y_test, round=t)

lb.attack_all(seen.run, minutes=1)
print(lb.report([seen.run], "report-loop"))
