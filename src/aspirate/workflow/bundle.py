"""A trained model on disk: two nets, all numbers that turn scores into words, and the means to check itself.

model.json                    recipe, cuts, calibration, thresholds, resolution, figures, reference scores
informativeness.safetensors   r_φ
malignancy.safetensors        g_θ
reference.npy                 a few tiles, whose scores the nets must reproduce before they are used
README.md                     the model card
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from aspirate import __version__
from aspirate.core.errors import AspirateError
from aspirate.core.store import atomic_path, write_json, write_text
from aspirate.engines.torch_engine import TorchEngine
from aspirate.learning.checkpoints import load_tensors, save_tensors, tensors_sha256
from aspirate.nn.tile_net import TileNet
from aspirate.stages.calibration import Calibration
from aspirate.workflow.recipe import Recipe

MODEL_FILE = "model.json"
REFERENCE_FILE = "reference.npy"
CARD_FILE = "README.md"
TOLERANCE = 1e-2
"""Largest difference of a reference score, in logits: devices and libraries round differently."""
NETS = ("informativeness", "malignancy")


@dataclass(frozen=True, slots=True)
class Bundle:
    recipe: Recipe
    informativeness: TileNet
    malignancy: TileNet
    confident: float
    """Probability from which a tile counts as informative."""
    cuts: dict[str, list[float]]
    threshold: float
    """Slide score from which a slide is called malignant."""
    calibration: Calibration
    mpp_range: tuple[float, float]
    """Resolutions of the slides it was trained on."""
    figures: dict[str, float]
    """Measured on validation slides."""
    slides: dict[str, int]
    """How many were trained and validated on."""

    @property
    def nets(self) -> dict[str, TileNet]:
        return {"informativeness": self.informativeness, "malignancy": self.malignancy}

    def sha256(self) -> str:
        """Of both nets together; written into every file of tiles."""
        states = {f"{name}.{key}": t for name, net in self.nets.items() for key, t in net.state_dict().items()}
        return tensors_sha256(states)


def save_bundle(folder: Path, bundle: Bundle, reference: NDArray[np.uint8]) -> None:
    for name, net in bundle.nets.items():
        save_tensors(folder / f"{name}.safetensors", net.state_dict(), {"net": name})
    with atomic_path(folder / REFERENCE_FILE) as part, part.open("wb") as file:
        np.save(file, reference)
    note: dict[str, Any] = {
        "aspirate_version": __version__,
        "recipe": bundle.recipe.model_dump(mode="json"),
        "confident": bundle.confident,
        "cuts": bundle.cuts,
        "threshold": bundle.threshold,
        "calibration": asdict(bundle.calibration),
        "mpp_range": list(bundle.mpp_range),
        "figures": bundle.figures,
        "slides": bundle.slides,
        "sha256": {name: tensors_sha256(net.state_dict()) for name, net in bundle.nets.items()},
        "outputs": bundle.malignancy.last.out_features,
        "reference": {name: TorchEngine(net).score(reference).tolist() for name, net in bundle.nets.items()},
    }
    write_text(folder / CARD_FILE, model_card(bundle))
    write_json(folder / MODEL_FILE, note)  # last: a folder without it is no model


def load_bundle(folder: str | Path) -> Bundle:
    """A model that reproduces its own reference scores, or an error that says what differs."""
    folder = Path(folder)
    try:
        note = json.loads((folder / MODEL_FILE).read_text(encoding="utf-8"))
        recipe = Recipe.of(note["recipe"], source=str(folder / MODEL_FILE))
        tiles, expected = _reference(folder, recipe, note)
        nets = {name: _net(folder, name, recipe, note) for name in NETS}
        bundle = Bundle(
            recipe=recipe,
            informativeness=nets["informativeness"],
            malignancy=nets["malignancy"],
            confident=note["confident"],
            cuts=note["cuts"],
            threshold=note["threshold"],
            calibration=Calibration(**note["calibration"]),
            mpp_range=tuple(note["mpp_range"]),
            figures=note["figures"],
            slides=note["slides"],
        )
    except (OSError, ValueError, KeyError, TypeError, EOFError) as error:
        raise AspirateError(
            f"{folder}: not a model bundle, or a damaged one ({error}); train or copy it again"
        ) from error
    for name, net in nets.items():
        if not (difference := np.abs(TorchEngine(net).score(tiles) - expected[name]).max()) <= TOLERANCE:
            raise AspirateError(
                f"{folder}: {name} does not reproduce its reference scores (largest difference {difference:.3g}, "
                f"allowed {TOLERANCE:g}); the weights or the libraries are not those it was made with"
            )
    return bundle


def _reference(folder: Path, recipe: Recipe, note: dict[str, Any]) -> tuple[NDArray[np.uint8], dict[str, Any]]:
    """Tiles, and the score that each net gave each of them."""
    tiles = np.load(folder / REFERENCE_FILE, allow_pickle=False)
    expected = {name: np.array(note["reference"][name], np.float64) for name in NETS}
    sides = (recipe.side_px, recipe.side_px, 3)
    if (
        tiles.dtype != np.uint8
        or tiles.shape[1:] != sides
        or any(e.shape != tiles.shape[:1] for e in expected.values())
    ):
        raise ValueError(f"{REFERENCE_FILE} does not hold the tiles whose scores model.json lists as reference")
    return tiles, expected


def _net(folder: Path, name: str, recipe: Recipe, note: dict[str, Any]) -> TileNet:
    settings = getattr(recipe, name)
    net = TileNet(settings.encoder, recipe.side_px, note["outputs"] if name == "malignancy" else 1)
    tensors, _ = load_tensors(folder / f"{name}.safetensors")
    expected = {key: tuple(tensor.shape) for key, tensor in net.state_dict().items()}
    if {key: tuple(tensor.shape) for key, tensor in tensors.items()} != expected:
        raise ValueError(f"the tensors of {name} are not those of a {settings.encoder}")
    net.load_state_dict(tensors)
    if tensors_sha256(net.state_dict()) != note["sha256"][name]:
        raise ValueError(f"the weights of {name} are not those that model.json describes")
    return net.eval()


def model_card(bundle: Bundle) -> str:
    recipe, figures = bundle.recipe, bundle.figures
    rows = "\n".join(f"| {name} | {value:.4g} |" for name, value in figures.items())
    low, high = bundle.mpp_range
    return f"""# Model card

**Research use only. Not for diagnosis.**

Two nets of Aspirate {__version__}: one finds tiles with follicular cells, one scores how malignant they look.

* Trained on {bundle.slides["train"]} slides, validated on {bundle.slides["validation"]}.
* Labels: {recipe.malignancy.labels}.
* Tiles: {recipe.side_px} px at {recipe.mpp:g} µm/px; slides had {low:.4g} to {high:.4g} µm/px.
* Nets: {recipe.informativeness.encoder}, {recipe.malignancy.encoder}.
* A tile counts as informative from probability {bundle.confident:.3f}; {recipe.selection.mode} selection, at most
  {recipe.selection.tiles} tiles of a slide.
* Probability of malignancy: logistic curve over the slide score, fitted on
  {bundle.calibration.slides} validation slides.

| figure (validation slides) | value |
|---|---|
{rows}

The figures are of slides that chose the best epoch, so they flatter the model; measure it on slides of your own.
"""
