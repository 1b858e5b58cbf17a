"""The measurement of serving: both contestants show the same tiles, and every figure is there."""

from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image
from tests.slides.slide_files import Variety, picture, write_slide

from aspirate.core.geometry import Size
from aspirate.slides.deepzoom import DeepZoomYardstick
from aspirate.slides.reader import open_slide
from aspirate.viewer.bench_serve import draw_slide, measure, random_paths, steps_of
from aspirate.viewer.cache import ByteCache
from aspirate.viewer.pyramid import Pyramid


def test_both_contestants_serve_the_same_tiles(tmp_path: Path) -> None:
    path = write_slide(tmp_path / "s.tiff", picture(1300, 1100), Variety())
    ours = Pyramid(open_slide(path), ByteCache(2**20), "s")
    theirs = DeepZoomYardstick(path, 256, 90)
    for place in ((11, 0, 0), (11, 5, 4), (10, 1, 1), (9, 1, 0)):
        one, other = (np.asarray(Image.open(BytesIO(each.tile(*place))), np.float64) for each in (ours, theirs))
        assert one.shape == other.shape
        assert np.abs(one - other).mean() < 4, place


def test_tiles_asked_for_are_on_the_slide_and_half_of_them_fine(tmp_path: Path) -> None:
    path = write_slide(tmp_path / "s.tiff", picture(1300, 1100), Variety())
    pyramid = Pyramid(open_slide(path), ByteCache(2**20), "s")
    paths = random_paths(pyramid.shape, 400)
    places = [tuple(map(int, path.split("/")[-3:])) for path in paths]
    for level, column, row in places:
        pyramid.shape.tile_size(level, column, row)
    fine = np.mean([level == 11 for level, _, _ in places])
    assert 0.4 < fine < 0.6


def test_every_figure_is_measured(tmp_path: Path) -> None:
    path = write_slide(tmp_path / "s.tiff", picture(1300, 1100), Variety())
    done: list[float] = []
    figures = measure(path, seconds=0.4, clients=(1, 8), requests=100, advance=done.append)
    assert sum(done) == steps_of((1, 8)) == 7
    for contestant in ("direct", "deepzoom"):
        for clients in (1, 8):
            assert float(figures[f"tiles_per_second_{contestant}_{clients}_clients"]) > 0
            p50, p99 = (float(figures[f"{p}_ms_{contestant}_{clients}_clients"]) for p in ("p50", "p99"))
            assert 0 < p50 <= p99
    assert figures["ratio_deepzoom"] == figures["ratio_deepzoom_8_clients"]
    assert float(figures["ratio_deepzoom"]) > 1
    assert figures["p99_ms"] == figures["p99_ms_direct_8_clients"]
    assert int(figures["requests"]) >= 100
    assert 50 < float(figures["peak_rss_mb"]) < 1000
    assert abs(float(figures["rss_growth_mb"])) < 50


def test_without_a_slide_it_draws_one(tmp_path: Path) -> None:
    with open_slide(draw_slide(tmp_path, (1280, 1024))) as slide:
        assert slide.size_px0 == Size(1280, 1024)
