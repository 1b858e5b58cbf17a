import numpy as np
import pytest

from aspirate.core.geometry import Size, TileGrid
from aspirate.stages.slide_score import AdequacySettings, adequacy, bethesda_of, slide_score


def test_score_is_the_mean_of_kept_tiles_or_their_weighted_mean() -> None:
    g = np.array([1.0, -2.0, 4.0, 10.0])
    assert slide_score(g, np.array([True, True, True, False])) == 1.0
    assert slide_score(g, np.array([0.5, 0.25, 0.25, 0.0])) == pytest.approx(0.5 - 0.5 + 1.0)
    with pytest.raises(ValueError, match="at least one"):
        slide_score(g, np.zeros(4))


def test_category_by_cuts() -> None:
    cuts = (-1.0, 0.0, 1.0, 2.0)
    assert [bethesda_of(f, cuts) for f in (-3, -0.5, 0.5, 1.5, 7)] == [2, 3, 4, 5, 6]


def test_groups_are_islands_of_touching_tiles() -> None:
    grid = TileGrid.cover(Size(128 * 8, 128 * 6), 0.25)
    picture = """
        x x . . . . . x
        . . x . . . . .
        . . . . . x . .
        . . . . . x . .
        x . . . . . . .
        . . . . x x x x"""
    confident = np.array([cell == "x" for cell in picture.split()])
    found = adequacy(confident, grid.corners_px0(), grid.side_px0, AdequacySettings(groups=5))
    assert (found.informative_tiles, found.groups, found.adequate) == (11, 5, True)
    assert not adequacy(confident, grid.corners_px0(), grid.side_px0, AdequacySettings(groups=6)).adequate


def test_an_empty_slide_is_inadequate() -> None:
    grid = TileGrid.cover(Size(500, 500), 0.25)
    found = adequacy(np.zeros(len(grid), bool), grid.corners_px0(), grid.side_px0, AdequacySettings())
    assert (found.informative_tiles, found.groups, found.adequate) == (0, 0, False)
