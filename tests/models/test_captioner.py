"""Captioners: what they say against a plain loop in NumPy, cut at their stages, under vmap and
twice differentiated; ResNet-50's tensors are torchvision's; the decoder has a rate of its own.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch.func import functional_call, grad, vmap

from leakbench.attacking.replay import Replay
from leakbench.base.errors import UsageError
from leakbench.base.streams import shared
from leakbench.base.tokens import END, PAD, START, UNKNOWN
from leakbench.federation.optimizer import Optimizer
from leakbench.models.caption_encoders import BODY, AlexNet, ResNet50, encoder_weights
from leakbench.models.captioner import (
    CaptionDecoder,
    captioner,
    captioner_alexnet,
    captioner_resnet50,
)
from leakbench.models.networks import initialise
from leakbench.models.stages import last_layer

WORDS, LENGTH = 11, 7


def net(seed=0):
    made = captioner((3, 32, 32), WORDS, 8, length=LENGTH).double().eval()
    made.load_state_dict(initialise(made, shared(seed, "init")))
    return made


def images(n=3):
    return torch.rand(n, 3, 32, 32, generator=torch.Generator().manual_seed(1)).double()


GIVEN = torch.tensor([[START, 4, 5, 6], [START, 9, 10, END], [START, 4, END, PAD]])


def sigmoid(v):
    return 1 / (1 + np.exp(-v))


def by_hand(made, x, given):
    """Logits (T, words) of one image, Xu et al. Eq. 1 to 3 and 7."""
    w = {k: v.numpy() for k, v in made.get_submodule("decoder").state_dict().items()}
    a = made(x[None], stop="encoder")[0].detach().numpy().reshape(8, -1).T  # (L, D)

    def linear(name, v):
        return v @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    h, c = (np.tanh(linear(f"start_{k}", a.mean(0))) for k in "hc")
    out = []
    for token in given.tolist():
        word = w["word.weight"][token]
        e = (
            np.tanh(linear("attend.image", a) + linear("attend.state", h))
            @ w["attend.score.weight"][0]
        )
        alpha = np.exp(e) / np.exp(e).sum()
        z = sigmoid(linear("gate", h)) * (alpha[:, None] * a).sum(0)
        gates = linear("step_x", np.concatenate([word, z])) + linear("step_h", h)
        i, f, o, g = np.split(gates, 4)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        out.append(linear("out", word + linear("from_h", h) + linear("from_z", z)))
    return np.stack(out)


def test_it_says_what_the_equations_say():
    made, x = net(), images()
    found = made(x, given=GIVEN).detach().numpy()
    assert found.shape == (3, 4, WORDS)
    for i in range(3):
        assert np.allclose(found[i], by_hand(made, x[i], GIVEN[i]), atol=1e-12)


def test_decoding_takes_the_likeliest_word_that_may_be_said():
    made, x = net(), images(6)
    made.decoder.out.bias.data[[PAD, START, UNKNOWN]] += 50  # never said all the same
    made.decoder.out.weight.data *= 30
    said = made(x, decode=True)
    assert said.shape == (6, LENGTH)
    for i, line in enumerate(said.tolist()):
        tokens = [START]
        while len(tokens) < LENGTH - 1 and tokens[-1] != END:
            logits = by_hand(made, x[i], torch.tensor(tokens))[-1]
            logits[[PAD, START, UNKNOWN]] = -np.inf
            tokens.append(int(logits.argmax()))
        tokens += [END] if tokens[-1] != END else []
        assert line == tokens + [PAD] * (LENGTH - len(tokens))


def test_an_end_is_followed_by_padding():
    made = net()
    made.decoder.out.bias.data[END] += 100
    assert made(images(), decode=True).tolist() == [[START, END] + [PAD] * (LENGTH - 2)] * 3


def test_it_can_be_cut_at_its_stages():
    made, x = net(), images()
    whole = made(x, given=GIVEN)
    assert torch.equal(made(x, stop="input"), x)
    f = made(x, stop="encoder")
    assert f.shape == (3, 8, 2, 2)
    assert torch.equal(made(f, start="encoder", given=GIVEN), whole)
    assert torch.equal(made(x, start="input", given=GIVEN), whole)
    assert torch.allclose(made(x), whole[:, :1], atol=1e-12)
    assert last_layer(made)[0] == "decoder.out"


def test_it_can_be_vectorised_over_models_and_differentiated_twice():
    nets = [net(0), net(1)]
    weights = {k: torch.stack([n.state_dict()[k] for n in nets]) for k in nets[0].state_dict()}
    x, asked = torch.stack([images(), 1 - images()]), torch.stack([GIVEN, GIVEN.flip(0)])

    def loss(w, x, given):
        return functional_call(nets[0], w, (x,), {"given": given}).square().mean()

    together = vmap(grad(loss))(weights, x, asked)
    for j in range(2):
        alone = grad(loss)({k: v[j] for k, v in weights.items()}, x[j], asked[j])
        assert all(torch.allclose(together[k][j], alone[k], atol=1e-12) for k in alone)
    said = vmap(lambda w, x: functional_call(nets[0], w, (x,), {"decode": True}))(weights, x)
    assert torch.equal(said[1], nets[1](x[1], decode=True))

    first = {k: v[0] for k, v in weights.items()}

    def matched(x):
        found = grad(loss)(first, x, GIVEN)
        return sum(v.square().sum() for v in found.values())

    slope, at, step = grad(matched)(images()), images(), 1e-6
    at[0, 1, 5, 5] += step
    moved = (matched(at) - matched(images())) / step
    assert float(slope[0, 1, 5, 5]) == pytest.approx(float(moved), rel=1e-3)


def test_the_decoder_has_a_rate_of_its_own():
    from helpers.federations import method

    made = net()
    made.rates = {"decoder": 4.0}
    leaves = {f"model/{k}": v for k, v in made.state_dict().items()}
    grads = [torch.ones_like(v) for v in leaves.values()]
    for how in ("sgd", "adam"):
        moved = Optimizer(method("fedavg", lr=0.5, optimizer=how), 1, made).step(leaves, grads)
        for k, v in leaves.items():
            rate = 2.0 if k.startswith("model/decoder.") else 0.5
            assert torch.allclose(v - moved[k], torch.full_like(v, rate), atol=1e-6)


def test_an_attacker_who_replays_a_step_knows_of_the_stages_rates():
    made = SimpleNamespace(rates={"decoder": 4.0})
    gradient = {"encoder.a": torch.ones(2), "decoder.b": torch.full((3,), 2.0)}
    victim = SimpleNamespace(
        adam=None, rate=0.1, module=made, gradient=lambda *_: gradient, trained=set(gradient)
    )
    victim._moves = lambda *_: gradient
    sent = Replay.update(victim, None, {})
    assert torch.allclose(sent["encoder.a"], torch.full((2,), -0.1))
    assert torch.allclose(sent["decoder.b"], torch.full((3,), -0.8))
    victim.message = SimpleNamespace(payload=sent)
    victim._update = lambda: Replay._update(victim)
    found = Replay.observed(victim)
    assert all(torch.allclose(found[k], g) for k, g in gradient.items())


@pytest.fixture(scope="module")
def resnet():
    from torchvision.models import resnet50

    return resnet50().eval()


def test_the_encoder_is_torchvisions_without_its_end(resnet, tmp_path):
    path = tmp_path / "resnet50.safetensors"
    save_file({k: v.contiguous() for k, v in resnet.state_dict().items()}, path)
    weights = encoder_weights("captioner_resnet50", path)
    x = torch.rand(1, 3, 64, 64, generator=torch.Generator().manual_seed(2))
    mean, spread = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    seen = []
    hook = resnet.layer4.register_forward_hook(lambda *a: seen.append(a[2]))
    with torch.no_grad():
        resnet((x - mean.view(3, 1, 1)) / spread.view(3, 1, 1))
    hook.remove()
    for frozen in (False, True):
        encoder = ResNet50(frozen=frozen).eval()
        own = {k.removeprefix("encoder."): v for k, v in weights.items()}
        lacking, foreign = encoder.load_state_dict(own, strict=False)
        assert not foreign
        assert all(k.endswith("num_batches_tracked") for k in lacking)
        with torch.no_grad():
            assert torch.allclose(encoder(x), seen[0], atol=1e-5)
        assert seen[0].shape == (1, 2048, 2, 2)
    made = captioner_resnet50((3, 128, 128), 9, 4, length=5)
    assert set(weights) <= set(made.state_dict())
    assert all(k.startswith(BODY) for k in weights)
    assert isinstance(made.get_submodule("decoder"), CaptionDecoder)


def test_the_smaller_encoder_is_torchvisions_alexnet(tmp_path):
    from torchvision.models import alexnet

    whole = alexnet().eval()
    path = tmp_path / "alexnet.safetensors"
    save_file({k: v.contiguous() for k, v in whole.state_dict().items()}, path)
    weights = encoder_weights("captioner_alexnet", path)
    encoder = AlexNet()
    encoder.load_state_dict({k.removeprefix(BODY): v for k, v in weights.items()})
    x = torch.rand(2, 3, 96, 96, generator=torch.Generator().manual_seed(4))
    mean, spread = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    standard = (x - mean.view(3, 1, 1)) / spread.view(3, 1, 1)
    with torch.no_grad():
        want = whole.features[:12](standard)
        assert torch.allclose(encoder(x), want, atol=1e-6)
    assert want.shape == (2, 256, 5, 5)
    made = captioner_alexnet((3, 96, 96), 9, 4, length=5).eval()
    assert set(weights) <= set(made.state_dict())
    assert made(x, given=torch.ones(2, 3).long()).shape == (2, 3, 9)
    save_file({"features.0.weight": torch.zeros(64, 3, 3, 3)}, path)
    with pytest.raises(UsageError, match="no AlexNet"):
        encoder_weights("captioner_alexnet", path)
    with pytest.raises(UsageError, match="no pretrained encoder"):
        encoder_weights("captioner", path)
    with pytest.raises(UsageError, match="at least 64"):
        captioner_alexnet((3, 32, 32), 9, 4, length=5)


def test_a_frozen_encoder_stays_as_it_is_in_training():
    encoder = ResNet50(frozen=True).train()
    before = {k: v.clone() for k, v in encoder.state_dict().items()}
    encoder(torch.rand(2, 3, 32, 32, generator=torch.Generator().manual_seed(3)))
    assert all(torch.equal(v, before[k]) for k, v in encoder.state_dict().items())


def test_foreign_weights_and_small_images_are_refused(tmp_path):
    save_file({"conv1.weight": torch.zeros(64, 3, 3, 3)}, tmp_path / "other.safetensors")
    with pytest.raises(UsageError, match="no ResNet-50"):
        encoder_weights("captioner_resnet50", tmp_path / "other.safetensors")
    (tmp_path / "resnet50.pth").write_bytes(b"PK")
    with pytest.raises(UsageError, match="pickled"):
        encoder_weights("captioner_resnet50", tmp_path / "resnet50.pth")
    with pytest.raises(UsageError, match="colour images"):
        captioner_resnet50((1, 64, 64), 9, 4, length=5)
