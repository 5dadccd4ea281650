"""LPIPS (Zhang et al. 2018) with the AlexNet trunk.

The weights are already on this machine: nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from leakbench.base.errors import BrokenFile, UsageError
from leakbench.base.lazy import torch
from leakbench.scoring.image_distances import as_images, pair

if TYPE_CHECKING:
    from torch import Tensor, nn

FILE = "alexnet_features.safetensors"
CHANNELS = (1, 3)
SMALLEST = 32  # pixels: the trunk shrinks its input 32-fold
_LAYERS = (0, 3, 6, 8, 10)


class WeightsNotFound(UsageError):
    """The trunk of LPIPS is not on this machine; says how to put it there."""


@dataclass(frozen=True)
class Perceptual:
    """LPIPS, ready to use."""

    # Of the ten tensors of weights (name, then little-endian float32 bytes, in order of layers), so
    # the same weights have the same digest however their file is laid out.
    sha256: str
    net: nn.Module

    def __call__(
        self, guess: Tensor, truth: Tensor, *, shape: Sequence[int] | None = None
    ) -> Tensor:
        """LPIPS of each pair, (B,) float64, 0 for equal images; lower is nearer.

        Args:
            guess: (B, C, H, W) or (B, H, W) on [0, 1], clipped, C 1 or 3, sides of 32 pixels and
                more; brought to the [-1, 1] that the net expects; grey becomes three equal
                channels.
            truth: the same.
            shape: (H, W) or (C, H, W) of flat images.

        Raises:
            ValueError: shapes differ or do not suit, or something is not finite.
        """
        guess, truth = (as_images(t, shape) for t in pair(guess, truth, clip=True))
        if min(guess.shape[-2:]) < SMALLEST or guess.shape[1] not in CHANNELS:
            raise ValueError(
                "LPIPS needs 1 or 3 channels of at least 32 x 32 pixels, got"
                f" {tuple(guess.shape[1:])}. Use SSIM or PSNR."
            )
        at = next(self.net.parameters())
        size = (len(guess), 3, *guess.shape[-2:])
        out = []
        with torch.no_grad():
            for k in range(0, len(guess), 64):  # so that a gallery fits in memory
                some = (2 * t.expand(size)[k : k + 64] - 1 for t in (guess, truth))
                out.append(self.net(*(t.to(at) for t in some)).reshape(-1))
            return torch.cat(out).to(guess)


def find_weights() -> Path:
    """Where the trunk's weights are.

    Looked for in $LEAKBENCH_DATA, or else in `leakbench/data` and `leakbench` in the user's cache
    folder, there or in `lpips/` below.

    Raises:
        WeightsNotFound: nowhere.
    """
    folders = _folders()
    for folder in folders:
        for path in (folder / FILE, folder / "lpips" / FILE):
            if path.is_file():
                return path
    # Torchvision's own file is a pickle, which is not opened here; torchvision itself can turn it
    # into a safe one.
    cached = sorted((Path(torch.hub.get_dir()) / "checkpoints").glob("alexnet-*.pth"))
    there = "fetch it once"
    if cached:
        there = f"only torchvision's {cached[0]} is there, a pickle, which is not read; convert it"
    raise WeightsNotFound(
        f"LPIPS needs AlexNet's features in {folders[0] / FILE}: {there} with"
        f" {_recipe(folders[0] / FILE)}"
    )


def load_network(path: Path | None = None, device: torch.device | str = "cpu") -> Perceptual:
    """LPIPS with the weights at ``path`` (default: those found).

    Raises:
        WeightsNotFound: there are none.
        BrokenFile: the file is not AlexNet's features.
    """
    return _load(path or find_weights(), str(device))


@lru_cache(maxsize=2)
def _load(path: Path, device: str) -> Perceptual:
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        weights = load_file(path)
    except (OSError, SafetensorError) as error:
        raise BrokenFile(f"{path} is damaged ({error}). Make it again.") from None
    wanted = [f"features.{i}.{kind}" for i in _LAYERS for kind in ("weight", "bias")]
    lacking = [name for name in wanted if name not in weights]
    if lacking:
        raise BrokenFile(
            f"{path} has no {lacking[0]}, so it is not AlexNet's features. Make it again:"
            f" {_recipe(path)}"
        )
    net = _net({name: weights[name].float() for name in wanted}, path)
    sha = hashlib.sha256()
    for name in wanted:
        sha.update(name.encode())
        sha.update(weights[name].float().contiguous().numpy().astype("<f4").tobytes())
    return Perceptual(sha.hexdigest(), net.to(device).eval().requires_grad_(False))


def _net(weights: dict[str, Tensor], path: Path) -> Any:
    """The lpips package's net with its own calibration and our trunk."""
    # The net draws random weights from the global generator before ours replace them: fork, or it
    # would move everybody's dice.
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")  # lpips calls torchvision by an old argument
        import lpips

        net = lpips.LPIPS(net="alex", pnet_rand=True, verbose=False)
    # lpips keeps torchvision's layer numbers and spreads them over slice1 .. slice5; strict: each
    # of the ten is used.
    place = {name.split(".", 1)[1]: name for name in net.net.state_dict()}
    try:
        net.net.load_state_dict(
            {place[name.removeprefix("features.")]: tensor for name, tensor in weights.items()},
            strict=True,
        )
    except RuntimeError:
        raise BrokenFile(
            f"{path} has tensors of other sizes than AlexNet's features. Make it again:"
            f" {_recipe(path)}"
        ) from None
    return net


def _folders() -> list[Path]:
    chosen = os.environ.get("LEAKBENCH_DATA")
    if chosen:
        return [Path(chosen)]
    from platformdirs import user_cache_dir

    cache = Path(user_cache_dir("leakbench"))
    return [cache / "data", cache]


def _recipe(path: Path) -> str:
    """A command that writes the weights from torchvision's."""
    code = (
        "from pathlib import Path; from torchvision.models import alexnet; from safetensors.torch"
        f" import save_file; path = Path({str(path)!r}); path.parent.mkdir(parents=True,"
        " exist_ok=True); weights = alexnet(weights='IMAGENET1K_V1').state_dict(); save_file({k:"
        " v for k, v in weights.items() if k.startswith('features.')}, path)"
    )
    return f'python -c "{code}"'
