import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from aspirate.core.errors import ImplausibleResolution, MissingResolution
from aspirate.core.geometry import MPP_RANGE, Size, TileGrid, checked_mpp, magnification, px0_of_um, side_in_px0


@given(st.integers(1, 700), st.integers(1, 700), st.integers(1, 300))
def test_every_pixel_lies_in_exactly_one_tile(width: int, height: int, side: int) -> None:
    grid = TileGrid(Size(width, height), side_px0=side, side_px=128, slide_mpp=0.25)
    hits = np.zeros((height, width), np.uint8)
    for x, y in grid.corners_px0():
        assert x < width and y < height, "no tile lies wholly outside"
        hits[y : y + side, x : x + side] += 1
    assert (hits == 1).all()
    assert len(grid.corners_px0()) == len(grid) == math.ceil(width / side) * math.ceil(height / side)


@given(st.integers(1, 400), st.integers(1, 400), st.integers(1, 200), st.data())
def test_index_at_names_the_tile_that_holds_the_point(width: int, height: int, side: int, data: st.DataObject) -> None:
    grid = TileGrid(Size(width, height), side, 128, 0.25)
    x = data.draw(st.floats(0, width, exclude_max=True))
    y = data.draw(st.floats(0, height, exclude_max=True))
    index = grid.index_at(x, y)
    assert index is not None
    left, top = grid.corners_px0()[index]
    assert left <= x < left + side and top <= y < top + side


mpps = st.floats(*MPP_RANGE)


@given(st.integers(1, 10**6), st.integers(1, 10**6), mpps, mpps, st.data())
def test_a_tile_is_named_by_every_pixel_of_its_own(
    width: int, height: int, slide_mpp: float, mpp: float, data: st.DataObject
) -> None:
    grid = TileGrid.cover(Size(width, height), slide_mpp, mpp=mpp)
    column = data.draw(st.integers(0, grid.columns - 1))
    row = data.draw(st.integers(0, grid.rows - 1))
    x, y = column * grid.side_px0, row * grid.side_px0
    last_x, last_y = min(x + grid.side_px0, width) - 1, min(y + grid.side_px0, height) - 1
    for corner in [(x, y), (last_x, y), (x, last_y), (last_x, last_y)]:
        assert grid.index_at(*corner) == row * grid.columns + column


@given(st.floats(0, 1e6), mpps)
def test_micrometres_are_the_same_after_a_way_through_pixels(length_um: float, slide_mpp: float) -> None:
    assert px0_of_um(length_um, slide_mpp) * slide_mpp == pytest.approx(length_um, rel=1e-12)


@given(st.integers(16, 1024), mpps, mpps)
def test_a_tile_covers_what_was_asked_for_to_half_a_pixel(side_px: int, mpp: float, slide_mpp: float) -> None:
    grid = TileGrid.cover(Size(9000, 9000), slide_mpp, side_px, mpp)
    wanted_um, covered_um = side_px * mpp, grid.side_px0 * slide_mpp
    assert grid.mpp * side_px == pytest.approx(covered_um)
    assert abs(covered_um - wanted_um) <= slide_mpp * (0.5 + 1e-9) or grid.side_px0 == 1


def test_points_outside_have_no_tile() -> None:
    grid = TileGrid.cover(Size(300, 200), 0.25)
    assert [grid.index_at(*p) for p in [(-0.1, 5), (5, -1), (300, 5), (5, 200)]] == [None] * 4


@pytest.mark.parametrize(
    ("slide_mpp", "side_px0"), [(0.25, 128), (0.5, 64), (0.499, 64), (0.125, 256), (0.2274, 141), (10.0, 3)]
)
def test_tile_side_by_hand(slide_mpp: float, side_px0: int) -> None:
    assert side_in_px0(128, 0.25, slide_mpp) == side_px0
    grid = TileGrid.cover(Size(9000, 9000), slide_mpp)
    assert grid.mpp == pytest.approx(slide_mpp * side_px0 / 128)
    assert abs(grid.mpp - 0.25) <= 0.25 * 0.5 / (32 / slide_mpp) + 1e-12, "at most half a pixel off"


def test_the_papers_slide_has_about_61_000_tiles() -> None:
    assert len(TileGrid.cover(Size(40_000, 25_000), 0.25)) == 313 * 196


def test_resolution_is_never_guessed() -> None:
    assert checked_mpp(0.25, "a") == 0.25
    with pytest.raises(MissingResolution, match=r"^a: .*mpp column of the cohort"):
        checked_mpp(None, "a")
    for absurd in (0.0499, 10.01, 0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ImplausibleResolution, match="mpp column"):
            checked_mpp(absurd, "a")


def test_magnification_convention() -> None:
    assert (magnification(0.25), magnification(0.5), magnification(1.0)) == (40, 20, 10)
