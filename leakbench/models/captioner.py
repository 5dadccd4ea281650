"""Networks that describe an image in words: an encoder and an LSTM that attends to its parts.

After Xu et al. 2015 ("Show, attend and tell"), soft attention. Called with an image alone they give
what follows the first token; with ``given`` tokens what follows each of these; with ``decode`` the
tokens that they say.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from leakbench.base.errors import UsageError
from leakbench.base.tokens import END, PAD, START, UNKNOWN
from leakbench.models.caption_encoders import AlexNet, ResNet50
from leakbench.models.stages import Stages

GAIN = 3**-0.5  # PyTorch's own start: here no ReLU follows


class Attention(nn.Module):
    """f_att of Xu et al., Section 4.2: which parts of the image the next word is about."""

    def __init__(self, channels: int, hidden: int) -> None:
        super().__init__()
        self.image, self.state = nn.Linear(channels, hidden), nn.Linear(hidden, hidden)
        self.score = nn.Linear(hidden, 1)

    def forward(self, parts: Tensor, seen: Tensor, h: Tensor) -> Tensor:
        """The attended part (B, D) of parts (B, L, D), with seen = image(parts) (B, L, hidden)."""
        score = self.score((seen + self.state(h)[:, None]).tanh())
        return (score.softmax(1) * parts).sum(1)


class CaptionDecoder(nn.Module):
    """LSTM with soft attention: features (B, D, H, W), given (B, T) -> logits (B, T, words).

    Xu et al., Eq. 1 to 3 and 7: the state begins as a function of the mean part; each step sees the
    embedding of the last word and the attended part, scaled by a gate of the state (Section 4.2.1);
    words are scored from embedding, state and part together. Not as there: no dropout, no doubly
    stochastic penalty, one layer for each start, embeddings of ``hidden`` numbers.
    """

    def __init__(self, channels: int, words: int, hidden: int, length: int) -> None:
        super().__init__()
        self.length = length
        self.word = nn.Embedding(words, hidden)
        self.attend = Attention(channels, hidden)
        self.start_h, self.start_c = nn.Linear(channels, hidden), nn.Linear(channels, hidden)
        self.gate = nn.Linear(hidden, channels)
        # By hand, not nn.LSTM: vmap and a second derivative pass through it.
        self.step_x, self.step_h = (nn.Linear(n, 4 * hidden) for n in (hidden + channels, hidden))
        self.from_h, self.from_z = nn.Linear(hidden, hidden), nn.Linear(channels, hidden)
        self.out = nn.Linear(hidden, words)
        for layer in self.modules():
            if isinstance(layer, nn.Linear | nn.Embedding):
                layer.gain = GAIN  # type: ignore[assignment]

    def forward(self, x: Tensor, given: Tensor) -> Tensor:
        """The logits of what follows each of ``given``."""
        parts, seen, h, c = self._begin(x)
        words, states, attended = self.word(given), [], []
        for t in range(given.shape[1]):
            h, c, z = self._step(words[:, t], parts, seen, h, c)
            states.append(h)
            attended.append(z)
        return self._said(words, torch.stack(states, 1), torch.stack(attended, 1))

    def decode(self, x: Tensor) -> Tensor:
        """(B, length) int64: the start, the likeliest word after word, the end, then padding.

        Padding, the start and the unknown word are never said; what is not done by then is ended.
        """
        parts, seen, h, c = self._begin(x)
        silent = torch.zeros(self.out.out_features, dtype=torch.bool, device=x.device)
        silent[[PAD, START, UNKNOWN]] = True
        last = torch.full_like(h[:, 0], START, dtype=torch.int64)
        done, said = torch.zeros_like(last, dtype=torch.bool), [last]
        for _ in range(self.length - 2):
            word = self.word(last)
            h, c, z = self._step(word, parts, seen, h, c)
            best = self._said(word, h, z).masked_fill(silent, -torch.inf).argmax(-1)
            last = torch.where(done, PAD, best)
            said.append(last)
            done = done | (last == END)
        said.append(torch.where(done, PAD, END).to(last.dtype))
        return torch.stack(said, 1)

    def _begin(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        parts = x.flatten(2).transpose(1, 2)
        mean = parts.mean(1)
        return parts, self.attend.image(parts), self.start_h(mean).tanh(), self.start_c(mean).tanh()

    def _step(
        self, word: Tensor, parts: Tensor, seen: Tensor, h: Tensor, c: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The next state h, c (B, hidden), and the part z (B, D) that it saw."""
        z = self.gate(h).sigmoid() * self.attend(parts, seen, h)
        i, f, o, g = (self.step_x(torch.cat([word, z], 1)) + self.step_h(h)).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c, z

    def _said(self, word: Tensor, h: Tensor, z: Tensor) -> Tensor:
        return self.out(word + self.from_h(h) + self.from_z(z))


class Captioner(Stages):
    """Stages encoder (F) and decoder (T): x (B, C, H, W) -> logits (B, T, words) or tokens."""

    def __init__(self, encoder: nn.Module, decoder: CaptionDecoder, *, gain: float) -> None:
        super().__init__({"encoder": encoder, "decoder": decoder}, gain=gain)

    def forward(
        self,
        x: Tensor,
        start: str | None = None,
        stop: str | None = None,
        side: str | None = None,
        given: Tensor | None = None,
        decode: bool = False,
    ) -> Tensor:
        """What follows each of ``given`` (B, T), (B, T, words); without it, what follows the start.

        Or the features (B, D, h, w) after ``stop``, or with ``decode`` the tokens said (B, length);
        with ``side`` what the head of that name makes of x.
        """
        if side is not None or stop not in (None, "decoder"):
            return super().forward(x, start, stop, side)
        f = x if start == "encoder" else super().forward(x, start, "encoder")
        decoder = self.get_submodule("decoder")
        assert isinstance(decoder, CaptionDecoder)  # noqa: S101 - for the type checker
        if decode:
            return decoder.decode(f)
        if given is None:
            given = torch.full((len(x), 1), START, dtype=torch.int64, device=x.device)
        return decoder(f, given)


def captioner(shape: tuple[int, ...], out: int, width: int, *, length: int) -> Captioner:
    """A small one, for a few hundred images: an LSTM of ``width`` units.

    Four 5x5 convolutions with stride 2 and ReLU, of width / 4, width / 2, width and width channels:
    of 64x64 pixels 4x4 parts.
    """
    channels, layers = shape[0], []
    for outputs in (max(width // 4, 1), max(width // 2, 1), width, width):
        layers += [nn.Conv2d(channels, outputs, 5, stride=2, padding=2), nn.ReLU()]
        channels = outputs
    return Captioner(nn.Sequential(*layers), CaptionDecoder(width, out, width, length), gain=2**0.5)


def captioner_resnet50(
    shape: tuple[int, ...], out: int, width: int, *, length: int, frozen: bool = False
) -> Captioner:
    """FedAA's captioner (Section 4.3): ResNet-50 and an LSTM of ``width`` units (ours: 512)."""
    if shape[0] != 3 or min(shape[1:]) < 32:
        raise UsageError(
            "task.model = 'captioner_resnet50' needs colour images of at least 32 pixels, these"
            f" have shape {shape}; take another model."
        )
    decoder = CaptionDecoder(2048, out, width, length)
    return Captioner(ResNet50(frozen=frozen), decoder, gain=2**0.5)


def captioner_alexnet(
    shape: tuple[int, ...], out: int, width: int, *, length: int, frozen: bool = False
) -> Captioner:
    """A pretrained one for few images: AlexNet, one trained 1x1 convolution, an LSTM of ``width``.

    The convolution, to ``width`` channels, has a BatchNorm and a ReLU behind it, so that there is a
    norm as there is in a ResNet, and something of F to train where AlexNet stays as it is.
    """
    if shape[0] != 3 or min(shape[1:]) < 64:
        raise UsageError(
            "task.model = 'captioner_alexnet' needs colour images of at least 64 pixels, these have"
            f" shape {shape}; take another model."
        )
    neck = nn.Sequential(nn.Conv2d(256, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU())
    encoder = nn.Sequential()
    encoder.add_module("body", AlexNet())
    encoder.add_module("neck", neck)
    return Captioner(encoder, CaptionDecoder(width, out, width, length), gain=2**0.5)


CAPTIONERS: dict[str, Callable[..., Captioner]] = {
    "captioner": captioner,
    "captioner_alexnet": captioner_alexnet,
    "captioner_resnet50": captioner_resnet50,
}
