"""Labels without pixels: who is malignant, what pathologists say, which grade each group has.

A patient is malignant with P(Y), a slide is reported as S ~ P(S | Y), its grades' shares are
π ~ Dirichlet(κ · P(v | Y, S)), and each of its groups has grade v ~ π. Group counts and sizes are drawn
without looking at any label.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from aspirate.core.geometry import px0_of_um
from aspirate.core.labels import TRAINABLE_BETHESDA
from aspirate.core.ranking import auc
from aspirate.synth.settings import SynthSettings


class Stream(IntEnum):
    """Independent sources of chance, so that a change in one leaves the others as they are."""

    LABELS = 1
    SITE = 2
    SLIDE = 3
    PLACE = 4
    GROUP = 5
    PARCEL = 6
    FIELD = 7
    SPRITE = 8
    ANNOTATION = 9
    ORACLE = 10


def stream(*key: int) -> np.random.Generator:
    return np.random.default_rng(np.random.SeedSequence(list(key)))


CATEGORIES = np.array(TRAINABLE_BETHESDA)

P_CATEGORY = np.array(
    [
        [0.620, 0.200, 0.150, 0.030, 0.000],  # benign
        [0.038, 0.105, 0.182, 0.180, 0.495],  # malignant
    ]
)
"""P(S | Y), S = 2..6. At 27 % malignant: TBS 2 is 97.8 % benign, TBS 6 all malignant, the risk of
malignancy rises 2, 16, 31, 69, 100 %."""

GRADE_COUNTS = np.array(
    [
        [[1234, 328, 0], [281, 373, 46], [41, 619, 38], [4, 74, 0], [0, 0, 1]],  # benign
        [[15, 30, 0], [20, 32, 0], [0, 51, 100], [4, 28, 28], [4, 110, 1027]],  # malignant
    ],
    dtype=np.float64,
)
"""Groups by (Y, S, normal/atypical/malignant) as published; zero cells stay zero. No benign slide is TBS 6,
so that row is never drawn from."""

P_GRADE = GRADE_COUNTS / GRADE_COUNTS.sum(axis=-1, keepdims=True)

CELL_PITCH_UM = 10.5
"""Distance of neighbouring follicular cells."""
GROUP_CELLS = (4, 110)
"""Smallest and largest group, in cells."""
BOX_FILL = 0.75
"""Share of its box that a group fills."""


@dataclass(frozen=True, slots=True)
class CohortLabels:
    """Labels of N slides as columns; rows are slides."""

    patient: NDArray[np.int64]
    site: NDArray[np.int64]
    malignant: NDArray[np.bool_]
    bethesda: NDArray[np.int64]
    """As reported: 1 where inadequate, else 2..6."""
    readers: NDArray[np.int64]
    """(N, readers), 0 where not read."""
    annotated: NDArray[np.bool_]
    boxes_px0: tuple[NDArray[np.int64], ...]
    """Of each slide the (groups, 2) width and height of its groups."""
    grades: tuple[NDArray[np.int64], ...]

    @property
    def oracle_score(self) -> NDArray[np.float64]:
        """Share of malignant plus a quarter of the share of atypical groups, 0 where there is none."""
        return np.array([((g == 2) + 0.25 * (g == 1)).mean() if len(g) else 0.0 for g in self.grades])


def draw_labels(settings: SynthSettings, rng: np.random.Generator) -> CohortLabels:
    n = settings.slides
    patient = _patients(settings, rng)
    malignant = _malignant_patients(settings, rng)[patient]
    site = rng.integers(settings.sites, size=settings.patient_count)[patient]
    category = _rows_choice(P_CATEGORY[malignant.astype(int)], rng)
    inadequate = np.zeros(n, bool)
    inadequate[rng.permutation(n)[: round(settings.inadequate * n)]] = True
    annotated = np.zeros(n, bool)
    annotated[rng.permutation(n)[: round(settings.annotated * n)]] = True
    readers = _readers(settings, malignant, category, rng)
    boxes = tuple(group_sizes_px0(settings, bool(few), rng) for few in inadequate)
    grades = tuple(
        _grades(len(box), P_GRADE[int(y), s], settings.overdispersion, rng)
        for box, y, s in zip(boxes, malignant, category, strict=True)
    )
    return CohortLabels(
        patient,
        site,
        malignant,
        np.where(inadequate, 1, CATEGORIES[category]),
        np.where(inadequate[:, None], 0, readers),
        annotated,
        boxes,
        grades,
    )


def mean_oracle_auc(settings: SynthSettings, slides_drawn: int = 12_000) -> float:
    """The oracle's AUC, averaged over label-only draws of cohorts of these settings.

    The mean does not depend on a cohort's size, so very small and very large cohorts are drawn at a handy one.
    """
    slides = min(max(settings.slides, 60), 1000)
    like = settings.model_copy(update={"slides": slides, "patients": None, "inadequate": 0.0})
    streams = np.random.SeedSequence([settings.seed, Stream.ORACLE]).spawn(-(-slides_drawn // slides))
    cohorts = (draw_labels(like, np.random.default_rng(stream)) for stream in streams)
    return float(np.mean([auc(c.oracle_score, c.malignant) for c in cohorts]))


def group_sizes_px0(settings: SynthSettings, inadequate: bool, rng: np.random.Generator) -> NDArray[np.int64]:
    """Boxes of groups, (groups, 2): as many as reach the slide's share of informative area.

    A slide with little informative area has smaller groups, never fewer than the minimum.
    """
    pitch_px0 = px0_of_um(CELL_PITCH_UM, settings.mpp)
    area_of_cell = pitch_px0**2 / BOX_FILL
    width, height = settings.size
    low, high = settings.informative
    share = low * (high / low) ** rng.random()
    wanted = max(share * width * height, settings.min_groups * 8 * area_of_cell)
    most_cells = np.clip(2 * wanted / settings.min_groups / area_of_cell, 8, GROUP_CELLS[1])
    enough = int(wanted / (GROUP_CELLS[0] * area_of_cell)) + settings.min_groups
    cells = GROUP_CELLS[0] * (most_cells / GROUP_CELLS[0]) ** rng.random(enough)
    aspect = np.exp(rng.normal(0.0, 0.3, enough)).clip(0.5, 2.0)
    sides = np.sqrt(cells * area_of_cell)[:, None] * np.stack([aspect**0.5, aspect**-0.5], axis=1)
    count = int(np.searchsorted(np.cumsum(sides.prod(axis=1)), wanted)) + 1
    least = settings.min_groups
    count = int(rng.integers(least)) if inadequate else max(count, least)
    return np.asarray(np.ceil(np.maximum(sides[:count], 2.7 * pitch_px0)), np.int64)


def _patients(settings: SynthSettings, rng: np.random.Generator) -> NDArray[np.int64]:
    """Every patient has a slide; the rest of the slides fall on patients at random."""
    count = settings.patient_count
    extra = rng.integers(count, size=settings.slides - count)
    return rng.permutation(np.concatenate([np.arange(count), extra]))


def _malignant_patients(settings: SynthSettings, rng: np.random.Generator) -> NDArray[np.bool_]:
    """The share as exactly as whole patients allow, and both kinds present."""
    count = settings.patient_count
    malignant = min(max(round(settings.malignant * count), 1), count - 1)
    return rng.permutation(np.arange(count) < malignant)


def _rows_choice(shares: NDArray[np.float64], rng: np.random.Generator) -> NDArray[np.int64]:
    """One index per row of shares."""
    uniform = rng.random(len(shares))[:, None]
    return np.asarray((uniform > np.cumsum(shares, axis=1)[:, :-1]).sum(axis=1), np.int64)


def _grades(
    count: int, shares: NDArray[np.float64], concentration: float, rng: np.random.Generator
) -> NDArray[np.int64]:
    own = np.zeros(3)
    present = shares > 0
    own[present] = rng.dirichlet(concentration * shares[present])
    return np.searchsorted(np.cumsum(own)[:-1], rng.random(count), side="right")


def _readers(
    settings: SynthSettings,
    malignant: NDArray[np.bool_],
    category: NDArray[np.int64],
    rng: np.random.Generator,
) -> NDArray[np.int64]:
    """(N, readers) of TBS; see `reader_agreement` and `reader_slip`."""
    n, readers = len(category), settings.readers
    fresh = _rows_choice(np.repeat(P_CATEGORY[malignant.astype(int)], readers, axis=0), rng)
    agrees = rng.random((n, readers)) < settings.reader_agreement
    seen = np.where(agrees, category[:, None], fresh.reshape(n, readers))
    slip = rng.choice([-1, 1], size=seen.shape) * (rng.random(seen.shape) < settings.reader_slip)
    return np.asarray(CATEGORIES[np.clip(seen + slip, 0, len(CATEGORIES) - 1)], np.int64)
