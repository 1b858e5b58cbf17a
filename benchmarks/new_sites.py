"""How far stage 2 carries to laboratories it never met: many sites, true tiles only, so that a change can be judged.

python benchmarks/new_sites.py OUT [--slides 900] [--sites 12] [--seed 31] [--run base] [--set malignancy.key=value …]

A whole cohort has one site that was not trained on, too few to tell a remedy from luck. Here only the tiles that show
groups are drawn, which is fast, so there can be ten such sites: two sites train, all others test. Nothing here is a
test set of `method.py`: its cohorts have other seeds. Writes as it goes and resumes.
"""

import argparse
import gc
import json
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import shapely
import simplejpeg
from scipy.stats import spearmanr

from aspirate.cli.display import progress
from aspirate.core.config import parse_changes
from aspirate.core.geometry import Box, TileGrid
from aspirate.core.ranking import auc
from aspirate.core.records import Annotation, SlideEntry
from aspirate.core.store import write_json
from aspirate.engines.torch_engine import TorchEngine
from aspirate.learning.device import choose_compute
from aspirate.learning.slide_training import train_slides
from aspirate.learning.tile_bank import TileBank
from aspirate.nn.tile_net import TileNet
from aspirate.slides.tile_labels import tiles_met
from aspirate.stages.informativeness import DRAWN, MARKED, InformativenessLearner, train_informativeness
from aspirate.stages.malignancy import KEPT, MalignancyLearner
from aspirate.synth.model import CohortLabels, Stream, draw_labels, stream
from aspirate.synth.plan import plan_slide
from aspirate.synth.render import SlideRenderer
from aspirate.synth.settings import SynthSettings
from aspirate.workflow.recipe import Recipe, load_recipe

SIDE = 128
MOST_TILES = 64
DRAWN_TILES, DRAWN_WHERE_SEEN = 16, 128
SEEN_SITES = 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--slides", type=int, default=900)
    parser.add_argument("--sites", type=int, default=12)
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--run", default="base")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--set", action="append", default=[])
    given = parser.parse_args()
    settings = SynthSettings(slides=given.slides, size=(6144, 6144), seed=given.seed, sites=given.sites)
    recipe = load_recipe("compact", parse_changes(given.set))
    labels = draw_labels(settings, stream(settings.seed, Stream.LABELS))
    draw(settings, labels, given.out / "tiles", given.workers)
    bank = TileBank(given.out / "tiles")
    seen = np.flatnonzero(labels.site < SEEN_SITES)
    validating = labels.patient[seen] % 4 == 0
    train, held = entries(labels, seen[~validating]), entries(labels, seen[validating])
    net = start(bank, train, held, recipe, given.out / "start")
    compute = choose_compute(recipe.precision)
    learner = MalignancyLearner(bank, train, held, [], SIDE, recipe.malignancy, recipe.seed, start=net)
    with progress(given.run, recipe.malignancy.epochs * learner.steps_per_epoch, "steps") as advance:
        history = train_slides(learner, given.out / given.run, compute, lambda _step, _loss: advance(1))
    figures = {"history": history, **judge(learner, labels, bank, given.out / "tiles")}
    write_json(given.out / given.run / "figures.json", figures)
    print(json.dumps(figures, indent=1))


def name_of(index: int) -> str:
    return f"slide-{index:04d}"


def entries(labels: CohortLabels, which: np.ndarray) -> list[SlideEntry]:
    return [
        SlideEntry(name_of(i), Path(name_of(i)), malignant=bool(labels.malignant[i]), bethesda=int(labels.bethesda[i]))
        for i in which.tolist()
    ]


def draw(settings: SynthSettings, labels: CohortLabels, folder: Path, workers: int) -> None:
    missing = [i for i in range(settings.slides) if not (folder / f"{name_of(i)}.atypia.npy").exists()]
    with (
        progress("drawing tiles", len(missing), "slides") as advance,
        ProcessPoolExecutor(workers, get_context("spawn")) as pool,
    ):
        for _ in pool.map(partial(draw_slide, settings, labels, folder), missing, chunksize=4):
            advance(1)


def draw_slide(settings: SynthSettings, labels: CohortLabels, folder: Path, index: int) -> None:
    draw_tiles(settings, labels, folder, index)
    gc.collect()  # a renderer's caches refer to itself


def draw_tiles(settings: SynthSettings, labels: CohortLabels, folder: Path, index: int) -> None:
    """Tiles with groups, some without, and how atypical the most atypical group of each is."""
    plan = plan_slide(settings, labels, index)
    renderer, bank, rng = SlideRenderer(plan), TileBank(folder), np.random.default_rng([settings.seed, index])
    grid = TileGrid(plan.size_px0, SIDE, SIDE, settings.mpp)
    boxes = [g.box_px0 for g in plan.groups]
    owners, tiles = tiles_met(
        grid, [Annotation(shapely.box(b.x, b.y, b.x + b.width, b.y + b.height), None) for b in boxes]
    )
    atypia = np.full(len(grid), -np.inf)
    np.maximum.at(atypia, tiles, np.array([g.atypia for g in plan.groups])[owners])
    shown = np.flatnonzero(np.isfinite(atypia))
    shown = rng.permutation(shown)[:MOST_TILES]
    drawn = DRAWN_WHERE_SEEN if labels.site[index] < SEEN_SITES else DRAWN_TILES
    others = rng.choice(np.flatnonzero(~np.isfinite(atypia)), drawn, replace=False)

    def pixels(which: np.ndarray) -> np.ndarray:
        corners = grid.corners_px0()[which].tolist()
        return np.stack([scanned(renderer.region(Box(x, y, SIDE, SIDE))) for x, y in corners])

    def scanned(tile: np.ndarray) -> np.ndarray:
        encoded = simplejpeg.encode_jpeg(tile, plan.appearance.jpeg_quality, colorsubsampling=plan.scanner.chroma)
        return np.asarray(simplejpeg.decode_jpeg(encoded))

    kept = pixels(shown)
    bank.add(f"{name_of(index)}.{KEPT}", kept)
    if labels.annotated[index]:
        bank.add(f"{name_of(index)}.{MARKED}", kept)
    bank.add(f"{name_of(index)}.{DRAWN}", pixels(others))
    np.save(folder / f"{name_of(index)}.atypia.npy", atypia[shown])


def start(bank: TileBank, train: list[SlideEntry], held: list[SlideEntry], recipe: Recipe, folder: Path) -> TileNet:
    """Stage 1, in short: tiles with groups against tiles without."""
    names = [e.slide_id for e in train], [e.slide_id for e in held]
    settings = recipe.informativeness.model_copy(update={"epochs": 1, "least_steps": 300})
    learner = InformativenessLearner(bank, *names, SIDE, settings, recipe.seed)
    with progress("start", learner.steps_per_epoch, "steps") as advance:
        compute = choose_compute(recipe.precision)
        return train_informativeness(learner, folder, compute, lambda _step, _loss: advance(1)).net


def judge(learner: MalignancyLearner, labels: CohortLabels, bank: TileBank, folder: Path) -> dict[str, object]:
    """Per site: AUC of slides, the oracle's, and rank correlation of g with a tile's true atypia."""
    engine = TorchEngine(learner.module)
    figures: dict[str, object] = {}
    held = {e.slide_id for e in learner.validation}
    scores = [engine.score(bank.stack(f"{name_of(i)}.{KEPT}")) for i in range(len(labels.site))]
    atypia = [np.load(folder / f"{name_of(i)}.atypia.npy") for i in range(len(labels.site))]
    means = np.array([s.mean() for s in scores])
    groups = {"held": np.array([i for i in range(len(means)) if name_of(i) in held])}
    groups |= {"unseen": np.flatnonzero(labels.site >= SEEN_SITES)}
    groups |= {f"site {s}": np.flatnonzero(labels.site == s) for s in range(SEEN_SITES, labels.site.max() + 1)}
    for name, which in groups.items():
        y = labels.malignant[which]
        ranks = spearmanr(
            np.concatenate([scores[i].ravel() for i in which]), np.concatenate([atypia[i] for i in which])
        )
        figures[name] = {
            "slides": len(which),
            "auc": round(auc(means[which], y), 4),
            "oracle": round(auc(labels.oracle_score[which], y), 4),
            "tiles": round(float(ranks.statistic), 4),
        }
    return figures


if __name__ == "__main__":
    main()
