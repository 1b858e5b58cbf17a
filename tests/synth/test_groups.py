"""Traits of nuclei follow atypia gradually, with overlap between grades."""

import numpy as np
import pytest

from aspirate.synth.groups import draw_nuclei

ATYPIA = (0.0, 1.0, 2.0)


def test_every_trait_rises_with_atypia() -> None:
    rng = np.random.default_rng(0)
    drawn = [draw_nuclei(a, 4000, 4.0, rng) for a in ATYPIA]
    traits = {
        "diameter": [n.radius.mean() for n in drawn],
        "unequal size": [n.radius.std() / n.radius.mean() for n in drawn],
        "elongation": [1 - n.squeeze.mean() for n in drawn],
        "irregular outline": [n.irregular.mean() for n in drawn],
        "coarse chromatin": [n.chromatin.mean() for n in drawn],
        "nucleoli": [(n.nucleolus > 0).mean() for n in drawn],
        "grooves": [n.groove.mean() for n in drawn],
        "pseudo-inclusions": [n.inclusion.mean() for n in drawn],
    }
    for name, values in traits.items():
        assert values[0] < values[1] < values[2], name


def test_nuclei_have_their_size_in_micrometres() -> None:
    """Benign nuclei of about 7 µm, malignant ones of about 9.6 µm, at 4 pixels a micrometre."""
    rng = np.random.default_rng(1)
    for atypia, diameter_um in ((0.0, 7.1), (2.0, 9.6)):
        radius = draw_nuclei(atypia, 4000, 4.0, rng).radius
        assert 2 * radius.mean() / 4.0 == pytest.approx(diameter_um, rel=0.02)


def test_single_nuclei_of_neighbouring_grades_overlap() -> None:
    """Even at the grades' own centres, the larger of two nuclei is not always the graver one."""
    rng = np.random.default_rng(2)
    normal, atypical = (draw_nuclei(a, 4000, 4.0, rng).radius for a in (0.0, 1.0))
    assert 0.75 < (rng.permutation(atypical) > normal).mean() < 0.97


def test_darkness_does_not_give_the_grade_away() -> None:
    """Malignant groups are paler (ground glass) as often as darker, so the mean tells nothing."""
    rng = np.random.default_rng(3)
    tones = {a: [draw_nuclei(a, 20, 4.0, rng).density.mean() for _ in range(600)] for a in (0.0, 2.0)}
    assert np.mean(tones[2.0]) == pytest.approx(np.mean(tones[0.0]), abs=0.03)
    assert np.std(tones[2.0]) > np.std(tones[0.0])
