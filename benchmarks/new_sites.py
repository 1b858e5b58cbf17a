"""How far either stage carries to laboratories it never met: many sites, few tiles, so that a change can be judged.

python benchmarks/new_sites.py OUT --stage 1 --run longer [--set informativeness.epochs=8 …]
python benchmarks/new_sites.py OUT --stage 2 --run plain  [--set malignancy.average=0 …]

A whole cohort has one site that was not trained on, too few to tell a remedy from luck. Here only tiles with groups and
some without are drawn, which is fast, so there can be ten such sites: two sites train, all others test. Nothing here is
a test set of `method.py`, whose cohorts have other seeds. Writes as it goes and resumes.

Stage 1: AUC of tiles with groups against tiles without; recall and false alarms from where on a tile counts
as confidently informative; false alarms where 95 % of a site's own tiles with groups are found.
Stage 2, on true tiles: AUC of slides beside the oracle's, and rank correlation of g with a tile's true atypia.
"""

import argparse
import gc
import json
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import shapely
import simplejpeg

from aspirate.cli.display import progress
from aspirate.core.config import parse_changes
from aspirate.core.geometry import Box, TileGrid
from aspirate.core.logits import logit
from aspirate.core.ranking import auc, rank_correlation
from aspirate.core.records import Annotation, SlideEntry
from aspirate.core.store import write_json
from aspirate.engines.choice import engine_for
from aspirate.learning.device import choose_compute
from aspirate.learning.slide_training import train_slides
from aspirate.learning.tile_bank import TileBank
from aspirate.slides.tile_labels import tiles_met
from aspirate.stages.informativeness import (
    DRAWN,
    MARKED,
    OWNERS,
    Informativeness,
    InformativenessLearner,
    train_informativeness,
)
from aspirate.stages.malignancy import KEPT, MalignancyLearner
from aspirate.stages.selection import confident_from
from aspirate.stages.settings import InformativenessSettings
from aspirate.synth.model import CohortLabels, Stream, draw_labels, stream
from aspirate.synth.plan import plan_slide
from aspirate.synth.render import SlideRenderer
from aspirate.synth.settings import SynthSettings
from aspirate.workflow.recipe import Recipe, load_recipe

SIDE = 128
MOST_TILES = 64
DRAWN_TILES, DRAWN_WHERE_SEEN = 16, 128
SEEN_SITES = 2
RECALL = 0.95
Figures = dict[str, float | int]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--stage", type=int, choices=(1, 2), default=2)
    parser.add_argument("--slides", type=int, default=900)
    parser.add_argument("--sites", type=int, default=12)
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--run", default="run")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--set", action="append", default=[])
    given = parser.parse_args()
    settings = SynthSettings(slides=given.slides, size=(6144, 6144), seed=given.seed, sites=given.sites)
    labels = draw_labels(settings, stream(settings.seed, Stream.LABELS))
    draw(settings, labels, given.out / "tiles", given.workers)
    trial = Trial(labels, given.out, load_recipe("compact", parse_changes(given.set)))
    figures = trial.stage_1(given.run) if given.stage == 1 else trial.stage_2(given.run)
    write_json(given.out / given.run / "figures.json", figures)
    print(json.dumps(figures, indent=1))


class Trial:
    def __init__(self, labels: CohortLabels, out: Path, recipe: Recipe) -> None:
        self.labels, self.out, self.recipe = labels, out, recipe
        self.bank, self.compute = TileBank(out / "tiles"), choose_compute(recipe.precision)
        seen = np.flatnonzero(labels.site < SEEN_SITES)
        validating = labels.patient[seen] % 4 == 0
        self.train, self.held = seen[~validating], seen[validating]

    def stage_1(self, run: str) -> dict[str, Figures]:
        found = self._informativeness(run, self.recipe.informativeness)
        engine, level = engine_for(found.net), float(logit(confident_from(found.held, self.recipe.selection.recall)))
        shown = {i: engine.score(self.bank.stack(f"{name_of(i)}.{KEPT}")) for i in self._judged()}
        others = {i: engine.score(self.bank.stack(f"{name_of(i)}.{DRAWN}")) for i in self._judged()}

        def judge(which: np.ndarray) -> Figures:
            with_groups = np.concatenate([shown[i] for i in which])
            without = np.concatenate([others[i] for i in which])
            both = np.concatenate([with_groups, without])
            return {
                "auc": auc(both, np.arange(len(both)) < len(with_groups)),
                "recall": float((with_groups >= level).mean()),
                "false_alarms": float((without >= level).mean()),
                "false_alarms_at_95": float((without >= np.quantile(with_groups, 1 - RECALL)).mean()),
            }

        return self._by_site(judge)

    def stage_2(self, run: str) -> dict[str, Figures]:
        start = self._informativeness("start", InformativenessSettings(epochs=1))
        train, held = self._entries(self.train), self._entries(self.held)
        settings = self.recipe.malignancy
        learner = MalignancyLearner(self.bank, train, held, [], SIDE, settings, self.recipe.seed, start=start.net)
        with progress(run, settings.epochs * learner.steps_per_epoch, "steps") as advance:
            train_slides(learner, self.out / run, self.compute, lambda _step, _loss: advance(1))
        engine = engine_for(learner.module.net)
        scores = {i: engine.score(self.bank.stack(f"{name_of(i)}.{KEPT}")) for i in self._judged()}
        atypia = {i: np.load(self.out / "tiles" / f"{name_of(i)}.atypia.npy") for i in self._judged()}

        def judge(which: np.ndarray) -> Figures:
            malignant = self.labels.malignant[which]
            g, true = (np.concatenate([values[i] for i in which]) for values in (scores, atypia))
            return {
                "auc": auc(np.array([scores[i].mean() for i in which]), malignant),
                "oracle": auc(self.labels.oracle_score[which], malignant),
                "correlation_with_atypia": rank_correlation(g, true),
            }

        return self._by_site(judge)

    def _informativeness(self, run: str, settings: InformativenessSettings) -> Informativeness:
        names = [name_of(i) for i in self.train], [name_of(i) for i in self.held]
        learner = InformativenessLearner(self.bank, *names, SIDE, settings, self.recipe.seed)
        with progress(run, learner.steps_per_epoch * settings.epochs, "steps") as advance:
            return train_informativeness(learner, self.out / run, self.compute, lambda _step, _loss: advance(1))

    def _entries(self, which: np.ndarray) -> list[SlideEntry]:
        known = self.labels
        return [
            SlideEntry(
                name_of(i), Path(name_of(i)), malignant=bool(known.malignant[i]), bethesda=int(known.bethesda[i])
            )
            for i in which
        ]

    def _judged(self) -> np.ndarray:
        """Slides not trained on."""
        return np.concatenate([self.held, np.flatnonzero(self.labels.site >= SEEN_SITES)])

    def _by_site(self, judge: Callable[[np.ndarray], Figures]) -> dict[str, Figures]:
        site = self.labels.site
        parts = {"seen sites": self.held, "unseen sites": np.flatnonzero(site >= SEEN_SITES)}
        parts |= {f"site {s}": np.flatnonzero(site == s) for s in range(SEEN_SITES, site.max() + 1)}
        return {name: {"slides": len(which), **judge(which)} for name, which in parts.items()}


def name_of(index: int) -> str:
    return f"slide-{index:04d}"


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
    boxes = [group.box_px0 for group in plan.groups]
    outlines = [shapely.box(box.x, box.y, box.x + box.width, box.y + box.height) for box in boxes]
    owners, tiles = tiles_met(grid, [Annotation(outline) for outline in outlines])
    atypia = np.full(len(grid), -np.inf)
    np.maximum.at(atypia, tiles, np.array([group.atypia for group in plan.groups])[owners])
    shown = rng.permutation(np.flatnonzero(np.isfinite(atypia)))[:MOST_TILES]
    count = DRAWN_WHERE_SEEN if labels.site[index] < SEEN_SITES else DRAWN_TILES
    others = rng.choice(np.flatnonzero(~np.isfinite(atypia)), count, replace=False)

    def pixels(which: np.ndarray) -> np.ndarray:
        corners = grid.corners_px0()[which].tolist()
        return np.stack([scanned(renderer.region(Box(x, y, SIDE, SIDE))) for x, y in corners])

    def scanned(tile: np.ndarray) -> np.ndarray:
        encoded = simplejpeg.encode_jpeg(tile, plan.appearance.jpeg_quality, colorsubsampling=plan.scanner.chroma)
        return np.asarray(simplejpeg.decode_jpeg(encoded))

    kept = pixels(shown)
    bank.add(f"{name_of(index)}.{KEPT}", kept)
    if labels.annotated[index]:
        first_owner = owners[np.array([np.flatnonzero(tiles == tile)[0] for tile in shown])]
        bank.add(f"{name_of(index)}.{OWNERS}", first_owner)
        bank.add(f"{name_of(index)}.{MARKED}", kept)
    bank.add(f"{name_of(index)}.{DRAWN}", pixels(others))
    np.save(folder / f"{name_of(index)}.atypia.npy", atypia[shown])


if __name__ == "__main__":
    main()
