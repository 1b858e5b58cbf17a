"""Stage 2 as it is asked about a slide: which head says what, and slides of which nothing was kept."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from aspirate.core.errors import SlideError
from aspirate.core.geometry import Size, TileGrid
from aspirate.core.progress import silent_stages
from aspirate.core.records import SlideEntry
from aspirate.core.tile_file import TileTable, write_tiles
from aspirate.evaluation.splits import Split
from aspirate.learning.device import Compute
from aspirate.nn.tile_net import TileNet
from aspirate.slides.annotations import AnnotationIndex
from aspirate.slides.shelf import Shelf
from aspirate.stages.informativeness import Informativeness
from aspirate.workflow.first_stage import FirstStage, Slides
from aspirate.workflow.methods import choose_methods
from aspirate.workflow.recipe import load_recipe
from aspirate.workflow.run_folder import RunFolder
from aspirate.workflow.second_stage import Proposed, fitting_of

SIDE = 32
KEPT = np.array([True, True, False, True])
U = np.array([0.5, 0.25, 0.1, 0.75], np.float32)


class Colours(nn.Module):
    """One head says how red a tile is, a second how green."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads

    def forward(self, tiles: Tensor) -> Tensor:
        return tiles[:, : self.heads].float().mean((2, 3))


@pytest.fixture
def first(tmp_path: Path) -> FirstStage:
    """Four slides, of each of which three tiles of four are kept, and count by their informativeness."""
    by_p = {"selection.weights": "informativeness", "selection.prevalence": 0.5}
    recipe = load_recipe("compact", {"side_px": SIDE, "mpp": 1.0, **by_p})
    entries = {name: SlideEntry(name, Path("x"), malignant=name in "bd", bethesda=4) for name in "abcd"}
    slides = Slides(entries, AnnotationIndex({}, {}), frozenset())
    compute = Compute("cpu", 1, bf16=False)
    made = FirstStage(slides, Split(("a", "b"), ("c",), ("d",)), recipe, RunFolder(tmp_path), compute, silent_stages)
    for name in entries:
        keep(made, name, KEPT)
    return made


def keep(first: FirstStage, name: str, kept: NDArray[np.bool_]) -> None:
    """Tiles of red 1, 2, 3 and green 10, 20, 40."""
    tiles = np.zeros((int(kept.sum()), SIDE, SIDE, 3), np.uint8)
    tiles[..., 0] = np.arange(1, len(tiles) + 1)[:, None, None]
    tiles[..., 1] = 10 * 2 ** np.arange(len(tiles))[:, None, None]
    first.bank.add(f"{name}.kept", tiles)
    grid = TileGrid(Size(4 * SIDE, SIDE), SIDE, SIDE, 1.0)
    write_tiles(first.folder.tiles(name), TileTable.of_grid(name, grid, {"informativeness": U, "selected": kept}))


def fitted(first: FirstStage, row: str) -> Proposed:
    (method,) = choose_methods([row])
    stage_1 = Informativeness(TileNet("vgg11-quarter", SIDE), np.array([0.9]), [])
    with Shelf() as shelf:
        found = fitting_of(method, first.recipe, first, stage_1, shelf)
    assert isinstance(found, Proposed)
    return found


@pytest.mark.parametrize(
    ("row", "heads", "cuts", "bethesda"),
    [
        ("proposed2heads-uys", 2, [-1.0, 20.0, 25.0, 30.0], 5),  # of green, 26.7
        ("proposed-uys", 1, [1.0, 2.0, 3.0, 4.0], 4),  # of red, 2.2
        ("proposed-uy", 1, None, None),
    ],
)
def test_the_score_is_the_first_heads_mean_and_the_category_the_last_ones(
    first: FirstStage, monkeypatch: pytest.MonkeyPatch, row: str, heads: int, cuts: list[float] | None, bethesda: int
) -> None:
    one = fitted(first, row)
    assert one.learner.module.net.last.out_features == heads
    monkeypatch.setattr(one.learner.module, "net", Colours(heads))
    monkeypatch.setattr(one.learner.module.objective, "cuts_of", lambda label: torch.tensor(cuts or []))
    red = (0.5 * 1 + 0.25 * 2 + 0.75 * 3) / 1.5
    said = one.opinion(first.slides.entries["d"])
    assert said.score == pytest.approx(red) and said.bethesda == bethesda
    assert one.cuts == ({"S": cuts} if heads == 1 and cuts else {}), "only those on the axis of the score"


@pytest.mark.parametrize("row", ["proposed-uys", "proposed2heads-uys", "mixture-uys"])
@pytest.mark.parametrize("bare", ["a", "c", "d"])
def test_a_slide_without_tiles_is_refused_by_its_name(first: FirstStage, row: str, bare: str) -> None:
    """To learn from, to validate on, or to test on."""
    keep(first, bare, np.zeros(4, bool))
    with pytest.raises(SlideError, match=f"{bare}: stage 1 kept none of its tiles; leave the slide out"):
        fitted(first, row).opinion(first.slides.entries["d"])
    if bare == "d":
        assert len(fitted(first, row).tile_scores(first.slides.entries["d"])) == 0


def test_without_stage_1_tiles_come_from_anywhere_and_count_alike(first: FirstStage, tmp_path: Path) -> None:
    """Each tile of a slide has a colour of its own: so many are drawn, none twice, those of other slides apart."""
    rows, columns = 5, 6
    numbers = np.arange(rows * columns, dtype=np.uint8).reshape(rows, columns)
    for count, (name, entry) in enumerate(first.slides.entries.items(), 1):
        pixels = np.stack([numbers, np.full_like(numbers, count), numbers * 0], 2).repeat(SIDE, 0).repeat(SIDE, 1)
        Image.fromarray(pixels).save(tmp_path / f"{name}.png")
        first.slides.entries[name] = replace(entry, path=tmp_path / f"{name}.png", mpp=1.0)
        first.slides.numbers[name] = count
    crops = first.recipe.crops.model_copy(update={"drawn": 20})
    first.recipe = first.recipe.model_copy(update={"crops": crops})
    one = fitted(first, "proposed-ys")
    assert one.settings.labels == "YS" and one.learner.weights is None
    drawn = {}
    for count, entry in enumerate(first.slides.entries.values(), 1):
        stack = one.first.kept(entry)
        assert (stack[..., 1] == count).all() and (stack == stack[:, :1, :1]).all()
        drawn[entry.slide_id] = stack[:, 0, 0, 0].tolist()
        assert len(set(drawn[entry.slide_id])) == 20
        np.testing.assert_array_equal(one.first.weights(entry), np.ones(20))
    assert drawn["a"] != drawn["b"]
    np.testing.assert_array_equal(fitted(first, "mixture-ys").first.kept(entry)[:, 0, 0, 0], drawn["d"])
    one.learner.module.net = Colours(1)  # type: ignore[assignment]
    assert one.opinion(first.slides.entries["d"]).score == pytest.approx(np.mean(drawn["d"]))
    begun = [fitted(first, "proposed-ys").learner.module.net.encoder.state_dict() for _ in range(2)]
    for name, weights in begun[0].items():  # `fitted` makes a stage 1 by chance, from which this does not start
        assert torch.equal(weights, begun[1][name])
    (tmp_path / "a.png").write_bytes(b"no picture")
    (one.first.bank.folder / "a.kept.npy").unlink()
    assert "a" in fitted(first, "proposed-ys").first.slides.failures
