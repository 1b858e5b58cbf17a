"""A cross-validation that never ran: scores drawn, everything else as a run would have it."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from aspirate.core.predictions import Prediction
from aspirate.core.records import SlideEntry
from aspirate.evaluation.material import PROPOSED, Learned, Material
from aspirate.evaluation.readers import readers_of

FOLDS = 4
CUTS = (-1.5, -0.3, 0.8, 2.0)
RIVAL = "CNN (Y,S)"
NOISE = {PROPOSED: 0.8, RIVAL: 2.5}


def expit(f: float) -> float:
    return float(1 / (1 + np.exp(-f)))


def entries(slides: int = 120, readers: int = 2) -> tuple[SlideEntry, ...]:
    rng = np.random.default_rng(1)
    malignant = rng.random(slides) < 0.35
    tbs = np.clip(np.round(3 + 2 * malignant + rng.normal(0, 0.9, slides)), 2, 6).astype(int)
    read = np.clip(tbs[:, None] + rng.integers(-1, 2, (slides, readers)), 2, 6)
    return tuple(
        SlideEntry(
            f"s{i:03d}",
            Path(f"s{i:03d}.png"),
            f"p{i // 2}",
            bool(malignant[i]),
            int(tbs[i]),
            0.25,
            "AB"[i % 2],
            readers={f"r{k}": int(read[i, k]) for k in range(readers) if i < 80},
        )
        for i in range(slides)
    )


def fold_of(i: int) -> int:
    return (i // 2) % FOLDS


def row(entry: SlideEntry, fold: int, method: str, f: float) -> Prediction:
    rank = int(np.searchsorted(CUTS, f))
    return Prediction(
        entry.slide_id, str(fold), method, entry.malignant, entry.bethesda, round(f, 6), round(expit(0.8 * f - 0.5), 6),
        f > 0.5, rank + 2, True, 40,
    )  # fmt: skip


def simulated(slides: int = 120, readers: int = 2) -> Material:
    """Every slide is tested once, and validates the fold before; `s000` is inadequate to the proposed method."""
    cohort = entries(slides, readers)
    test: list[Prediction] = []
    validation: list[Prediction] = []
    for method, noise in NOISE.items():
        for fold in range(FOLDS):
            f = scores(cohort, noise, fold)
            for i, entry in enumerate(cohort):
                made = row(entry, fold, method, float(f[i]))
                if fold_of(i) == fold:
                    test.append(made)
                elif fold_of(i) == (fold + 1) % FOLDS:
                    validation.append(made)
    first = next(i for i, made in enumerate(test) if (made.slide_id, made.method) == ("s000", PROPOSED))
    test[first] = Prediction(
        "s000", "0", PROPOSED, test[first].malignant, test[first].bethesda, 9.0, adequate=False, status="inadequate"
    )
    learned = {(str(fold), PROPOSED): Learned(CUTS, 0.5) for fold in range(FOLDS)}
    return Material(tuple(test), tuple(validation), cohort, readers_of(cohort), learned)


def scores(cohort: tuple[SlideEntry, ...], noise: float, fold: int) -> NDArray[np.float64]:
    rng = np.random.default_rng([fold, int(10 * noise)])
    truth = np.array([1.5 * bool(e.malignant) + 0.5 * ((e.bethesda or 3) - 4) for e in cohort])
    return truth + rng.normal(0, noise, len(cohort)) + 0.2 * fold
