"""The rule from annotations to tile labels, against the rule done literally one tile at a time."""

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st
from shapely.geometry.base import BaseGeometry

from aspirate.core.geometry import Size, TileGrid
from aspirate.core.labels import Abnormality
from aspirate.core.records import Annotation
from aspirate.slides.tile_labels import label_tiles, tiles_met

GRID = TileGrid(size_px0=Size(1000, 700), side_px0=100, side_px=128, slide_mpp=0.32)
SLIDE = shapely.box(0, 0, 1000, 700)


def labelled(*shapes: BaseGeometry, grid: TileGrid = GRID) -> list[tuple[int, int]]:
    """Column and row of each informative tile."""
    tiles = np.flatnonzero(label_tiles(grid, [Annotation(shape) for shape in shapes]).informative)
    return [(int(tile % grid.columns), int(tile // grid.columns)) for tile in tiles]


def centre_square(grid: TileGrid, tile: int) -> BaseGeometry:
    x, y = grid.corners_px0()[tile]
    side = grid.side_px0
    return shapely.box(x + side / 4, y + side / 4, x + side * 3 / 4, y + side * 3 / 4)


def literally(grid: TileGrid, part: BaseGeometry) -> set[int]:
    """The rule for one polygon within the slide: widen it where narrow, then intersect each square."""
    left, top, right, bottom = part.bounds
    half = grid.side_px0 / 2
    if right - left <= half or bottom - top <= half:
        x, y = (left + right) / 2, (top + bottom) / 2
        w, h = max(right - left, half) / 2, max(bottom - top, half) / 2
        part = shapely.box(x - w, y - h, x + w, y + h)
    met = {i for i in range(len(grid)) if part.intersection(centre_square(grid, i)).area > 1e-9}
    if met:
        return met
    tiles = [shapely.box(x, y, x + grid.side_px0, y + grid.side_px0) for x, y in grid.corners_px0()]
    return {int(np.argmax([part.intersection(tile).area for tile in tiles]))}


@given(x=st.floats(0, 1000, exclude_max=True), y=st.floats(0, 700, exclude_max=True))
def test_a_click_labels_exactly_the_tile_it_lies_in(x: float, y: float) -> None:
    expected = GRID.index_at(x, y)
    assert expected is not None
    assert labelled(shapely.Point(x, y)) == [(expected % 10, expected // 10)]


@pytest.mark.parametrize(
    ("x", "y", "expected"),
    [
        (0, 0, [(0, 0)]),
        (100, 200, [(1, 2)]),
        (99.999, 200, [(0, 2)]),
        (999.9, 699.9, [(9, 6)]),
        (1000, 0, []),
        (0, 700, []),
        (-0.1, 50, []),
        (500, 701, []),
    ],
)
def test_clicks_on_edges(x: float, y: float, expected: list[tuple[int, int]]) -> None:
    assert labelled(shapely.Point(x, y)) == expected


@pytest.mark.parametrize(
    ("box", "expected"),
    [
        ((100, 100, 200, 200), [(1, 1)]),
        ((125, 125, 175, 175), [(1, 1)]),  # the centre square itself
        ((126, 126, 226, 226), [(1, 1), (2, 1), (1, 2), (2, 2)]),
        ((75, 75, 125, 125), [(1, 1)]),  # half a tile wide, in the gap between four centre squares
        ((75, 100, 125, 300), [(1, 1), (1, 2)]),
        ((74, 0, 126, 60), [(0, 0), (1, 0)]),
        ((125, 0, 225, 60), [(1, 0)]),  # touches the next centre square, shares no area with it
        ((0, 90, 400, 95), [(0, 0), (1, 0), (2, 0), (3, 0)]),  # a streak
        ((-500, -500, 20, 20), [(0, 0)]),  # the part within the slide counts
        ((990, 690, 2000, 2000), [(9, 6)]),
        ((1000, 0, 1100, 100), []),
        ((-50, 0, 0, 100), []),
    ],
)
def test_boxes(box: tuple[float, float, float, float], expected: list[tuple[int, int]]) -> None:
    assert labelled(shapely.box(*box)) == expected


def test_a_hole_is_not_informative() -> None:
    ring = shapely.box(0, 0, 500, 500) - shapely.box(110, 110, 390, 390)
    inside = {(column, row) for column in (1, 2, 3) for row in (1, 2, 3)}
    assert set(labelled(ring)) == {(column, row) for column in range(5) for row in range(5)} - inside


def test_a_thin_loop_between_all_centre_squares_labels_the_tile_with_most_of_it() -> None:
    loop = shapely.box(195, 195, 305, 305) - shapely.box(205, 205, 298, 298)
    assert labelled(loop) == [(2, 2)]


def test_each_part_of_an_annotation_counts_on_its_own() -> None:
    clicks = shapely.MultiPoint([(50, 50), (950, 650)])
    boxes = shapely.MultiPolygon([shapely.box(210, 10, 220, 20), shapely.box(410, 10, 420, 20)])
    assert labelled(clicks) == [(0, 0), (9, 6)]
    assert labelled(boxes) == [(2, 0), (4, 0)]
    assert labelled(shapely.GeometryCollection([clicks, boxes])) == [(0, 0), (2, 0), (4, 0), (9, 6)]


def test_an_edge_tile_that_hardly_reaches_into_the_slide() -> None:
    grid = TileGrid(size_px0=Size(510, 510), side_px0=100, side_px=128, slide_mpp=0.32)
    assert labelled(shapely.box(501, 501, 509, 509), grid=grid) == [(5, 5)]
    assert labelled(shapely.box(400, 400, 510, 510), grid=grid) == [(4, 4)]


def test_the_highest_grade_counts() -> None:
    place = shapely.Point(50, 50)
    annotations = [
        Annotation(place, Abnormality.ATYPICAL),
        Annotation(shapely.box(0, 0, 300, 100), Abnormality.NORMAL),
        Annotation(place),
        Annotation(shapely.Point(350, 50)),
    ]
    labels = label_tiles(GRID, annotations)
    assert labels.informative[:5].tolist() == [True, True, True, True, False]
    assert labels.abnormality[:5].tolist() == [1, 0, 0, -1, -1]
    assert labels.abnormality.dtype == np.int8
    owners, tiles = tiles_met(GRID, annotations)
    assert list(zip(owners.tolist(), tiles.tolist(), strict=True)) == [
        (0, 0),
        (1, 0),
        (1, 1),
        (1, 2),
        (2, 0),
        (3, 3),
    ]


def test_no_annotation() -> None:
    labels = label_tiles(GRID, [])
    assert not labels.informative.any()
    assert (labels.abnormality == -1).all()


@st.composite
def polygons(draw: st.DrawFn) -> BaseGeometry:
    """Simple outlines about a centre, some with a hole, some partly outside the slide."""
    corners = draw(st.integers(3, 9))
    angles = (np.arange(corners) + draw(st.floats(0, 1))) * 2 * np.pi / corners
    radii = np.array([draw(st.floats(3, 300)) for _ in range(corners)])
    squash = draw(st.floats(0.05, 1))
    unit = np.stack([radii * np.cos(angles), radii * np.sin(angles) * squash], axis=1)
    centre = draw(st.floats(-50, 1050)), draw(st.floats(-50, 750))
    shape = shapely.Polygon(unit + centre, [unit * 0.6 + centre] if draw(st.booleans()) else [])
    return shape if shape.is_valid else shapely.make_valid(shape, method="structure")


@given(shape=polygons(), side_px0=st.sampled_from([64, 100, 129]))
def test_polygons_against_the_rule_done_literally(shape: BaseGeometry, side_px0: int) -> None:
    grid = TileGrid(size_px0=Size(1000, 700), side_px0=side_px0, side_px=128, slide_mpp=0.32)
    expected: set[int] = set()
    for part in shapely.get_parts(shapely.get_parts(shape.intersection(SLIDE))):
        if part.area > 1e-6:
            expected |= literally(grid, part)
    informative = label_tiles(grid, [Annotation(shape)]).informative
    assert set(np.flatnonzero(informative).tolist()) == expected


@given(shape=polygons())
def test_every_covered_centre_pixel_is_in_an_informative_tile(shape: BaseGeometry) -> None:
    x, y = np.meshgrid(np.arange(2.0, 1000, 4), np.arange(2.0, 700, 4))
    covered = shapely.contains_xy(shape, x, y)
    central = (np.abs(x % 100 - 50) < 25) & (np.abs(y % 100 - 50) < 25)
    seen = (covered & central).reshape(7, 25, 10, 25).any(axis=(1, 3)).ravel()
    informative = label_tiles(GRID, [Annotation(shape)]).informative
    assert (informative >= seen).all()
    assert informative.any() == (shape.intersection(SLIDE).area > 0)


def test_many_clicks_and_a_large_outline() -> None:
    grid = TileGrid.cover(Size(40_000, 25_000), slide_mpp=0.25)
    xy = np.random.default_rng(3).uniform(0, 25_000, (2000, 2))
    clicks = label_tiles(grid, [Annotation(shapely.Point(place)) for place in xy])
    expected = np.unique((xy[:, 1] // 128).astype(int) * grid.columns + (xy[:, 0] // 128).astype(int))
    assert np.flatnonzero(clicks.informative).tolist() == expected.tolist()
    disc = label_tiles(grid, [Annotation(shapely.Point(20_000, 12_000).buffer(8000, quad_segs=2000))])
    x, y = (grid.corners_px0() + 64 - np.array([20_000, 12_000])).T
    nearest = np.hypot(np.maximum(np.abs(x) - 32, 0), np.maximum(np.abs(y) - 32, 0))
    assert (disc.informative == (nearest < 8000))[np.abs(nearest - 8000) > 0.01].all()
