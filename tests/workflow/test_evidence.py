"""Evidence of one slide with planted scores: pixels, GeoJSON, words and charts say exactly what the scores say."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from aspirate.core.geometry import Size, TileGrid
from aspirate.core.predictions import Prediction
from aspirate.core.tile_file import TileTable
from aspirate.nn.tile_net import TileNet, seeded
from aspirate.slides.geojson import read_geojson
from aspirate.slides.image import ImageSlide
from aspirate.slides.reader import open_slide
from aspirate.slides.slide import Slide
from aspirate.stages.calibration import Calibration
from aspirate.stages.cascade import Looked
from aspirate.workflow.bundle import Bundle
from aspirate.workflow.charts import HISTOGRAM_HEIGHT, WIDTH, histogram, score_axis
from aspirate.workflow.evidence import EvidencePaths, write_evidence
from aspirate.workflow.heat_map import LEGEND_PX, Legend, colours, heat_map_px, heat_over, overlay, value_image
from aspirate.workflow.predict import SlideResult
from aspirate.workflow.recipe import Recipe
from aspirate.workflow.sheet import group_outlines, percent, ranked, verdict_of

SIZE = Size(320, 200)
SIDE = 32
GRID = TileGrid(SIZE, SIDE, SIDE, 0.25)  # 10 columns, 7 rows, the last reaching beyond the slide
HOT, WARM = 23, 47
"""Two planted tiles: column 3 of row 2, column 7 of row 4."""


def table(informativeness: NDArray[np.float32], selected: list[int]) -> TileTable:
    kept = np.zeros(len(GRID), bool)
    kept[selected] = True
    malignancy = np.where(kept, np.linspace(-2, 2, len(GRID)), np.nan).astype(np.float32)
    values = {"informativeness": informativeness, "selected": kept, "malignancy": malignancy}
    return TileTable.of_grid("planted", GRID, values)


@pytest.fixture
def tiles() -> TileTable:
    informativeness = np.zeros(len(GRID), np.float32)
    informativeness[[HOT, WARM]] = 1.0, 0.7
    return table(informativeness, [HOT, WARM, 60])


@pytest.fixture(scope="module")
def bundle() -> Bundle:
    recipe = Recipe.of({"side_px": SIDE, "adequacy": {"groups": 2}})
    nets = [seeded(seed, lambda: TileNet("vgg11-quarter", SIDE)) for seed in (0, 1)]
    return Bundle(
        recipe=recipe,
        informativeness=nets[0],
        malignancy=nets[1],
        confident=0.6,
        cuts={"Y": [0.0], "S": [-1.0, -0.25, 0.5, 1.25]},
        threshold=0.125,
        calibration=Calibration(2.0, 0.0, 60, 20),
        mpp_range=(0.25, 0.25),
        figures={},
        slides={"train": 8, "validation": 80},
    )


@pytest.fixture
def slide(tmp_path: Path) -> Iterator[Slide]:
    pixels = np.random.default_rng(0).integers(120, 250, (SIZE.height, SIZE.width, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "planted.png")
    with open_slide(tmp_path / "planted.png", mpp=0.25, name="planted") as opened:
        yield opened


def prediction(adequate: bool = True) -> Prediction:
    said = {"probability": 0.731, "predicted_malignant": True, "predicted_bethesda": 4} if adequate else {}
    status = "ok" if adequate else "inadequate"
    row = Prediction("planted", method="Proposed (U,Y,S)", score=0.4375, adequate=adequate, informative_tiles=2)
    return replace(row, status=status, **said)  # type: ignore[arg-type]


def paths_in(folder: Path) -> EvidencePaths:
    return EvidencePaths(folder / "h.png", folder / "t.geojson", folder / "t.jpg", folder / "s.html")


@pytest.mark.parametrize("scale", [1.0, 2.0, 0.37])
def test_every_pixel_takes_the_value_of_the_tile_that_holds_its_centre(tiles: TileTable, scale: float) -> None:
    height, width = round(SIZE.height * scale), round(SIZE.width * scale)
    image = value_image(tiles, np.arange(len(GRID), dtype=float), SIZE, (height, width))
    expected = [
        [GRID.index_at((x + 0.5) * SIZE.width / width, (y + 0.5) * SIZE.height / height) for x in range(width)]
        for y in range(height)
    ]
    np.testing.assert_array_equal(image, expected)


def test_a_hot_tile_changes_its_own_pixels_and_no_others(tiles: TileTable) -> None:
    thumbnail = np.random.default_rng(1).integers(100, 255, (SIZE.height, SIZE.width, 3), np.uint8)
    cold = overlay(thumbnail, np.zeros((SIZE.height, SIZE.width)))
    heated = overlay(thumbnail, value_image(tiles, tiles.values["informativeness"], SIZE, (SIZE.height, SIZE.width)))
    changed = (cold != heated).any(axis=-1)
    planted = np.zeros_like(changed)
    for index in (HOT, WARM):
        x, y = GRID.corners_px0()[index]
        planted[y : y + SIDE, x : x + SIDE] = True
    np.testing.assert_array_equal(changed, planted)
    assert (cold == cold[..., :1]).all(), "without informativeness the slide is grey"


def test_lightness_of_colours_rises_evenly_and_hot_ones_stand_out() -> None:
    light = colours(np.linspace(0, 1, 101)) @ np.array([0.2126, 0.7152, 0.0722])
    steps = np.diff(light)
    assert (steps > 0).all()
    assert light[-1] - light[0] > 180
    assert steps.max() / steps.mean() < 2.5


def test_glass_is_darker_than_the_faintest_confident_tile() -> None:
    glass = np.full((4, 4, 3), 243, np.uint8)
    assert overlay(glass, np.zeros((4, 4))).max() < 20
    assert overlay(glass, np.full((4, 4), 0.5)).max() > 120


def test_tiles_of_a_large_slide_get_pixels_enough_and_pictures_stay_small() -> None:
    assert heat_map_px(128, Size(4_096, 4_096)) == 1200
    assert heat_map_px(128, Size(40_960, 20_000)) == 1920
    assert heat_map_px(128, Size(200_000, 90_000)) == 2400


def test_files_say_what_the_scores_say(tmp_path: Path, slide: Slide, tiles: TileTable, bundle: Bundle) -> None:
    paths = paths_in(tmp_path)
    write_evidence(slide, SlideResult(prediction(), tiles, 2), bundle, "f" * 64, paths, most_tiles=2)
    with Image.open(paths.heat_map) as picture:
        assert picture.height == SIZE.height + LEGEND_PX
        drawn = np.asarray(picture)[: SIZE.height, : SIZE.width].astype(int)
    x, y = GRID.corners_px0()[HOT]
    saturation = drawn.max(axis=-1) - drawn.min(axis=-1)
    assert saturation[y : y + SIDE, x : x + SIDE].min() > 40
    assert saturation[: 2 * SIDE].max() == 0  # the rows above are grey

    found = read_geojson(paths.geojson)
    order = [HOT, WARM, 60]
    assert [annotation.geometry_px0.bounds for annotation in found] == [
        (x, y, x + SIDE, y + SIDE) for x, y in GRID.corners_px0()[order].tolist()
    ]
    for name in ("informativeness", "malignancy"):
        assert [annotation.measurements[name] for annotation in found] == tiles.values[name][order].tolist()
    features = json.loads(paths.geojson.read_text())["features"]
    assert {feature["properties"]["objectType"] for feature in features} == {"tile"}
    with Image.open(paths.thumbnail) as thumbnail:
        assert thumbnail.size == (240, 150)


def test_geojson_and_sheet_count_from_the_bounds_as_viewers_do(
    tmp_path: Path, slide: Slide, tiles: TileTable, bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ImageSlide, "bounds_px0", (10, 4))
    paths = paths_in(tmp_path)
    write_evidence(slide, SlideResult(prediction(), tiles, 2), bundle, "f" * 64, paths, most_tiles=1)
    assert read_geojson(paths.geojson)[0].geometry_px0.bounds[:2] == (96 - 10, 64 - 4)
    assert read_geojson(paths.geojson, (10, 4))[0].geometry_px0.bounds[:2] == (96, 64)
    assert ">86, 60</a>" in paths.sheet.read_text()


def test_the_sheet_holds_the_numbers_and_asks_nothing_of_anyone(
    tmp_path: Path, slide: Slide, tiles: TileTable, bundle: Bundle
) -> None:
    paths = paths_in(tmp_path)
    write_evidence(slide, SlideResult(prediction(), tiles, 2), bundle, "f" * 64, paths, most_tiles=2)
    html = paths.sheet.read_text(encoding="utf-8")
    assert "Research use only. Not for diagnosis." in html
    assert html.index("Research use only") < html.index("73 %") < html.index("TBS 4</b>")
    assert "about 73 are expected to be malignant" in html
    assert "calibrated on 80 validation slides, and holds" in html
    assert "0.438, is above the decision threshold, 0.125" in html
    for cut in ("-1.00", "-0.25", "0.50", "1.25"):
        assert f">{cut}</text>" in html
    assert "2 tiles of 70 reach informativeness 0.60" in html
    assert "2 separate groups; 2 are needed" in html
    for index in (HOT, WARM):
        assert f"<span>{tiles.values['informativeness'][index]:.3f}</span>" in html
        assert f"<span>{tiles.values['malignancy'][index]:+.3f}</span>" in html
    assert html.count('<img src="data:image/jpeg;base64,') == 2 + 2
    assert "The first 2 of 3 kept tiles; 1 more" in html
    assert outside_requests(html) == []


@pytest.mark.parametrize(
    ("cuts", "said"),
    [((), "learned in training"), ((-1.0, 0.0, 1.0, 2.0), "fitted to the scores of validation slides")],
)
def test_the_sheet_says_where_its_cuts_come_from(
    cuts: tuple[float, ...], said: str, tmp_path: Path, slide: Slide, tiles: TileTable, bundle: Bundle
) -> None:
    paths, one = paths_in(tmp_path), replace(bundle, slide_cuts=cuts)
    write_evidence(slide, SlideResult(prediction(), tiles, 2), one, "f" * 64, paths, most_tiles=2)
    assert f"Cuts between categories were {said}." in paths.sheet.read_text(encoding="utf-8")


def test_an_inadequate_slide_gets_no_diagnosis(tmp_path: Path, slide: Slide, tiles: TileTable, bundle: Bundle) -> None:
    paths = paths_in(tmp_path)
    write_evidence(slide, SlideResult(prediction(adequate=False), tiles, 1), bundle, "f" * 64, paths, most_tiles=9)
    html = paths.sheet.read_text(encoding="utf-8")
    assert "Inadequate: no diagnosis" in html
    assert "1 separate group; 2 are needed" in html
    shown = re.sub(r"<style>.*?</style>|data:image/jpeg;base64,[^\"]*", "", html, flags=re.DOTALL)
    for word in ("TBS", "probability", "threshold,", "malignant", "benign", "0.438", "-0.1"):
        assert word not in shown.lower().replace("tbs", "TBS"), word
    assert shown.count("not confident") == 1  # tile 60 was kept to have a score, not for what it shows
    assert outside_requests(html) == []


def outside_requests(html: str) -> list[str]:
    """Whatever a browser would fetch: only data in the page itself and places on it are allowed."""
    addresses = re.findall(r"(?:src|href|action|data|poster)\s*=\s*[\"']?([^\"'\s>]+)", html)
    found = [address for address in addresses if not address.startswith(("data:", "#"))]
    return found + re.findall(r"https?://|<script|@import|url\(", html)


@pytest.mark.parametrize(
    ("probability", "text"),
    [(0.0, "< 1 %"), (0.0099, "< 1 %"), (0.01, "1 %"), (0.5049, "50 %"), (0.99, "99 %"), (0.9901, "> 99 %")],
)
def test_percent_never_promises_certainty(probability: float, text: str) -> None:
    assert percent(probability) == text


def test_few_calibration_slides_are_called_rough(bundle: Bundle) -> None:
    few = replace(bundle, calibration=Calibration(2.0, 0.0, 4, 2))
    assert "6 validation slides, so it is rough" in verdict_of(prediction(), 3, few, 70).meaning
    assert "rough" not in verdict_of(prediction(), 3, bundle, 70).meaning
    assert "At least" not in verdict_of(prediction(), 3, bundle, 70).seen
    assert verdict_of(prediction(), 3, bundle, 70, counted=False).seen.startswith("At least ")


def test_a_model_without_bethesda_has_a_score_axis_without_zones() -> None:
    axis = score_axis(0.5, 0.0, [], np.array([0.4, 0.6]))
    assert axis.zones == [] and axis.cuts == []
    assert axis.threshold.x < axis.score.x


def test_zones_end_at_the_cuts_and_the_score_lies_in_the_one_that_is_marked() -> None:
    cuts = [-1.0, 0.0, 1.0, 2.0]
    axis = score_axis(1.5, 0.25, cuts, np.array([1.0, 2.0]))
    assert [zone.category for zone in axis.zones] == [2, 3, 4, 5, 6]
    assert [zone.right for zone in axis.zones[:-1]] == [mark.x for mark in axis.cuts]
    assert [zone.category for zone in axis.zones if zone.here] == [5]
    here = axis.zones[3]
    assert here.left < axis.score.x < here.right
    assert (axis.zones[0].left, axis.zones[-1].right) == (0, WIDTH)
    assert axis.share(-99) == 0 and axis.share(99) == 100
    assert axis.share(1.5) == pytest.approx(axis.score.x / WIDTH * 100, abs=0.1)


def test_histogram_counts_every_tile_once_and_one_tile_can_be_seen() -> None:
    values = np.array([0.0] * 5000 + [0.5] * 30 + [0.999, 1.0])
    drawn = histogram(values, confident=0.9)
    assert sum(drawn.counts) == len(values)
    assert [drawn.counts[i] for i in (0, 25, 49)] == [5000, 30, 2]
    heights = {bar.text: bar.height for bar in drawn.bars}
    assert list(heights) == ["0.00–0.02: 5,000 tiles", "0.50–0.52: 30 tiles", "0.98–1.00: 2 tiles"]
    decade = HISTOGRAM_HEIGHT / 4.5  # half a decade for the first tile, then up to 10,000
    expected = [(np.log10(count) + 0.5) * decade for count in (5000, 30, 2)]
    np.testing.assert_allclose(list(heights.values()), expected, atol=0.1)
    assert [bar.confident for bar in drawn.bars] == [False, False, True]
    assert drawn.threshold.x == 900


def test_outlines_go_round_each_group_that_has_a_tile_on_the_sheet() -> None:
    informativeness = np.zeros(len(GRID), np.float32)
    informativeness[[0, 1, 11, 39, 65]] = 0.9  # two and the one touching their edge; two alone
    tiles = table(informativeness, [0])
    outlines, more = group_outlines(tiles, 0.6, 1.0, shown=np.array([39, 1, 0, 5]))
    assert [outline.text for outline in outlines] == ["group of 3 tiles", "group of 1 tile"]
    assert more == 1
    xy = np.array([pair.split() for pair in re.split("[MLZ]", outlines[1].path) if pair], float)
    assert xy.min(axis=0).tolist() == [9 * 32 - 4, 3 * 32 - 4]
    assert xy.max(axis=0).tolist() == [10 * 32 + 4, 4 * 32 + 4]
    assert group_outlines(tiles, 0.95, 1.0, shown=np.array([0, 39])) == ([], 0)


def test_equal_tiles_are_ranked_in_the_order_of_the_slide() -> None:
    informativeness = np.full(len(GRID), 0.5, np.float32)
    informativeness[50] = 0.8
    assert ranked(table(informativeness, [60, 3, 50, 4])).tolist() == [50, 3, 4, 60]


def test_a_sheet_of_noise_stays_small(tmp_path: Path, bundle: Bundle) -> None:
    """Noise compresses worst: fewer tiles are shown then, and the page says how many are not."""
    grid = TileGrid(Size(1280, 1280), 128, 128, 0.25)
    rng = np.random.default_rng(0)
    Image.fromarray(rng.integers(0, 256, (1280, 1280, 3), np.uint8)).save(tmp_path / "noise.png", compress_level=1)
    scores = rng.random(len(grid)).astype(np.float32)
    values = {"informativeness": scores, "selected": scores >= 0, "malignancy": scores}
    paths = paths_in(tmp_path)
    with open_slide(tmp_path / "noise.png", mpp=0.25) as opened:
        tiles = TileTable.of_grid("noise", grid, values)
        write_evidence(opened, SlideResult(prediction(), tiles, 2), bundle, "f" * 64, paths, most_tiles=100)
    html = paths.sheet.read_text(encoding="utf-8")
    assert len(html.encode()) < 2_000_000
    shown = html.count('alt="tile ')
    assert 15 < shown < 100
    assert f"The first {shown} of 100 kept tiles; {100 - shown} more" in html


def test_what_the_scout_guessed_is_half_as_opaque_as_what_was_looked_at(tiles: TileTable) -> None:
    thumbnail = np.full((SIZE.height, SIZE.width, 3), 230, np.uint8)
    exact = np.arange(len(GRID)) != WARM
    guessed = replace(tiles, values={**tiles.values, "exact": exact})
    cold = overlay(thumbnail, np.zeros((SIZE.height, SIZE.width))).astype(float)
    full, faint = (heat_over(thumbnail, each, SIZE).astype(float) for each in (tiles, guessed))
    (x, y), (u, v) = GRID.corners_px0()[[WARM, HOT]]
    warm, hot = np.s_[y : y + SIDE, x : x + SIDE], np.s_[v : v + SIDE, u : u + SIDE]
    np.testing.assert_allclose(faint[warm], (full[warm] + cold[warm]) / 2, atol=1)
    assert np.abs(full[warm] - faint[warm]).max() > 20
    np.testing.assert_array_equal(faint[hot], full[hot])


def test_the_legend_says_whose_the_faint_tiles_are() -> None:
    assert len(Legend(0.6, 2, 70, 0.25, looked_at=70).lines) == 2
    lines = Legend(0.6, 2, 70, 0.25, looked_at=12).lines
    assert lines[1] == "2 of 70 tiles confident (2.86%)"
    assert lines[2] == "12 tiles looked at closely; fainter: the scout's guess"


def test_the_sheet_says_what_was_looked_at_and_what_the_check_found(
    slide: Slide, tiles: TileTable, bundle: Bundle, tmp_path: Path
) -> None:
    logits = np.where(np.arange(len(GRID)) < 10, 1.0, -np.inf).astype(np.float32)
    for looked, words in (
        (None, []),
        (
            Looked(logits, audited=32, found=0, rest=60, widened=0),
            ["10 tiles (14.3%) were looked at closely", "32 tiles were drawn from the last 60", "none of them", "8.9%"],
        ),
        (Looked(logits, 32, 2, 60, 1), ["and 2 of them mattered", "The scout did worse here than it should"]),
        (
            Looked(np.ones_like(logits), 0, 0, 0, 3),
            ["Every tile was looked at closely: the scout could not be trusted"],
        ),
    ):
        result = SlideResult(prediction(), tiles, 2, looked)
        write_evidence(slide, result, bundle, "0" * 64, paths_in(tmp_path), 8)
        page = (tmp_path / "s.html").read_text(encoding="utf-8").replace("&#39;", "'")
        assert [word for word in words if word not in page] == []
        assert ("scout" in page) == bool(words)
