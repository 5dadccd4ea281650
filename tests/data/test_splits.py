"""Splits: each row at one client and no other, classes as the rule says, the same whenever they are
made; refused in one sentence.
"""

from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from leakbench.base.errors import UsageError
from leakbench.base.streams import shared
from leakbench.data import splits
from leakbench.federation.task_data import padded
from leakbench.reporting.maps import counted

FEW = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.filter_too_much])


def labels(sizes, seed=0):
    """``sizes[k]`` examples of class k in a mixed order."""
    y = torch.cat([torch.full((n,), k) for k, n in enumerate(sizes)])
    return y[shared(seed, "test").permutation("y", len(y))]


def split(y, rule, clients, param=1.0, classes=None, stream="task/test"):
    return splits.split_rows(
        y,
        clients=clients,
        classes=classes or int(y.max()) + 1,
        rule=rule,
        param=param,
        stream=stream,
    )


def whole(parts, n):
    """Each of n rows once, nobody empty, everybody's in order."""
    rows = torch.cat(parts)
    assert sorted(rows.tolist()) == list(range(n))
    assert all(len(p) and bool((p.diff() > 0).all()) for p in parts)


def held(parts, y, classes):
    return torch.stack([y[p].bincount(minlength=classes) for p in parts])


class TestRules:
    @FEW
    @given(
        st.lists(st.integers(30, 60), min_size=1, max_size=7),
        st.integers(1, 7),
        st.integers(0, 20),
        st.integers(0, 9),
    )
    def test_qua_gives_exactly_q_classes_and_cuts_each_evenly(self, sizes, q, more, seed):
        classes = len(sizes)
        q, clients = min(q, classes), classes + more
        y = labels(sizes, seed)
        parts = split(y, "qua", clients, q, classes)
        whole(parts, len(y))
        table = held(parts, y, classes)
        assert (table > 0).sum(1).tolist() == [q] * clients
        for c in range(clients):
            assert table[c, c % classes] > 0
        for k in range(classes):
            some = table[:, k][table[:, k] > 0]
            assert int(some.max() - some.min()) <= 1

    @FEW
    @given(
        st.integers(2, 30), st.integers(2, 6), st.sampled_from([0.5, 1.0, 10.0]), st.integers(0, 9)
    )
    def test_dirichlet_leaves_everybody_with_the_minimum(self, clients, classes, mu, seed):
        y = labels([20 * clients // classes + 7] * classes, seed)
        parts = split(y, "dir", clients, mu, classes, stream=f"task/{seed}")
        whole(parts, len(y))
        assert min(map(len, parts)) >= splits.LEAST

    @FEW
    @given(st.integers(1, 40), st.integers(2, 9), st.integers(0, 50))
    def test_iid_cuts_evenly(self, clients, classes, more):
        y = torch.arange(clients + more) % classes
        parts = split(y, "iid", clients, classes=classes)
        whole(parts, len(y))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1

    @FEW
    @given(st.integers(1, 20), st.integers(1, 4), st.integers(1, 6), st.integers(0, 80))
    def test_shards_are_runs_of_the_class_sorted_set(self, clients, each, classes, more):
        n = clients * each + more
        y = torch.arange(n) % classes
        parts = split(y, "shards", clients, each, classes)
        whole(parts, n)
        assert max(map(len, parts)) - min(map(len, parts)) <= each  # of shards that differ by one
        # A shard is no longer than a class, so it touches two at most.
        if -(-n // (clients * each)) <= n // classes:
            assert int((held(parts, y, classes) > 0).sum(1).max()) <= 2 * each

    @FEW
    @given(st.lists(st.integers(1, 9), min_size=2, max_size=9))
    def test_class_is_one_class_each(self, sizes):
        y = labels(sizes)
        parts = split(y, "class", len(sizes))
        whole(parts, len(y))
        assert [set(y[p].tolist()) for p in parts] == [{k} for k in range(len(sizes))]

    @FEW
    @given(st.integers(1, 200), st.integers(1, 20), st.integers(0, 30))
    def test_thinning_keeps_the_size_and_a_part_of_more(self, n, clients, size):
        assume(clients * (size + 1) <= n)
        less, more = (splits.kept_rows(n, clients, s, "task/test") for s in (size, size + 1))
        assert len(more) == clients * (size + 1)
        assert len(less) == (clients * size or n)
        assert bool((more.diff() > 0).all())
        assert bool((less.diff() > 0).all())
        assert 0 <= int(more.min()) <= int(more.max()) < n
        if size:
            assert set(less.tolist()) < set(more.tolist())

    def test_iid_clients_have_the_classes_of_the_whole(self):
        y = labels([500, 300, 200])
        table = held(split(y, "iid", 5), y, 3).double()
        assert float((table / 200 - torch.tensor([0.5, 0.3, 0.2])).abs().max()) < 0.12

    def test_shards_of_the_paper_leave_most_clients_two_classes(self):
        """McMahan et al.: 100 clients, 2 shards of 300 of MNIST's 60,000."""
        y = labels([6000] * 10)
        table = held(split(y, "shards", 100, 2), y, 10)
        assert table.sum(1).tolist() == [600] * 100
        found = (table > 0).sum(1)
        assert set(found.tolist()) == {1, 2}
        assert int((found == 2).sum()) > 75  # dealt at random: nine in ten

    @pytest.mark.parametrize("rule", ["qua", "dir", "iid", "shards"])
    def test_the_rows_of_a_class_are_shuffled_before_they_are_cut(self, rule):
        """Neighbours in the file (overlapping windows, one person) are spread over clients."""
        y = torch.zeros(400, dtype=torch.long)
        parts = split(y, rule, 4, 1.0, 1)
        # Runs of 100 have 29, the whole 115.
        assert all(float(p.double().std()) > 60 for p in parts)


class TestDirichlet:
    # Under a smaller one few draws leave everybody with the minimum.
    @pytest.mark.parametrize("mu", [0.5, 5.0, 100.0])
    def test_shares_are_those_of_a_dirichlet(self, mu):
        """Mean 1/C and variance (1/C)(1 - 1/C)/(C mu + 1) of one class's shares, over
        many draws.
        """
        rows = torch.arange(10000)
        shares = torch.cat(
            [
                held(splits._group([rows], 10, mu, f"task/{t}"), rows * 0, 1).double() / 10000
                for t in range(200)
            ]
        )
        assert float(shares.mean()) == pytest.approx(0.1)
        assert float(shares.var()) == pytest.approx(0.1 * 0.9 / (10 * mu + 1), rel=0.15)

    def test_a_smaller_mu_is_more_skewed(self):
        y = labels([500] * 6)
        most = [
            float((held(split(y, "dir", 30, mu), y, 6).double().max(1).values / 100).mean())
            for mu in (0.1, 0.5, 5.0, 100.0)
        ]
        assert most == sorted(most, reverse=True)

    def test_who_has_an_even_share_gets_no_further_class(self):
        y = labels([300] * 5)
        parts = split(y, "dir", 10, 0.2)
        table = held(parts, y, 5)
        before = table.cumsum(1) - table  # held when the class was dealt
        last = torch.arange(10) == 9  # takes what rounding leaves
        assert not bool(((before >= 150) & (table > 4) & ~last[:, None]).any())

    def test_many_clients_are_parted_and_each_group_gets_as_much(self):
        y = labels([700] * 6)
        parts = split(y, "dir", 120, 0.1)
        whole(parts, len(y))
        assert min(map(len, parts)) >= splits.LEAST
        groups = torch.tensor([len(p) for p in parts]).view(3, 40).sum(1)
        assert int(groups.max() - groups.min()) <= 6
        one, two = held(parts, y, 6)[:40].double(), held(parts, y, 6)[40:80].double()
        # Each draws its own shares.
        assert float((one - two).abs().mean()) > 0.5 * float(one.mean())

    def test_what_cannot_be_is_refused(self, monkeypatch):
        monkeypatch.setattr(splits, "TRIES", 50)
        y = labels([10] * 3)
        for clients, mu in ((16, 1.0), (15, 0.01)):
            with pytest.raises(
                UsageError,
                match="use a larger split_param, fewer clients or a larger mean_local_size",
            ):
                split(y, "dir", clients, mu)
        for mu in (0.001, 2000.0):
            with pytest.raises(UsageError, match=r"expected a concentration from 0\.01 to 1000"):
                split(y, "dir", 3, mu)


@pytest.mark.parametrize(("rule", "param"), [("qua", 2), ("dir", 0.5), ("iid", 0), ("shards", 2)])
def test_the_stream_and_nothing_else_decides(rule, param):
    y = labels([40] * 4)
    one = split(y, rule, 8, param)
    torch.rand(3)
    two, other = split(y, rule, 8, param), split(y, rule, 8, param, stream="task/other")
    assert all(torch.equal(a, b) for a, b in zip(one, two, strict=True))
    assert not all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.parametrize(
    ("rule", "clients", "param", "words"),
    [
        ("class", 5, 1, "task.clients = 5 with split class: expected 3, one client per class"),
        ("qua", 2, 1, "task.clients = 2 with split qua: expected at least 3"),
        (
            "qua",
            6,
            2.5,
            (
                "task.split_param = 2.5 with split qua: expected a whole number of classes a"
                " client, 1 to 3"
            ),
        ),
        ("qua", 6, 4, "1 to 3"),
        ("qua", 6, 0, "1 to 3"),
        ("qua", 12, 3, "class 0 has 10 training examples for 12 holders"),
        (
            "shards",
            6,
            6,
            (
                "task.split_param = 6 with split shards: expected a whole number of shards a"
                " client, 1 to 5"
            ),
        ),
        ("iid", 31, 0, "task.clients = 31, but there are 30 training examples"),
    ],
)
def test_impossible_splits_are_one_sentence(rule, clients, param, words):
    with pytest.raises(UsageError) as caught:
        split(labels([10, 10, 10]), rule, clients, param)
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_class_without_examples_leaves_no_empty_client():
    y = torch.zeros(20, dtype=torch.long)
    for rule, clients in (("class", 2), ("qua", 6)):
        with pytest.raises(
            UsageError,
            match=r"client 1 would have no training examples|class 1 has 0 training examples",
        ):
            split(y, rule, clients, 1, classes=2)


def test_too_much_is_not_kept():
    with pytest.raises(
        UsageError,
        match=(
            r"task\.mean_local_size = 11 with 10 clients needs 110 training examples, but there"
            r" are 105"
        ),
    ):
        splits.kept_rows(105, 10, 11, "task/test")


def test_the_table_of_a_report_counts_what_each_client_holds():
    y = labels([50, 30, 20])
    parts = split(y, "qua", 6, 2)
    table = counted(y, *padded(parts), 3)
    assert torch.equal(table, held(parts, y, 3))
    assert table.sum(1).tolist() == [len(p) for p in parts]
