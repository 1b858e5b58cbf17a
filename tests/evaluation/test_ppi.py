"""The table is the paper's own when its marks go in, and a slide's PPI is a count."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binomtest
from shapely import Point

from aspirate.core.labels import Abnormality
from aspirate.core.records import Annotation, SlideEntry
from aspirate.evaluation.ppi import abnormality_table, slide_ppis

PAPER = {  # malignant, TBS: normal, atypical, malignant marks
    (True, 2): (15, 30, 0),
    (True, 3): (20, 32, 0),
    (True, 4): (0, 51, 100),
    (True, 5): (4, 28, 28),
    (True, 6): (4, 110, 1027),
    (False, 2): (1234, 328, 0),
    (False, 3): (281, 373, 46),
    (False, 4): (41, 619, 38),
    (False, 5): (4, 74, 0),
    (False, 6): (0, 0, 0),
}


def marks(*counts: int, ungraded: int = 0) -> list[Annotation]:
    graded = [Annotation(Point(0, 0), grade) for grade, n in zip(Abnormality, counts, strict=True) for _ in range(n)]
    return graded + [Annotation(Point(0, 0))] * ungraded


def test_the_papers_table() -> None:
    entries = [SlideEntry(f"{y}{s}", Path("x"), malignant=y, bethesda=s) for y, s in PAPER]
    on = {f"{y}{s}": marks(*counts) for (y, s), counts in PAPER.items()}
    found = abnormality_table(entries, on)
    assert found.counts.sum() == sum(map(sum, PAPER.values()))
    for (y, s), counts in PAPER.items():
        assert found.counts[int(y), s - 2].tolist() == list(counts)
        if sum(counts):
            assert found.shares[int(y), s - 2] == pytest.approx([n / sum(counts) for n in counts])
    assert found.shares[1, 4] == pytest.approx([0.0035, 0.0964, 0.9001], abs=1e-4)
    assert np.isnan(found.shares[0, 4]).all()
    assert found.slides.tolist() == [[1, 1, 1, 1, 0], [1] * 5]


def test_what_cannot_be_placed_is_counted_apart() -> None:
    entries = [
        SlideEntry("a", Path("x"), malignant=True, bethesda=6),
        SlideEntry("b", Path("x"), malignant=None, bethesda=6),
        SlideEntry("c", Path("x"), malignant=False, bethesda=1),
        SlideEntry("d", Path("x"), malignant=False, bethesda=2),
    ]
    on = {"a": marks(1, 0, 2, ungraded=3), "b": marks(0, 2, 0), "c": marks(1, 0, 0, ungraded=1)}
    found = abnormality_table(entries, on)
    assert (found.counts.sum(), found.ungraded, found.unlabelled) == (3, 4, 3)
    nothing = abnormality_table(entries, {})
    assert nothing.counts.sum() == 0
    assert np.isnan(nothing.shares).all()


def test_ppi_of_slides_by_counting() -> None:
    entries = [SlideEntry(name, Path("x")) for name in ("a", "b", "c")]
    a, b = slide_ppis(entries, {"a": marks(1, 2, 5, ungraded=4), "b": marks(3, 0, 0), "c": marks(0, 0, 0, ungraded=2)})
    assert (a.slide_id, a.malignant.value, a.abnormal.value, a.malignant.n) == ("a", 5 / 8, 7 / 8, 8)
    exact = binomtest(5, 8).proportion_ci(method="exact")
    assert (a.malignant.low, a.malignant.high) == pytest.approx((exact.low, exact.high))
    assert (b.malignant.value, b.abnormal.value) == (0, 0)
    assert slide_ppis([], {}) == ()
