"""A folder of pictures, one folder for each class; here digits are written there first."""

from pathlib import Path

import torch
from PIL import Image
from sklearn.datasets import load_digits

import leakbench as lb

digits = load_digits()
for i, (picture, label) in enumerate(zip(digits.images, digits.target, strict=True)):
    place = Path("pictures", f"digit-{label}")
    place.mkdir(parents=True, exist_ok=True)
    Image.fromarray((picture * 15).astype("uint8")).save(place / f"{i}.png")


def network(out):
    return torch.nn.Sequential(
        torch.nn.Conv2d(1, 12, 5, stride=2, padding=2),
        torch.nn.Tanh(),
        torch.nn.Flatten(),
        torch.nn.Linear(12 * 4 * 4, out),
    )


data = lb.clients.from_folder("pictures", size=8, grey=True, clients=8, split="dir", param=0.5)
task = lb.task("pictures", data, model=network, train={"lr": 0.3, "batch": 16})
run = lb.train("fedavg", task=task, rounds=10)
lb.attack_all(run, minutes=1)
print(lb.report([run], "report-folder"))
