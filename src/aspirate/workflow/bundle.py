"""A trained model on disk: two nets, all numbers that turn scores into words, and the means to check itself.

model.json                    recipe, cuts, calibration, thresholds, resolution, figures, reference scores
informativeness.safetensors   r_φ
malignancy.safetensors        g_θ
scout.safetensors             the scout, where validation slides showed that it can be trusted
reference.npy                 a few tiles, whose scores the nets must reproduce before they are used
README.md                     the model card
"""

import hashlib
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tokenize import TokenError
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from aspirate import __version__
from aspirate.core.errors import AspirateError
from aspirate.core.labels import TRAINABLE_BETHESDA
from aspirate.core.store import atomic_path, write_json, write_text
from aspirate.nn.tile_pooling import AS_IT_IS, Pooling
from aspirate.stages.calibration import Calibration
from aspirate.workflow.admission import Admission
from aspirate.workflow.opinion import Reading
from aspirate.workflow.recipe import Recipe
from aspirate.workflow.stored_net import StoredNet
from aspirate.workflow.trust import Trust

if TYPE_CHECKING:
    from aspirate.nn.tile_net import TileNet

MODEL_FILE = "model.json"
REFERENCE_FILE = "reference.npy"
CARD_FILE = "README.md"
TOLERANCE = 1e-2
"""Largest difference of a reference score, in logits: devices and libraries round differently."""
NETS, SCOUT = ("informativeness", "malignancy"), "scout"
DAMAGE = (OSError, ValueError, KeyError, TypeError, AttributeError, EOFError, MemoryError, RecursionError, TokenError)
"""What files of a bundle that were damaged, or made to harm, can end in while they are read."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A few tiles and what the nets say of them: the means of a bundle to check itself."""

    tiles: NDArray[np.uint8] = field(default_factory=lambda: np.empty((0, 1, 1, 3), np.uint8))
    scores: dict[str, NDArray[np.float64]] = field(default_factory=lambda: dict.fromkeys(NETS, np.empty(0)))
    """In fp32, by net."""
    admissions: tuple[Admission, ...] = ()
    """Which other precisions come near enough; none in bundles of earlier versions."""


@dataclass(frozen=True, slots=True)
class Bundle:
    recipe: Recipe
    informativeness: "TileNet | StoredNet"
    malignancy: "TileNet | StoredNet"
    confident: float
    """Probability from which a tile counts as informative."""
    cuts: dict[str, list[float]]
    """As learned: of Y and S on the axis of `link`, of V on that of tile scores."""
    threshold: float
    """Slide score from which a slide is called malignant."""
    calibration: Calibration
    mpp_range: tuple[float, float]
    """Resolutions of the slides it was trained on."""
    figures: dict[str, float]
    """Measured on validation slides."""
    slides: dict[str, int]
    """How many were trained and validated on."""
    slide_cuts: tuple[float, ...] = ()
    """Of S on the axis of slide scores, by which a slide has its category; without them `cuts` give it."""
    pooling: Pooling = AS_IT_IS
    """How tile scores are read for the slide's score, …"""
    link: Pooling = AS_IT_IS
    """… and for its category; as they are, unless the mixture method learned them."""
    scout: "TileNet | StoredNet | None" = None
    """None where none was trained, or none can be trusted: then every tile is looked at closely."""
    trust: Trust | None = None
    """How far the scout can be trusted, where one was trained."""
    reference: Reference = Reference()
    """Empty before the bundle is saved."""
    stored_sha256: dict[str, str] = field(default_factory=dict)
    """Of each net's weights as they lie on disk, so that they need not be read for it."""

    @property
    def kept(self) -> "dict[str, TileNet | StoredNet]":
        """Every net there is, in memory or on disk."""
        both = {"informativeness": self.informativeness, "malignancy": self.malignancy}
        return both if self.scout is None else both | {SCOUT: self.scout}

    @property
    def weights(self) -> "dict[str, TileNet]":
        """The same, read where they are on disk."""
        return {name: _read(net) for name, net in self.kept.items()}

    @property
    def nets(self) -> "dict[str, TileNet]":
        """The two of the method."""
        return {name: _read(self.kept[name]) for name in NETS}

    @property
    def reading(self) -> Reading:
        """With two heads the cuts lie on the axis of the second, which nobody scores with."""
        cuts = () if self.recipe.malignancy.two_heads else self.cuts.get("S", ())
        return Reading(self.pooling, self.link, tuple(cuts), self.slide_cuts)

    @property
    def cuts_of_score(self) -> tuple[float, ...]:
        """Of S, where they lie on the axis of the slide's score; else none."""
        return self.slide_cuts or (self.reading.cuts if self.pooling == self.link else ())

    @property
    def fingerprints(self) -> dict[str, str]:
        """Of the weights of each net."""
        if self.stored_sha256:
            return self.stored_sha256
        from aspirate.nn.fingerprint import tensors_sha256

        return {name: tensors_sha256(net.state_dict()) for name, net in self.weights.items()}

    def sha256(self) -> str:
        """Of both nets together; written into every file of tiles."""
        both = "".join(f"{name} {self.fingerprints[name]}\n" for name in NETS)
        return hashlib.sha256(both.encode()).hexdigest()


def _read(net: "TileNet | StoredNet") -> "TileNet":
    return net.read() if isinstance(net, StoredNet) else net


def save_bundle(folder: Path, bundle: Bundle, reference: NDArray[np.uint8]) -> None:
    from aspirate.engines.torch_engine import TorchEngine  # here, since whoever only predicts needs no torch
    from aspirate.learning.checkpoints import save_tensors
    from aspirate.nn.fingerprint import tensors_sha256
    from aspirate.workflow.examine import examine

    nets, weights = bundle.nets, bundle.weights
    for name, net in weights.items():
        save_tensors(folder / f"{name}.safetensors", net.state_dict(), {"net": name})
    with atomic_path(folder / REFERENCE_FILE) as part, part.open("wb") as file:
        np.save(file, reference)
    if bundle.scout is None:
        (folder / f"{SCOUT}.safetensors").unlink(missing_ok=True)  # of a training before
    scores = {name: TorchEngine(net).score(reference) for name, net in nets.items()}
    admissions = examine(nets, reference, scores, bundle.calibration, bundle.reading)
    note: dict[str, Any] = {
        "aspirate_version": __version__,
        "recipe": bundle.recipe.model_dump(mode="json"),
        "confident": bundle.confident,
        "cuts": bundle.cuts,
        "slide_cuts": bundle.slide_cuts,
        "reading": {"pooling": asdict(bundle.pooling), "link": asdict(bundle.link)},
        "threshold": bundle.threshold,
        "calibration": asdict(bundle.calibration),
        "mpp_range": list(bundle.mpp_range),
        "figures": bundle.figures,
        "slides": bundle.slides,
        "sha256": {name: tensors_sha256(net.state_dict()) for name, net in weights.items()},
        "precisions": [asdict(admission) for admission in admissions],
        "cascade": None if bundle.trust is None else asdict(bundle.trust),
        "outputs": nets["malignancy"].last.out_features,
        "reference": {name: of_net.tolist() for name, of_net in scores.items()},
    }
    write_text(folder / CARD_FILE, model_card(bundle, admissions))
    write_json(folder / MODEL_FILE, note)  # last: a folder without it is no model


def load_bundle(folder: str | Path) -> Bundle:
    """A whole bundle with the weights it was made with, or an error; whoever scores with it checks the scores."""
    folder = Path(folder)
    try:
        note = json.loads((folder / MODEL_FILE).read_text(encoding="utf-8"))
        recipe = Recipe.of(note["recipe"], source=str(folder / MODEL_FILE))
        readings = {name: _pooling(said) for name, said in note.get("reading", {}).items()}
        reference = _reference(folder, recipe, note)
        nets = _nets(folder, recipe, note, reference.admissions)
        return Bundle(
            recipe=recipe,
            informativeness=nets["informativeness"],
            malignancy=nets["malignancy"],
            scout=nets.get(SCOUT),
            confident=note["confident"],
            cuts=note["cuts"],
            slide_cuts=_rising(note.get("slide_cuts", ())),
            **readings,
            threshold=note["threshold"],
            calibration=Calibration(**note["calibration"]),
            mpp_range=tuple(note["mpp_range"]),
            figures=note["figures"],
            slides=note["slides"],
            trust=Trust(**note["cascade"]) if note.get("cascade") else None,
            reference=reference,
            stored_sha256=dict(note["sha256"]),
        )
    except DAMAGE as error:
        raise AspirateError(
            f"{folder}: not a model bundle, or a damaged one ({error}); train or copy it again"
        ) from error


def _rising(cuts: Sequence[float]) -> tuple[float, ...]:
    """Bundles of earlier versions have none."""
    read = tuple(map(float, cuts))
    if len(read) not in (0, len(TRAINABLE_BETHESDA) - 1) or not np.isfinite(read).all() or list(read) != sorted(read):
        raise ValueError(f"slide_cuts: {list(cuts)} do not divide the categories")
    return read


def _pooling(note: dict[str, float]) -> Pooling:
    read = Pooling(**{name: float(number) for name, number in note.items()})
    if not 0 < read.share <= 1 or not np.isfinite([read.slope, read.offset]).all():
        raise ValueError(f"reading: {note} is no way to read scores of tiles")
    return read


def _reference(folder: Path, recipe: Recipe, note: dict[str, Any]) -> Reference:
    tiles = np.load(folder / REFERENCE_FILE, allow_pickle=False)
    expected = {name: np.array(note["reference"][name], np.float64) for name in NETS}
    sides = (recipe.side_px, recipe.side_px, 3)
    if (
        tiles.dtype != np.uint8
        or tiles.shape[1:] != sides
        or any(e.shape != tiles.shape[:1] for e in expected.values())
    ):
        raise ValueError(f"{REFERENCE_FILE} does not hold the tiles whose scores model.json lists as reference")
    return Reference(tiles, expected, tuple(Admission.read(each) for each in note.get("precisions", ())))


def _nets(
    folder: Path, recipe: Recipe, note: dict[str, Any], admissions: tuple[Admission, ...]
) -> dict[str, StoredNet]:
    """All there are, with the weights that model.json describes; bundles made before there were scouts have none."""
    outputs = {"malignancy": int(note["outputs"])}
    nets = [
        StoredNet(folder, name, getattr(recipe, name).encoder, recipe.side_px, outputs.get(name, 1)) for name in NETS
    ]
    if (note.get("cascade") or {}).get("admitted"):
        nets.append(StoredNet(folder, SCOUT, SCOUT, recipe.side_px // recipe.scout.shrink))

    def check(net: StoredNet) -> None:
        net.refuse_others(note["sha256"][net.name], admissions if net.name in NETS else ())

    with ThreadPoolExecutor(len(nets)) as readers:  # a checksum of every weight takes long
        list(readers.map(check, nets))
    return {net.name: net for net in nets}


def _link_in_words(bundle: Bundle) -> str:
    if bundle.recipe.malignancy.link == "plain":
        return ""
    return ", seen through the mixture link; the slide's score is a pooling refitted on validation slides"


def _weights_in_words(recipe: Recipe) -> str:
    return "all alike" if recipe.selection.weights == "binary" else "each by how surely it is informative"


def _category_in_words(bundle: Bundle) -> str:
    if bundle.slide_cuts:
        return "by cuts fitted to the scores of validation slides"
    return "by cuts learned for tiles" if bundle.reading.cuts else "none is given"


def model_card(bundle: Bundle, admissions: tuple[Admission, ...]) -> str:
    recipe, figures = bundle.recipe, bundle.figures
    rows = "\n".join(f"| {name} | {value:.4g} |" for name, value in figures.items())
    low, high = bundle.mpp_range
    precisions = "\n".join(f"* {admission.precision}: {admission.why}." for admission in admissions)
    return f"""# Model card

**Research use only. Not for diagnosis.**

Two nets of Aspirate {__version__}: one finds tiles with follicular cells, one scores how malignant they look.

* Trained on {bundle.slides["train"]} slides, validated on {bundle.slides["validation"]}.
* Labels: {recipe.malignancy.labels}{_link_in_words(bundle)}.
* Tiles: {recipe.side_px} px at {recipe.mpp:g} µm/px; slides had {low:.4g} to {high:.4g} µm/px.
* Nets: {recipe.informativeness.encoder}, {recipe.malignancy.encoder}.
* A tile counts as informative from probability {bundle.confident:.3f}; {recipe.selection.mode} selection, at most
  {recipe.selection.tiles} tiles of a slide, {_weights_in_words(recipe)}.
* Probability of malignancy: logistic curve over the slide score, fitted on
  {bundle.calibration.slides} validation slides.
* Category: {_category_in_words(bundle)}.
* {"Every tile is looked at closely." if bundle.trust is None else bundle.trust.sentence}

| figure (validation slides) | value |
|---|---|
{rows}

Other precisions than fp32, on the reference tiles of this bundle; one that is not admitted is used only if asked for:

{precisions}

The figures are of slides that chose the best epoch, so they flatter the model; measure it on slides of your own.
"""
