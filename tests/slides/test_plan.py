"""Plans carried out on numbered pixels, against cutting from a padded picture."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from aspirate.core.geometry import Size
from aspirate.slides.plan import Planner, make_plan
from aspirate.slides.tiff import TiffLevel


def fake_level(width: int, height: int, tile_width: int, tile_height: int) -> TiffLevel:
    nothing = np.empty(0, np.int64)
    return TiffLevel(Size(width, height), Size(tile_width, tile_height), nothing, nothing, b"")


def rgb(numbers: NDArray[np.int64]) -> NDArray[np.uint8]:
    """A colour for each number, black for 0."""
    return np.stack([numbers % 251, numbers % 241, numbers // 200], axis=-1).astype(np.uint8)


def copied(
    level: TiffLevel, xy_px: NDArray[np.int64], patch: tuple[int, int], group_size: int, tiled: NDArray[np.int64]
) -> NDArray[np.uint8]:
    """The same patches by the copies that a reader makes."""
    out = np.zeros((len(xy_px), patch[1], patch[0], 3), np.uint8)
    work = Planner(level, group_size).work(xy_px, *patch)
    width, height = level.tile_px.width, level.tile_px.height
    for tiles, copies in work.groups:
        places = [divmod(int(number), level.columns) for number in work.tiles[tiles.start : tiles.stop] + work.shift]
        slots = [tiled[row * height :, column * width :][:height, :width] for row, column in places]
        for copy in copies:
            copy.carry_out(rgb(np.stack(slots)), out)
    return out


@settings(max_examples=150, deadline=None)
@given(
    size=st.tuples(st.integers(1, 60), st.integers(1, 60)),
    tile=st.tuples(st.integers(1, 24), st.integers(1, 24)),
    patch=st.tuples(st.integers(1, 40), st.integers(1, 40)),
    corners=st.lists(st.tuples(st.integers(-50, 80), st.integers(-50, 80)), max_size=12),
    grid=st.booleans(),
    group_size=st.integers(1, 5),
)
def test_plan_puts_every_pixel_in_its_place(
    size: tuple[int, int],
    tile: tuple[int, int],
    patch: tuple[int, int],
    corners: list[tuple[int, int]],
    grid: bool,
    group_size: int,
) -> None:
    """Carried out on a level whose pixels are their own numbers, compared with cutting from a padded picture."""
    level = fake_level(*size, *tile)
    if grid:
        corners += [(x, y) for y in range(0, size[1], patch[1]) for x in range(0, size[0], patch[0])]
    xy_px = np.array(corners, np.int64).reshape(-1, 2)
    numbers = np.arange(1, size[0] * size[1] + 1).reshape(size[1], size[0])
    tiled = np.pad(numbers, ((0, level.rows * tile[1] - size[1]), (0, level.columns * tile[0] - size[0])))
    wide = np.pad(numbers, 140)
    expected = [wide[y + 140 : y + 140 + patch[1], x + 140 : x + 140 + patch[0]] for x, y in corners]

    out = np.zeros((len(corners), patch[1], patch[0]), np.int64)
    plan = make_plan(level, xy_px, patch[0], patch[1], group_size)
    assert len(np.unique(plan.tiles)) == len(plan.tiles)
    assert plan.group_size <= group_size
    for group in range(len(plan.run_starts) - 1):
        slots = []
        for index in plan.tiles[group * plan.group_size : (group + 1) * plan.group_size]:
            row, column = divmod(int(index), level.columns)
            slots.append(tiled[row * tile[1] :, column * tile[0] :][: tile[1], : tile[0]])
        for p, p_end, step, y, y_end, x, x_end, a, b, v, v_end, u, u_end in plan.runs[
            plan.run_starts[group] : plan.run_starts[group + 1]
        ].tolist():
            assert (out[p:p_end:step, y:y_end, x:x_end] == 0).all(), "a pixel is written twice"
            out[p:p_end:step, y:y_end, x:x_end] = np.stack(slots)[a:b, v:v_end, u:u_end]
    for found, wanted in zip(out, expected, strict=True):
        np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(copied(level, xy_px, patch, group_size, tiled), rgb(np.array(out, np.int64)))
    assert plan.ragged.tolist() == [i for i, wanted in enumerate(expected) if (wanted == 0).any()]


def test_grid_of_tiles_is_copied_in_few_runs() -> None:
    level = fake_level(4096, 4096, 256, 256)
    corners = np.stack(np.meshgrid(np.arange(32) * 128, np.arange(32) * 128), axis=-1).reshape(-1, 2)
    assert len(make_plan(level, corners, 128, 128, group_size=4).runs) == 1024 // 4


def test_groups_end_where_rows_of_tiles_end() -> None:
    """Eight tiles in a row, room for five: twice four, with four copies each, and none that goes on in the next row."""
    level = fake_level(4096, 4096, 256, 256)
    corners = np.stack(np.meshgrid(np.arange(16) * 128, np.arange(8) * 128), axis=-1).reshape(-1, 2)
    plan = make_plan(level, corners, 128, 128, group_size=5)
    assert plan.group_size == 4
    assert np.diff(plan.run_starts).tolist() == [4] * 8
    assert [len(copies) for _, copies in Planner(level, 5).work(corners, 128, 128).groups] == [1] * 8


@given(st.data())
def test_a_plan_that_serves_again_further_on_is_the_plan_made_anew(data: st.DataObject) -> None:
    level = fake_level(900, 700, 64, 48)
    planner = Planner(level, group_size=3)
    alike = np.array(data.draw(st.lists(st.tuples(st.integers(0, 90), st.integers(0, 90)), min_size=1, max_size=6)))
    for _ in range(4):
        moved = np.array([data.draw(st.integers(-2, 14)) * 64, data.draw(st.integers(-2, 14)) * 48])
        xy_px = (alike + moved).astype(np.int64)
        shared, fresh = planner.work(xy_px, 40, 30), Planner(level, group_size=3).work(xy_px, 40, 30)
        assert [copies for _, copies in shared.groups] == [copies for _, copies in fresh.groups]
        assert [tiles for tiles, _ in shared.groups] == [tiles for tiles, _ in fresh.groups]
        assert [tile for tiles, _ in shared.groups for tile in tiles] == list(range(len(shared.tiles)))
        plain = make_plan(level, xy_px, 40, 30, 3)
        assert (shared.tiles + shared.shift).tolist() == plain.tiles.tolist()
        np.testing.assert_array_equal(shared.ragged, plain.ragged)
