"""Updates of which a part was sent: what was not is no data, in the record and to attacks."""

import copy

import pytest
import torch
from helpers.own_loops import model, step, watched
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional as F

import leakbench as lb
from attacks._label_shares import fitted
from leakbench.base.files import read_tree

KEPT = 0.3  # of the numbers
LR = 0.1


def largest(update):
    """The update without all but its largest numbers."""
    size = torch.cat([v.abs().flatten() for v in update.values()])
    least = size.quantile(1 - KEPT)
    return {k: torch.where(v.abs() >= least, v, 0.0) for k, v in update.items()}


def digits():
    found = load_digits()
    return lb.clients(torch.tensor(found.images[:, None] / 16).float(), found.target, clients=3)


def record(place, *, sparse):
    """A loop whose clients send the largest numbers of one step on one picture."""
    data = digits()
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.Tanh(), nn.Linear(24, 10))
    dice = torch.Generator().manual_seed(0)
    start = {k: 0.3 * torch.randn(v.shape, generator=dice) for k, v in net.state_dict().items()}
    net.load_state_dict(start)
    how = {"sgd": {"lr": LR, "batch": 1, "steps": 1}, "covered": ["update"]}
    with lb.observe(place, name="top", model=net, data=data, **how) as seen:
        seen.sent("model", net.state_dict(), round=1)
        for c in range(3):
            local, (x, y) = copy.deepcopy(net), data.client(c)
            F.cross_entropy(local(x[:1]), y[:1]).backward()
            whole = {k: -LR * p.grad for k, p in local.named_parameters()}
            more = {"rows": [0], "what": "difference", "uncovered": whole}
            seen.update(largest(whole), client=c, round=1, sparse=sparse, **more)
    return seen.run


def found(run):
    how = {"message": "update", "at": ["final"], "targets": 3, "restarts": 1, "steps": 150}
    rows = lb.attack(run, "gradient_inversion", attacker="naive", **how).to_frame()
    rows = rows[rows["rung"] == "paper"] if "rung" in rows else rows
    return float(rows[rows["metric"] == "mse"]["value"].iloc[0])


def test_what_was_not_sent_is_not_matched(tmp_path):
    """Zeros taken for data would make the record look safer than it is."""
    as_it_is, as_data = (found(record(tmp_path / str(s), sparse=s)) for s in (True, False))
    assert as_it_is < 0.5 * as_data


def test_the_record_says_so(tmp_path):
    run = record(tmp_path, sparse=True)
    _, meta = read_tree(run.path / "transcript" / "round-000001.safetensors")
    assert [m.get("sparse", False) for m in meta["messages"]] == [False, True, True, True]
    assert "no_control" not in run.meta
    how = {"message": "update", "engine": "breaching", "package": "analytic", "attacker": "naive"}
    with pytest.raises(lb.UsageError, match="a part was not sent"):
        lb.attack(run, "gradient_inversion", at=["final"], **how)


def test_outputs_that_were_not_sent_are_no_equations():
    slopes = torch.eye(4).double() - 0.25
    shares = torch.tensor([0.5, 0.5, 0.0, 0.0]).double()
    rise = slopes.T @ shares
    sent = torch.tensor([True, True, True, False])
    told = torch.where(sent, rise, 0.0)
    torch.testing.assert_close(fitted(told, slopes, sent)[0], shares, atol=1e-3, rtol=0)
    assert float((fitted(told, slopes)[0] - shares).abs().max()) > 0.05


@pytest.mark.parametrize("sparse", [True, "yes"])
def test_it_is_covered_or_refused(tmp_path, sparse):
    def tell(seen):
        seen.sent("model", model(1), round=1)
        seen.update(step(1, 0), client=0, round=1, what="difference", sparse=sparse)

    with pytest.raises(lb.UsageError, match="expected True or False, and with True observe"):
        watched(tmp_path, tell)
