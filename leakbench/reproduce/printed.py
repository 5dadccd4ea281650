"""Every table and figure that the four papers print, and what makes each again here.

A result has recipes, a table of the setup stands in `leakbench show` of what carries its numbers,
and a drawing or an example has nothing that could be measured. ``TOLD`` is what they say in the
text alone. Between them these name every source of the published records.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

Kind = Literal["result", "setup", "drawing", "text"]
PAPERS = {"fedhide": "FedHide", "fedmetric": "FedMetric", "flea": "FLea", "fedaa": "FedAA"}


@dataclass(frozen=True)
class Carried:
    """Where the numbers of a setup's table stand here, for one of its data sets.

    ``places``: metric of the published records -> a field of the task ("clients"), a parameter of a
    method on it ("fedhide.fraction"), "rounds", or one of its data: "classes", "train" and "test"
    (examples, with the auxiliary ones), "per client", "height" and "width" of an input. Of a
    network's table: the layers of "network" (a model at ``width``), or of an attack's.
    """

    dataset: str  # as in published.json
    shown: str  # what `leakbench show` shows it: a task, a network or an attack
    places: Mapping[str, str]
    width: int = 0


@dataclass(frozen=True)
class Printed:
    """A table or figure of a paper, or a place in its text."""

    paper: str  # as in published.json
    where: str  # "Table 1"
    about: str
    recipes: tuple[str, ...] = ()
    aside: str = ""  # why there is nothing to run, or where it stands
    carried: tuple[Carried, ...] = ()
    # Of published records that are of no table: ``source`` of those that speak of this.
    sources: tuple[str, ...] = ()
    text: bool = False  # no table and no figure

    @property
    def name(self) -> str:
        """The paper and the place in it."""
        return f"{PAPERS[self.paper]}, {self.where}"

    @property
    def kind(self) -> Kind:
        """Is it a result, a setup, a drawing, or something said in the text and left out?"""
        if self.recipes:
            return "result"
        if self.text:
            return "text"
        return "setup" if self.carried else "drawing"

    @property
    def answer(self) -> str:
        """What makes it again, in words."""
        if self.recipes:
            return " and ".join(self.recipes)
        shown = dict.fromkeys(f"`leakbench show {c.shown}`" for c in self.carried)
        return "; ".join((*shown, *filter(None, [self.aside])))


@dataclass(frozen=True)
class _Paper:
    """What the entries of one paper have in common."""

    paper: str

    def result(self, where: str, about: str, *recipes: str, sources: Sequence[str] = ()) -> Printed:
        return Printed(self.paper, where, about, recipes, sources=self._full(sources))

    def drawing(self, where: str, about: str, why: str) -> Printed:
        return Printed(self.paper, where, about, aside=why)

    def setup(self, where: str, about: str, *carried: Carried, aside: str = "") -> Printed:
        return Printed(self.paper, where, about, aside=aside, carried=carried)

    def left_out(self, where: str, about: str, why: str, *sources: str) -> Printed:
        named = self._full(sources)
        return Printed(self.paper, where, about, aside=why, sources=named, text=True)

    def measured(self, where: str, about: str, *recipes: str) -> Printed:
        return Printed(self.paper, where, about, recipes, text=True)

    def _full(self, sources: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"{PAPERS[self.paper]} {s}" for s in sources)


_METHOD = "a drawing of the method: nothing is measured"
_SETTING = {
    "clients": "clients",
    "local_samples": "per client",
    "client_fraction": "fedhide.fraction",
    "rounds": "rounds",
    "validation_clients": "tested",
}
_LAYERS = dict.fromkeys(("out_channels", "kernel", "stride"), "network")
_SIZES = {"classes": "classes", "train_samples": "train", "test_samples": "test"}
_ONE_EACH = {
    "clients": "clients",
    "samples_per_class": "per client",
    "input_height": "height",
    "input_width": "width",
}

_H, _M, _L, _A = (_Paper(p) for p in PAPERS)
PRINTED: tuple[Printed, ...] = (
    _H.setup(
        "Table 1",
        "data sets, clients, fraction and rounds",
        Carried("cifar100", "cifar100", _SETTING),
        Carried("voxceleb1", "voxceleb1", _SETTING),
        Carried("vggface2", "vggface2", _SETTING),
    ),
    _H.result("Table 2", "images out of gradients", "fedhide-table2"),
    _H.result("Table 3", "cosine of true prototypes and proxies", "fedhide-table3"),
    _H.result(
        "Table 4",
        "utility and prototype leakage",
        *("fedhide-table4", "fedhide-20000", "fedhide-figure4"),
        sources=["Sec. 3.4 (by definition)"],
    ),
    _H.drawing("Figure 1", "the algorithm", _METHOD),
    _H.drawing("Figure 2", "three ways to make a proxy", _METHOD),
    _H.result("Figure 3", "accuracy over rounds, and against leakage", "fedhide-figure3"),
    _H.result("Figure 4", "EER against leakage", "fedhide-figure4"),
    _H.result(
        "supplement, Figure 1",
        "t-SNE of prototypes, FedGN",
        "fedhide-tsne",
        sources=["supplement Sec. 2"],
    ),
    _H.result(
        "supplement, Figure 2",
        "t-SNE of prototypes, FedCS",
        "fedhide-tsne",
        sources=["supplement Sec. 2"],
    ),
    _H.result("supplement, Figure 3", "t-SNE of prototypes, FedHide", "fedhide-tsne"),
    _M.setup(
        "Table 1",
        "classes, samples and size of an input",
        Carried("mnist", "mnist", _ONE_EACH),
        Carried("cifar10", "cifar10", _ONE_EACH),
    ),
    _M.result("Table 2", "one-class AUROC", "fedmetric-table2"),
    _M.drawing("Figure 1", "true and proxy hyperspheres", _METHOD),
    _M.result(
        "Figure 2",
        "AUROC over the weight of the negative loss",
        "fedmetric-figure2",
        sources=["Sec. 4.2, Figure 2"],
    ),
    _M.result(
        "Figure 3",
        "AUROC over the distance of the proxy",
        "fedmetric-figure3",
        sources=["Sec. 4.2, Figure 3"],
    ),
    _L.result(
        "Table 1",
        "accuracy of eleven methods",
        *("flea-table1", "flea-adam"),
        sources=["Sec. 4.2", "Appendix C.3"],
    ),
    _L.setup(
        "Table 2",
        "classes and examples of the data sets",
        Carried("cifar10", "cifar10", _SIZES),
        Carried("urbansound8k", "urbansound8k", _SIZES),
        Carried("uci_har", "uci-har", _SIZES),
        aside="UrbanSound8K is split by folds here, at random there",
    ),
    _L.setup("Table 3", "MobileNetV2", Carried("cifar10", "mobilenetv2", _LAYERS, width=32)),
    _L.setup("Table 4", "AudioNet", Carried("urbansound8k", "audionet", _LAYERS, width=8)),
    _L.setup(
        "Table 5", "the decoder of MobileNetV2's features", Carried("cifar10", "decoder", _LAYERS)
    ),
    _L.setup("Table 6", "HARNet", Carried("uci_har", "harnet", _LAYERS, width=64)),
    _L.drawing("Figure 1", "clients with few data of few classes", "a drawing of the problem"),
    _L.result(
        "Figure 2",
        "accuracy of five methods at three local sizes, IID",
        "flea-figure2",
        sources=["Sec. 2.3.1 and Figure 2 (IID)", "Appendix A (IID study)"],
    ),
    _L.result(
        "Figure 3",
        "t-SNE and Davies-Bouldin index of features",
        "flea-figure3",
        sources=["Sec. 2.3.2 and Figure 3"],
    ),
    _L.drawing("Figure 4", "three kinds of augmentation", "examples of one image, no numbers"),
    _L.drawing("Figure 5", "the algorithm", _METHOD),
    _L.result("Figure 6", "FLea and FedMix over rounds and shares", "flea-figure6"),
    _L.drawing("Figure 7", "classes of buffer, client and mixed batch", "one client as an example"),
    _L.drawing("Figure 8", "β of one batch", "32 draws of Beta(2, 2) as an example"),
    _L.result(
        "Figure 9",
        "exposure, correlation, decoder, context",
        "flea-figure9",
        sources=[
            *(f"Sec. 4.4 and Figure 9({panel})" for panel in "acd"),
            *("Figure 9(b) and Appendix D", "Sec. 4.4", "Appendix D"),
        ],
    ),
    _L.result(
        "Figure 10",
        "accuracy over the a of Beta(a, a)",
        "flea-figure10",
        sources=["Sec. 4.3.2 and Figure 10"],
    ),
    _L.result(
        "Figure 11",
        "accuracy and correlation over λ1 and λ2",
        "flea-figure11",
        sources=["Sec. 4.3.2 and Figure 11"],
    ),
    _L.drawing(
        "Figure 12",
        "who holds how many of which class",
        "the splits are drawn anew here; the report of a run maps its own",
    ),
    _L.result(
        "Figure 13",
        "examples of a client",
        "flea-figure13",
        sources=["Appendix C.1 and Figure 13(a)"],
    ),
    _A.result("Table 1", "accuracy on data islands", "fedaa-table1", sources=["Sec. 1"]),
    _A.result("Table 2", "accuracy on mobile terminals", "fedaa-table2"),
    _A.result("Table 3", "accuracy without a part of the method", "fedaa-table3"),
    _A.result("Table 4", "BLEU-4 of captions", "fedaa-table4"),
    _A.result("Table 5", "the method on top of FedProx", "fedaa-table5"),
    _A.drawing("Figure 1", "raw data against names at the server", "a drawing of the problem"),
    _A.drawing("Figure 2", "the algorithm", _METHOD),
    _A.drawing("Figure 3", "three modules", _METHOD),
    _A.result("Figure 4", "loss over rounds", "fedaa-figure4"),
    _A.result("Figure 5", "variance of the local models", "fedaa-figure5"),
    _A.result("Figure 6", "adversarial examples", "fedaa-figure6", "fedaa-figure6-captions"),
    _A.result("Figure 7", "BLEU-4 without a part of the method", "fedaa-figure7"),
    _A.result("Figure 8", "distance correlation of names, noise and images", "fedaa-figure8"),
    _A.result("Figure 9", "the same, on CIFAR-100", "fedaa-figure8"),
)
_STATED = "a setup: a row says under `differs` what it has otherwise"
# What the papers say in the text and print in no table or figure.
TOLD: tuple[Printed, ...] = (
    _H.left_out("Section 4.1", "data, network and training", _STATED, "Sec. 4.1"),
    _H.left_out(
        "Section 4.1, hours",
        "21, 24 and 80 hours a run",
        "the time of one RTX A5000; how long ours take stands in `leakbench reproduce --list`",
        "Sec. 4.1 (one RTX A5000, one configuration, approximate)",
    ),
    _H.left_out(
        "Theorems 1 and 2",
        "how much the loss falls in a round, at least",
        "the bounds hold for constants L1, L2, σ, G1 and G2 that the paper assumes and never"
        " measures: some that are large enough fit every run, so no run can contradict them",
    ),
    _M.left_out(
        "Section 3.2",
        "(R/(R+D))^d, the odds of hitting the true centre",
        "what a uniform guess would hit, computed and not measured (`sphere_ratio`); what the shown"
        " margin gives away is measured by attack `prototype_spheres`",
        "Sec. 3.2",
    ),
    _M.left_out("Section 4.1", "network and training", _STATED, "Sec. 4.1"),
    _L.left_out("Section 4.1.2", "training and weights", _STATED, "Sec. 4.1.2"),
    _L.left_out("Appendix C.1", "clients and local sizes", _STATED, "Appendix C.1"),
    _L.left_out(
        "Appendix C.2",
        "10 or 15 local epochs",
        "it contradicts the main text's 5 epochs, which are taken here",
        "Appendix C.2",
    ),
    _L.left_out(
        "Figure 9(b), training images",
        "0.01, the decoder's error on the images that it was trained on",
        "who has the very images needs no decoder; errors here are of the clients' images, and the"
        " training error stands beside the guess (`curve`)",
    ),
    _L.left_out(
        "Section 4.4, a client who reads the buffer",
        "what other clients' features tell it",
        "it sees the server's features without the senders' names, so decoder and context, which"
        " read as the server, find at least as much; how many see them is `exposure` in"
        " flea-figure9",
    ),
    _L.left_out(
        "Section 5",
        "communication and storage of shared features",
        "the paper prints no number; bytes of each kind stand in a run's `sent`, and seconds depend"
        " on the machine",
    ),
    _A.left_out("Section 4.1", "network and training", _STATED, "Sec. 4.1"),
    _A.left_out("Section 4.3", "training on captions", _STATED, "Sec. 4.3"),
    _A.left_out(
        "Equations 8, 9 and 20",
        "the distance correlation of names and images is bounded",
        "counter-examples refute it, so it is no bound; what names tell of images is measured by"
        " `fedaa-figure8`",
        "Eq. 9/20 (N = 2)",
    ),
)
EVERYTHING = (*PRINTED, *TOLD)
# Recipes, methods, tasks and networks that are not here yet: why.
COMING: dict[str, str] = {}


def printed_numbers(recipe: str) -> list[Printed]:
    """What the recipe makes again."""
    return [p for p in EVERYTHING if recipe in p.recipes]
