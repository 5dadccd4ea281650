"""A table of one's own: 30 measurements of 569 tumours, dealt to six hospitals."""

import torch
from sklearn.datasets import load_breast_cancer

import leakbench as lb


def network(out):
    return torch.nn.Sequential(torch.nn.Linear(30, 32), torch.nn.ReLU(), torch.nn.Linear(32, out))


cells = load_breast_cancer()
x = (cells.data - cells.data.mean(0)) / cells.data.std(0)
data = lb.clients(x, cells.target, clients=6, split="dir", param=0.5)
task = lb.task("tumours", data, model=network, train={"lr": 0.1, "batch": 16})
run = lb.train("fedavg", task=task, rounds=20)
lb.attack_all(run, minutes=1)
print(lb.report([run], "report-table"))
