"""Codewords read off updates: the decoder against all words of small codes, steps made by hand from
the printed loss, runs, and updates that say nothing.
"""

from __future__ import annotations

import pytest
import torch
from helpers.small_runs import FEW_PROBES, again, build, obstacle, results, units
from torch import nn

from attacks import _linear_codes
from attacks.codeword_from_update import common_signs
from defenses import _codes
from leakbench import Transcript, api
from leakbench.attacking import guessing
from leakbench.base import registry
from leakbench.base.errors import NotMeasured
from leakbench.metrics import CODEWORD_BITS
from leakbench.record.folders import load
from leakbench.record.policy import Policy
from leakbench.scoring.truth import Truth

CLIENTS, IMAGES = 10, 16
ALL = Policy(probes=0)  # the last layer of everybody
SMALL = {"model": "mlp", "width": 8, "dim": 8}


def drawn(seed):
    return torch.Generator().manual_seed(seed)


def words_of(code, bits):
    """Codewords of messages (n, message), 0 and 1."""
    return bits.to(code) @ code % 2


def all_words(length, message):
    bits = (torch.arange(2**message)[:, None] >> torch.arange(message)) & 1
    return words_of(_codes.generator(length, message), bits)


class TestDecoder:
    @pytest.mark.parametrize(("length", "message"), [(15, 5), (15, 7), (15, 11), (31, 6), (31, 11)])
    def test_no_word_that_begins_so_is_nearer(self, length, message):
        """Against every word of the code, for observations that say nothing at all."""
        every, code = all_words(length, message), _codes.generator(length, message)
        for seed in range(20):
            read = torch.randn(length, generator=drawn(seed), dtype=torch.float64)
            known = torch.randint(2, (3,), generator=drawn(seed + 100))
            fitting = every[(every[:, :3] == known).all(1)] > 0
            size = read.abs() / read.abs().max()
            apart = [((fitting != (sign * read > 0)) * size).sum(1).min() for sign in (1, -1)]
            found = _linear_codes.decoded(code, read, known)
            assert found.deficit == pytest.approx(float(min(apart)), abs=1e-12)
            assert bool((fitting == found.bits).all(1).any())

    @pytest.mark.parametrize("sign", [1, -1])
    def test_more_wrong_bits_than_the_code_promises_where_they_are_the_unsure_ones(self, sign):
        """14 of 127, where by its distance of 21 it corrects 10."""
        code = _codes.generator(127, 64)
        for seed in range(10):
            word = words_of(code, torch.randint(2, (64,), generator=drawn(seed))) > 0
            size = torch.rand(127, generator=drawn(seed + 50), dtype=torch.float64)
            wrong = size.argsort()[:28:2]
            read = size * (2.0 * word - 1)
            read[wrong] *= -1
            found = _linear_codes.decoded(code, sign * read, word[:4].long())
            assert torch.equal(found.bits, word)
            assert found.by_chance < 1e-3

    def test_what_is_by_chance(self):
        """How many of all patterns are as near, counted one by one."""
        size = torch.rand(12, generator=drawn(0), dtype=torch.float64)
        patterns = (torch.arange(2**12)[:, None] >> torch.arange(12)) & 1
        for deficit in (0.0, 0.1, 0.7, 2.0):
            true = int(((patterns * size).sum(1) <= deficit).sum())
            counted = _linear_codes._within(size, deficit)
            assert true <= counted <= max(1.1 * true, true + 2)

    def test_coins_are_no_codeword(self):
        """And are told so: the number says how often so near a word is an accident."""
        code, known = _codes.generator(127, 64), torch.tensor([1, 0, 0, 1])
        reads = [torch.randn(127, generator=drawn(s), dtype=torch.float64) for s in range(60)]
        chances = [_linear_codes.decoded(code, read, known).by_chance for read in reads]
        for level in (0.001, 0.1):
            assert sum(c < level for c in chances) / 60 <= level + 0.1


class Coded(nn.Module):
    """An embedding, the ReLU of a linear layer, and FedUV's code stage."""

    def __init__(self, length, seed):
        super().__init__()
        self.head, self.code = nn.Linear(20, 12), nn.Linear(12, length, bias=False)
        for p in self.parameters():
            p.data = torch.randn(p.shape, generator=drawn(seed)) * 0.3

    def forward(self, x):
        return self.code(self.head(x).relu())


def secret(seed, length=127, message=64):
    """(clients, length) in {-1, 1}: codewords with the clients' numbers, lowest bit first."""
    bits = torch.randint(2, (CLIENTS, message), generator=drawn(seed + 1000))
    bits[:, :4] = (torch.arange(CLIENTS)[:, None] >> torch.arange(4)) & 1
    return 2 * words_of(_codes.generator(length, message), bits) - 1


def step(model, word, seed, divisor=127.0):
    """-lr times the gradient of (1 - v . tanh(W g) / c)^2, mean over a batch, by autograd."""
    x = torch.rand(IMAGES, 20, generator=drawn(seed))
    fits = torch.tanh(model(x)) @ word.float() / divisor
    loss = (1 - fits).clamp(min=0).square().mean()
    return [-3.0 * g for g in torch.autograd.grad(loss, list(model.parameters()))]


def crossed(model, updates, length=127):
    """A transcript of one round: {client: its update}."""
    made = Transcript(model, shape=(20,), method="feduv", clients=CLIENTS, length=length)
    for client, update in updates.items():
        made.add("update", update, sender=f"client/{client}")
    return made


def agreement(guess, word):
    return float((guess.tensors["prototype"].double() == word.double()).double().mean())


class TestByHand:
    def test_one_step_of_one_batch_gives_the_codeword(self):
        model, words = Coded(127, 0), secret(0)
        updates = {c: step(model, words[c], c) for c in range(CLIENTS)}
        found = crossed(model, updates).attack("codeword_from_update")
        assert [g.unit for g in found] == [f"client/{c}" for c in range(CLIENTS)]
        assert all(g.accepted and agreement(g, words[c]) == 1 for c, g in enumerate(found))

    def test_the_signs_alone_without_the_code(self):
        """Before a bit is mended; a client whose images all reached the margin sends zeros."""
        model, words = Coded(127, 0), secret(0)
        updates = {c: step(model, words[c], c) for c in range(CLIENTS)}
        x = torch.rand(IMAGES, 20, generator=drawn(4))
        reached = torch.tanh(model(x)).mean(0).sign()  # the word that fits all images of client 4
        updates[4] = step(model, reached, 4, divisor=1e-3)
        assert not any(bool(g.any()) for g in updates[4])
        found = crossed(model, updates).attack("codeword_from_update", decode=False)
        assert found[4].failed == "the last layer's step is zero"
        rest = [(c, g) for c, g in enumerate(found) if c != 4]
        assert all(agreement(g, words[c]) > 0.9 and not g.accepted for c, g in rest)

    def test_rounds_add_up(self):
        """Under noise that drowns a single step; each step's direction and sign are its own."""
        model, word = Coded(127, 0), secret(0)[3].double()
        signs = word[:, None] * torch.rand(127, 1, generator=drawn(1), dtype=torch.float64)
        noisy = []
        for seed in range(24):
            toward = torch.randn(1, 12, generator=drawn(seed), dtype=torch.float64)
            noise = torch.randn(127, 12, generator=drawn(seed + 99), dtype=torch.float64)
            noisy.append(signs @ toward + 3.0 * noise)
        one, all_ = (abs(float((common_signs(s).sign() * word).mean())) for s in (noisy[:1], noisy))
        assert one < 0.5 < 0.8 < all_
        made = Transcript(model, shape=(20,), method="feduv", clients=CLIENTS)
        for t, s in enumerate(noisy):
            update = {"head.weight": torch.zeros(12, 20), "head.bias": torch.zeros(12)}
            made.add("update", update | {"code.weight": s}, sender="client/3", round=t + 1)
        (all_guess,) = made.attack("codeword_from_update")
        (one_guess,) = made.attack("codeword_from_update", together=False)
        assert all_guess.accepted
        assert agreement(all_guess, word) == 1
        assert not one_guess.accepted

    def test_the_blind_guess_knows_the_number_alone(self):
        model, words = Coded(127, 0), secret(0)
        made = crossed(model, {c: step(model, words[c], c) for c in range(CLIENTS)})
        blind = made.attack("codeword_from_update", blind=True)
        for c, g in enumerate(blind):
            assert torch.equal(g.tensors["prototype"][:4], words[c][:4].float())
            assert 0.3 < agreement(g, words[c]) < 0.7


class TestNulls:
    """Ten seeds of ten clients: nothing is accepted, and nobody is named more than by chance."""

    def named(self, found, words):
        """[is the nearest codeword the client's own?], [share of bits right]."""
        guessed = torch.stack([g.tensors["prototype"].double() for g in found])
        own = (guessed @ words.T).argmax(1) == torch.arange(CLIENTS)
        return own.tolist(), [agreement(g, w) for g, w in zip(found, words, strict=True)]

    def test_updates_that_say_nothing(self):
        own, bits = [], []
        for seed in range(10):
            model, words = Coded(127, seed), secret(seed)
            updates = {}
            for c in range(CLIENTS):
                dice = drawn(1000 * seed + c)
                updates[c] = [torch.randn(p.shape, generator=dice) for p in model.parameters()]
            found = crossed(model, updates).attack("codeword_from_update")
            assert not any(g.accepted for g in found)
            more = self.named(found, words)
            own, bits = own + more[0], bits + more[1]
        assert sum(own) <= 18  # of 100, 10 by chance: 1 in 100
        assert sum(bits) / 100 == pytest.approx(0.5, abs=0.02)

    def test_updates_of_other_clients(self):
        """Each is a codeword without a fault, of another number.

        Shifts that leave no pair of opposite numbers, as 6 and 9: of those the opposite codeword
        would fit, and the last layer alone cannot tell.
        """
        for seed in range(10):
            model, words = Coded(127, seed), secret(seed)
            steps = [step(model, words[c], c) for c in range(CLIENTS)]
            shift = (2, 4, 5, 6, 8)[seed % 5]
            updates = {c: steps[(c + shift) % CLIENTS] for c in range(CLIENTS)}
            found = crossed(model, updates).attack("codeword_from_update")
            assert not any(g.accepted for g in found)
            assert sum(self.named(found, words)[0]) <= 1

    def test_a_code_with_too_few_checks_is_never_sure(self):
        """15 bits with 11 of message: a word is near to anything."""
        model, words = Coded(15, 0), secret(0, 15, 11)
        updates = {c: step(model, words[c], c, 15.0) for c in range(CLIENTS)}
        made = Transcript(
            model, shape=(20,), method="feduv", clients=CLIENTS, length=15, message=11
        )
        for client, update in updates.items():
            made.add("update", update, sender=f"client/{client}")
        assert not any(g.accepted for g in made.attack("codeword_from_update"))


def trained(out, rounds=3, method="feduv", **more):
    how = {"task_params": SMALL, "device": "cpu", "record": FEW_PROBES, **more}
    return api.train(method, rounds=rounds, out=out, **how)


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Three rounds on digits, everybody's updates kept."""
    return trained(tmp_path_factory.mktemp("feduv"), record=ALL)


class TestRuns:
    def test_everybody_is_named_by_one_update(self, run):
        folder = api.attack(run, "codeword_from_update", together=False).path
        for stage in ("untrained", "final"):
            named, bits = (results(folder, m, stage) for m in ("p_leak", "codeword_bits"))
            assert (named["value"], bits["value"], named["n"]) == (1, 1, 10)
            assert (named["control"], bits["floor"], named["rung"]) == (1, 0.5, "method")
        assert all(g.guess.accepted for g in guessing.saved(folder) if g.role == "attack")

    def test_bits_are_counted_against_the_recorded_codewords(self, run):
        folder = api.attack(run, "codeword_from_update", together=False, decode=False).path
        true = Truth(load(run.path)).round(3)["everyone"]["codeword"]
        found = units(folder, "codeword_bits", round=3)
        for g in guessing.saved(folder):
            if (g.role, g.stage) == ("attack", "final"):
                word = true[int(g.guess.unit.removeprefix("client/"))]
                assert found[g.guess.unit] == pytest.approx(agreement(g.guess, word), abs=1e-9)

    def test_several_local_steps(self, tmp_path):
        run = trained(tmp_path, params={"steps": 5}, record=ALL)
        assert results(api.attack(run, "codeword_from_update").path, "codeword_bits")["value"] == 1

    def test_noise_on_the_update(self, tmp_path):
        """A thousandth of the clipped norm, an entry, hides no codeword; all of it does."""
        reached = []
        for noise in (0.001, 1.0):
            wrapper = ("clip_noise", {"noise": noise})
            run = trained(tmp_path, rounds=1, wrappers=[wrapper], record=ALL)
            folder = api.attack(run, "codeword_from_update").path
            reached.append(results(folder, "codeword_bits"))
        assert reached[0]["value"] == 1
        assert reached[1]["value"] < 0.6
        assert reached[1]["control"] == 1

    def test_where_it_does_not_fit(self, run, tmp_path):
        attack = build("codeword_from_update")
        assert obstacle(attack, again(run)) == ""
        summed = trained(tmp_path, rounds=1, wrappers=[("secure_sum", {})])
        assert "the server receives only the sum" in obstacle(attack, again(summed))
        plain = trained(tmp_path, rounds=1, method="fedavg")
        assert obstacle(attack, again(plain)) == "its clients have no codewords"
        wrong = Transcript(Coded(31, 0), shape=(20,), method="feduv", clients=CLIENTS)
        wrong.add("update", [p.detach() for p in Coded(31, 0).parameters()])
        assert "an output for each bit" in obstacle(attack, wrong)


def test_bits_of_what_is_no_codeword_are_not_counted(tmp_path):
    run = trained(tmp_path, rounds=1, method="fedgn")
    guess = registry.load_plugin("attacks", "prototype_leakage").build({}, "it")(
        guessing.View(build("prototype_leakage").threat, again(run), 1)
    )[0]
    with pytest.raises(NotMeasured, match="not all -1 or 1"):
        CODEWORD_BITS.score(guess, Truth(load(run.path)).answer(guess))


def test_feduv_is_a_defense_by_its_own_claim():
    """And so counted among those that leak, not left out as a reference."""
    method = registry.load_plugin("defenses", "feduv").build({}, "it")
    assert method.hides()
    assert method.undefended() == method
