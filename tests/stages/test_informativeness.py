"""Stage 1 on slides whose informative tiles are known: what it is shown, when it stops, what it finds."""

from pathlib import Path

import numpy as np
import pytest
import shapely
import torch
from numpy.typing import NDArray
from PIL import Image
from sklearn.metrics import roc_auc_score

from aspirate.core.errors import AspirateError
from aspirate.core.geometry import Size, TileGrid
from aspirate.core.labels import Abnormality
from aspirate.core.logits import sigmoid
from aspirate.core.records import Annotation
from aspirate.engines.torch_engine import TorchEngine
from aspirate.learning.augment import coloured
from aspirate.learning.device import Compute
from aspirate.learning.settings import AugmentSettings
from aspirate.learning.tile_bank import TileBank
from aspirate.nn.tile_net import TileNet
from aspirate.slides.reader import open_slide
from aspirate.stages.informativeness import InformativenessLearner, collect, marked_tiles, train_informativeness
from aspirate.stages.selection import SelectionSettings, confident_from, select
from aspirate.stages.settings import InformativenessSettings

CPU = Compute("cpu", 1, bf16=False)
SIDE, MPP = 32, 0.25
PLAIN = AugmentSettings(turn=False, strength=0, hue=0, light=0, focus=0)
GROUP, BLOOD = (90, 60, 150), (220, 120, 110)


def settings(**changes: object) -> InformativenessSettings:
    small = {"batch": 32, "epochs": 4, "least_steps": 25, "drawn_per_slide": 96, "shift_px": 4}
    return InformativenessSettings.of(small | changes)


def draw_slide(path: Path, seed: int, groups: int = 16) -> NDArray[np.bool_]:
    """768², noisy glass with violet discs in tiles that are returned as true, and red ones in others."""
    rng = np.random.default_rng(seed)
    pixels = rng.normal(232, 6, (768, 768, 3))
    places = rng.choice(24 * 24, groups + 60, replace=False)
    y, x = np.mgrid[:SIDE, :SIDE]
    for number, place in enumerate(places):
        row, column = divmod(int(place), 24)
        centre = SIDE / 2 + rng.uniform(-2, 2, 2)
        inside = (x - centre[0]) ** 2 + (y - centre[1]) ** 2 < rng.uniform(7, 10) ** 2
        colour = np.array(GROUP if number < groups else BLOOD) + rng.normal(0, 10, 3)
        pixels[row * SIDE : (row + 1) * SIDE, column * SIDE : (column + 1) * SIDE][inside] += colour - 232
    Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8)).save(path)
    truth = np.zeros(24 * 24, bool)
    truth[places[:groups]] = True
    return truth


def points(grid: TileGrid, tiles: NDArray[np.int64]) -> list[Annotation]:
    centres = grid.corners_px0()[tiles] + grid.side_px0 / 2
    return [Annotation(shapely.Point(*centre), Abnormality.ATYPICAL) for centre in centres.tolist()]


def test_marked_tiles_by_brute_force() -> None:
    """Every tile whose middle square a mark meets, and one tile centred on each mark, with their grades."""
    grid = TileGrid.cover(Size(640, 480), MPP, SIDE, MPP)
    marks = [
        Annotation(shapely.Point(100.0, 50.0), Abnormality.MALIGNANT),
        Annotation(shapely.box(200, 200, 290, 250), Abnormality.NORMAL),
        Annotation(shapely.Point(639, 479), None),
        Annotation(shapely.Point(700, 100), Abnormality.NORMAL),  # beside the slide
    ]
    expected, owners = [], []
    for number, mark in enumerate(marks):
        grade = -1 if mark.abnormality is None else int(mark.abnormality)
        for x, y in grid.corners_px0().tolist():
            shape = mark.geometry_px0
            middle = shapely.box(x + 8, y + 8, x + 24, y + 24)
            holds = x <= shape.centroid.x < x + SIDE and y <= shape.centroid.y < y + SIDE
            if middle.intersection(shape).area > 0 if shape.area else holds:
                expected.append((x, y, grade))
                owners.append(number)
    expected += [(84, 34, 2), (229, 209, 0), (623, 463, -1)]  # centred, rounded to whole pixels
    found = marked_tiles(grid, marks)
    rows = [(x, y, g) for (x, y), g in zip(found.corners_px0.tolist(), found.grades.tolist(), strict=True)]
    assert rows == expected
    assert len(expected) == 1 + 6 + 1 + 3
    assert found.owners.tolist() == [*owners, -1, -1, -1]


def test_no_marks_are_no_tiles() -> None:
    found = marked_tiles(TileGrid.cover(Size(640, 480), MPP, SIDE, MPP), [])
    assert found.corners_px0.shape == (0, 2) and found.grades.shape == (0,)


def test_collected_pixels_are_the_slides(tmp_path: Path) -> None:
    truth = draw_slide(tmp_path / "a.png", seed=1)
    pixels = np.pad(np.asarray(Image.open(tmp_path / "a.png")), ((8, 8), (8, 8), (0, 0)), constant_values=255)
    bank = TileBank(tmp_path / "bank")
    with open_slide(tmp_path / "a.png", mpp=MPP, name="a") as slide:
        grid = TileGrid.cover(slide.size_px0, MPP, SIDE, MPP)
        marks = points(grid, np.flatnonzero(truth)[:5])
        collect(slide, grid, marks, bank, settings(shift_px=8), seed=3)
        before = {p: p.stat().st_mtime_ns for p in bank.folder.iterdir()}
        collect(slide, grid, marks, bank, settings(shift_px=8), seed=3)
        assert {p: p.stat().st_mtime_ns for p in bank.folder.iterdir()} == before, "what is there is not read again"
    corners = marked_tiles(grid, marks).corners_px0
    expected = np.stack([pixels[y : y + 48, x : x + 48] for x, y in corners])  # 8 px of margin each way
    np.testing.assert_array_equal(bank.stack("a.marked"), expected)
    drawn = bank.stack("a.drawn")
    assert len(drawn) == 96
    whole = {pixels[y + 8 : y + 40, x + 8 : x + 40].tobytes() for x, y in grid.corners_px0()}
    assert {tile.tobytes() for tile in drawn} <= whole
    assert len({tile.tobytes() for tile in drawn}) == 96, "none twice"


def test_a_slide_that_is_finer_is_scaled_and_its_margin_with_it(tmp_path: Path) -> None:
    draw_slide(tmp_path / "a.png", seed=1)
    bank = TileBank(tmp_path / "bank")
    with open_slide(tmp_path / "a.png", mpp=MPP / 2, name="a") as slide:
        grid = TileGrid.cover(slide.size_px0, MPP / 2, SIDE, MPP)
        mark = Annotation(shapely.Point(160, 160))
        collect(slide, grid, [mark], bank, settings(drawn_per_slide=1000, shift_px=4), seed=0)
        corners = marked_tiles(grid, [mark]).corners_px0
        assert corners.tolist() == [[128, 128], [128, 128]]
        np.testing.assert_array_equal(bank.stack("a.marked")[0], slide.read_squares(corners[:1] - 8, 80, 40)[0])
    assert bank.count("a.drawn") == len(grid) == 144


@pytest.fixture
def coded(tmp_path: Path) -> TileBank:
    """Three slides; a tile's red says its slide, its green its row, blue whether it was marked (200) or drawn (50).

    Marked patches have a rim of other colours wherever a shifted crop may not reach.
    """
    bank = TileBank(tmp_path)
    for slide, (marked, drawn) in enumerate([(2, 10), (0, 40), (6, 90)]):
        for kind, count, side, blue in (("marked", marked, 40, 200), ("drawn", drawn, SIDE, 50)):
            if count:
                tiles = np.empty((count, side, side, 3), np.uint8)
                tiles[..., 0], tiles[..., 1], tiles[..., 2] = slide, np.arange(count)[:, None, None], blue
                if kind == "marked":  # columns and rows can be told: where a crop comes from
                    tiles[:, 0, :, 0], tiles[:, 0, :, 1] = np.arange(side) + 100, 255
                bank.add(f"s{slide}.{kind}", tiles)
        bank.add(f"s{slide}.owners", np.arange(marked))
    return bank


def coded_learner(bank: TileBank, seed: int = 0, **changes: object) -> InformativenessLearner:
    return InformativenessLearner(bank, ["s0", "s1", "s2"], ["s2"], SIDE, settings(augment=PLAIN, **changes), seed)


def test_half_marked_half_drawn_uniform_over_annotations_and_over_slides(coded: TileBank) -> None:
    learner = coded_learner(coded)
    marked, drawn = [], []
    for step in range(150):
        tiles, informative = coloured(learner.batch(step))
        assert tiles.shape == (32, 3, SIDE, SIDE) and tiles.dtype == torch.uint8
        code = tiles[:, :, -1, -1].numpy()
        assert (informative.numpy() == (code[:, 2] == 200)).all()
        assert informative.sum() == 16
        marked += [tuple(c) for c in code[code[:, 2] == 200, :2].tolist()]
        drawn += [tuple(c) for c in code[code[:, 2] == 50, :2].tolist()]
    annotations = {(0, row) for row in range(2)} | {(2, row) for row in range(6)}
    assert set(marked) == annotations
    counts = np.array([marked.count(place) for place in sorted(annotations)])
    assert np.abs(counts - 300).max() < 5 * np.sqrt(300), "2400 draws over 8 annotations"
    by_slide = np.bincount([slide for slide, _ in drawn], minlength=3)
    assert np.abs(by_slide - 800).max() < 5 * np.sqrt(800), "2400 draws over 3 slides, whatever their tiles"
    rows = np.bincount([row for slide, row in drawn if slide == 0], minlength=10)
    assert (np.abs(rows - by_slide[0] / 10) < 5 * np.sqrt(by_slide[0] / 10)).all()


def test_a_batch_depends_on_seed_and_step_alone(coded: TileBank) -> None:
    learner = InformativenessLearner(coded, ["s0", "s1", "s2"], ["s2"], SIDE, settings(), seed=4)
    late = coloured(learner.batch(7))[0]
    learner.batch(0)
    again = InformativenessLearner(coded, ["s0", "s1", "s2"], ["s2"], SIDE, settings(), seed=4)
    assert torch.equal(coloured(again.batch(7))[0], late)
    assert not torch.equal(coloured(again.batch(8))[0], late)
    other = InformativenessLearner(coded, ["s0", "s1", "s2"], ["s2"], SIDE, settings(), seed=5)
    assert not torch.equal(coloured(other.batch(7))[0], late)
    for a, b in zip(learner.module.parameters(), again.module.parameters(), strict=True):
        assert torch.equal(a, b)
    assert any(
        not torch.equal(a, b) for a, b in zip(learner.module.parameters(), other.module.parameters(), strict=True)
    )


def test_shifted_crops_come_from_everywhere_inside_the_patch(coded: TileBank) -> None:
    """The first row of a patch tells its columns; crops that begin there say how far they were shifted."""
    learner = coded_learner(coded)
    lefts, tops = set(), 0
    for step in range(150):
        tiles, informative = coloured(learner.batch(step))
        top = tiles[informative.bool()][:, :, 0].numpy()  # (16, 3, side)
        at_top = top[:, 1, 0] == 255
        tops += int(at_top.sum())
        for row in top[at_top, 0]:
            assert (np.diff(row.astype(int)) == 1).all(), "a crop is one piece of the patch"
            lefts.add(int(row[0]) - 100)
    assert lefts == set(range(9)), "eight pixels of room, both ends included"
    assert abs(tops - 2400 / 9) < 5 * np.sqrt(2400 / 9)


def test_held_out_tiles_are_shown_as_they_will_be_scored(coded: TileBank) -> None:
    learner = coded_learner(coded, stop="paper")
    seen: list[NDArray[np.uint8]] = []

    class Spy(torch.nn.Module):
        def forward(self, tiles: torch.Tensor) -> torch.Tensor:
            seen.append(tiles.permute(0, 2, 3, 1).numpy().copy())
            return tiles[:, 2, 0, :1].float() / 100 - 1  # 1 for marked, −½ for drawn

    figures = learner.validate(Spy())
    shown = np.concatenate(seen)
    assert len(shown) == 6 + 90
    np.testing.assert_array_equal(shown[:6], coded.stack("s2.marked")[:, 4:-4, 4:-4])
    np.testing.assert_array_equal(shown[6:], coded.stack("s2.drawn"))
    assert figures["judged"] == figures["mean_positive"] == pytest.approx(1 / (1 + np.exp(-1)))
    assert figures["auc"] == 1.0


def test_an_annotation_is_held_by_its_best_tile_of_the_grid(coded: TileBank) -> None:
    """Of six tiles two mark the first annotation, three the third, none the second; the last lies beside the grid."""
    coded.add("s2.owners", np.array([0, 2, 2, 0, 2, -1]))

    class Row(torch.nn.Module):
        def forward(self, tiles: torch.Tensor) -> torch.Tensor:
            return torch.tensor([5.0, 1.0, 7.0, 2.0, 4.0, 9.0])[tiles[:, 1, 8, :1].long()]

    learner = coded_learner(coded)
    np.testing.assert_array_equal(learner.held_annotations(Row()), [5.0, 7.0])
    coded.add("s2.owners", np.full(6, -1))
    with pytest.raises(AspirateError, match="no annotation lies within a slide to validate on"):
        learner.held_annotations(Row())


def test_an_epoch_shows_every_mark_once_but_is_never_too_short(coded: TileBank) -> None:
    assert coded_learner(coded, least_steps=1, batch=4).steps_per_epoch == 4, "8 marks, 2 in a batch"
    assert coded_learner(coded, least_steps=25).steps_per_epoch == 25


def test_it_stops_by_the_mean_positive_prediction_whatever_the_auc(
    coded: TileBank, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learner = coded_learner(coded, epochs=6, least_steps=1, batch=4, stop="paper")
    means, aucs = [0.6, 0.8, 0.79, 0.99], [0.5, 0.6, 0.9, 1.0]
    kept: list[dict[str, torch.Tensor]] = []

    def told(module: torch.nn.Module) -> dict[str, float]:
        kept.append({name: tensor.clone() for name, tensor in module.state_dict().items()})
        number = len(kept) - 1
        return {"judged": means[number], "mean_positive": means[number], "auc": aucs[number]}

    monkeypatch.setattr(learner, "validate", told)
    found = train_informativeness(learner, tmp_path / "run", CPU, lambda _step, _loss: None)
    assert [row["mean_positive"] for row in found.history] == [0.6, 0.8, 0.79]
    for name, tensor in found.net.state_dict().items():
        assert torch.equal(tensor, kept[1][name]), "the second epoch's weights"


def test_without_the_papers_rule_it_trains_to_the_end_and_keeps_the_last_epoch(coded: TileBank, tmp_path: Path) -> None:
    learner = coded_learner(coded, epochs=5, least_steps=1, batch=4)
    found = train_informativeness(learner, tmp_path / "run", CPU, lambda _step, _loss: None)
    assert len(found.history) == 5 and found.kept is found.history[-1]
    assert float(sigmoid(learner.held_scores(found.net, "marked")).mean()) == found.kept["mean_positive"]


def test_sigmoid_of_large_logits() -> None:
    np.testing.assert_allclose(sigmoid(np.array([-80, 0, 80], np.float32)), [np.exp(-80.0), 0.5, 1.0])


def test_it_finds_the_groups_that_were_planted(tmp_path: Path) -> None:
    bank = TileBank(tmp_path / "bank")
    names = [f"s{i}" for i in range(8)]
    truth = {name: draw_slide(tmp_path / f"{name}.png", seed=i) for i, name in enumerate(names)}
    grid = TileGrid.cover(Size(768, 768), MPP, SIDE, MPP)
    for i, name in enumerate(names[:7]):
        marks = points(grid, np.flatnonzero(truth[name])[: 0 if i == 3 else 8])  # half of them; one slide has none
        with open_slide(tmp_path / f"{name}.png", mpp=MPP, name=name) as slide:
            collect(slide, grid, marks, bank, settings(), seed=i)
    learner = InformativenessLearner(bank, names[:5], names[5:7], SIDE, settings(), seed=0)
    found = train_informativeness(learner, tmp_path / "run", CPU, lambda _step, _loss: None)
    assert isinstance(found.net, TileNet)
    assert max(row["mean_positive"] for row in found.history) > 0.9

    with open_slide(tmp_path / "s7.png", mpp=MPP, name="s7") as slide:  # never seen
        scores = sigmoid(TorchEngine(found.net).score(slide.read_squares(grid.corners_px0(), SIDE, SIDE)))
    assert roc_auc_score(truth["s7"], scores) >= 0.98
    threshold = confident_from(found.held, recall=0.9)
    adaptive = select(scores, threshold, SelectionSettings(mode="adaptive", tiles=100, least=1))
    fixed = select(scores, threshold, SelectionSettings(mode="fixed", tiles=16))
    np.testing.assert_array_equal(fixed, truth["s7"])
    assert adaptive.sum() >= 10 and not (adaptive & ~truth["s7"]).any(), "none that is not real, most of the sixteen"
