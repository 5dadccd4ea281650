"""torchvision's ResNet-18 with its BatchNorm, on small pictures."""

import torch
import torchvision
from sklearn.datasets import load_digits

import leakbench as lb

digits = load_digits()
pictures = torch.tensor(digits.images[:, None] / 16).float().repeat(1, 3, 1, 1)
pictures = torch.nn.functional.interpolate(pictures, size=32)
data = lb.clients(pictures, digits.target, clients=5, split="iid")
task = lb.task(
    "resnet",
    data,
    model=lambda out: torchvision.models.resnet18(num_classes=out),
    train={"lr": 0.05, "batch": 8, "steps": 1},
)
run = lb.train("fedavg", task=task, rounds=2, record="standard")
lb.attack_all(run, minutes=1)
print(lb.report([run], "report-resnet"))
