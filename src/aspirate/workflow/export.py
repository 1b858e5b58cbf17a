"""A model's nets for other programs; nothing is left of an export that does not give the reference scores.

<net>/model.onnx                            ONNX
<net>/torchscript_model.pt, config.json     TorchScript in the layout of WSInfer, which QuPath reads too
<net>/model.xml, model.bin                  OpenVINO
README.md                                   what goes in, what comes out, and what to make of it
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aspirate.core.errors import AspirateError, ConfigError
from aspirate.core.store import write_json, write_text
from aspirate.engines.formats import FORMATS
from aspirate.workflow.bundle import NETS, Bundle, load_bundle

TOLERANCE = 1e-3
"""Largest difference of a reference score, in logits: the arithmetic is the same, only rounded in another order."""
CLASSES = {"informativeness": ["other", "informative"], "malignancy": ["benign", "malignant"]}


class ExportDiffers(AspirateError):
    """What was exported does not compute what the model computes."""


@dataclass(frozen=True, slots=True)
class Exported:
    folder: Path
    differences: dict[str, float]
    """The largest on the reference tiles, in logits, by net."""
    tiles: int
    """How many were compared."""


def export(model: Path, to: str, folder: Path) -> Exported:
    """Both nets; they are scored by the program they are for before the folder takes its name."""
    if to not in FORMATS:
        raise ConfigError(f"--to {to}: choose one of {', '.join(FORMATS)}")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder}: exists and is not empty; choose another folder")
    bundle = load_bundle(model)
    part = folder.with_name(f".{folder.name}.{os.getpid()}.part")
    try:
        differences = {net: _exported(bundle, net, to, part / net) for net in NETS}
        write_text(part / "README.md", readme(bundle, to, differences))
        if folder.exists():
            folder.rmdir()
        part.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return Exported(folder, differences, len(bundle.reference.tiles))


def _exported(bundle: Bundle, net: str, to: str, folder: Path) -> float:
    """Written and compared; the largest difference."""
    folder.mkdir(parents=True)
    form, reference = FORMATS[to], bundle.reference
    form.write(bundle.nets[net], bundle.recipe.side_px, folder / form.file)
    if to == "torchscript":
        write_json(folder / "config.json", wsinfer_config(bundle, net))
    difference = float(np.abs(form.score(folder / form.file, reference.tiles) - reference.scores[net]).max())
    if not difference <= TOLERANCE:
        raise ExportDiffers(
            f"{net} as {to} is off by {difference:.3g} on the reference tiles (allowed {TOLERANCE:g}); nothing was "
            "written; check that the libraries are those of constraints.txt"
        )
    return difference


def wsinfer_config(bundle: Bundle, net: str) -> dict[str, object]:
    """As WSInfer's zoo specifies it (1.0); normalisation is in the net."""
    recipe = bundle.recipe
    return {
        "spec_version": "1.0",
        "architecture": getattr(recipe, net).encoder,
        "num_classes": 2,
        "class_names": CLASSES[net],
        "patch_size_pixels": recipe.side_px,
        "spacing_um_px": recipe.mpp,
        "transform": [{"name": "Resize", "arguments": {"size": recipe.side_px}}, {"name": "ToTensor"}],
    }


def readme(bundle: Bundle, to: str, differences: dict[str, float]) -> str:
    recipe, calibration = bundle.recipe, bundle.calibration
    takes = "bytes, (N, side, side, 3) in RGB, and give scores (N, 1): σ(score) is the probability"
    if to == "torchscript":
        takes = "floats in 0 … 1, (N, 3, side, side), and give two logits (0, score), whose softmax is the probability"
    compared = "\n".join(f"* {net}: {value:.2g}" for net, value in differences.items())
    return f"""# Two nets of an Aspirate model, as {to}

**Research use only. Not for diagnosis.**

Both take tiles of {recipe.side_px} × {recipe.side_px} pixels at {recipe.mpp:g} µm per pixel as {takes}.

* `informativeness`: a tile shows follicular cells; it counts as informative from probability {bundle.confident:.3f}.
* `malignancy`: how malignant a tile looks; asked of informative tiles only.

A slide's score f is the mean malignancy score of its most informative tiles, at most {recipe.selection.tiles}. Its
probability of malignancy is σ({calibration.slope:.6g} · f + {calibration.offset:.6g}). A tile's probability is neither.

Largest difference to the model on its {len(bundle.reference.tiles)} reference tiles, in logits:

{compared}

Model: {bundle.sha256()}
"""
