"""A model with a scout on a planted slide: what matters is found by looking at a part of it, and said tile by tile."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from aspirate.core.errors import AspirateError
from aspirate.core.tile_file import read_tiles, write_tiles
from aspirate.nn.tile_net import TileNet, seeded
from aspirate.stages.calibration import Calibration
from aspirate.workflow.bundle import Bundle, load_bundle, save_bundle
from aspirate.workflow.predict import Model
from aspirate.workflow.predict_many import entries_at, predict_many
from aspirate.workflow.recipe import Recipe
from aspirate.workflow.slide_job import PredictSettings
from aspirate.workflow.trust import Trust

SIDE = 32
ROWS, COLUMNS = 40, 50
DARK = (3 * COLUMNS + 4, 3 * COLUMNS + 5, 20 * COLUMNS + 10, 20 * COLUMNS + 40, 33 * COLUMNS + 1, 38 * COLUMNS + 49)
"""Planted tiles: the only ones that r_φ calls informative."""
TRUST = Trust(True, 1.0, 5, 1.0, 1.0, 0.0, 0.1, 0.2)


class Darkness(torch.nn.Module):
    """(N, 3, side, side) → (N, 1): 6 where a tile is black, −6 where it is white."""

    features = 1

    def forward(self, tiles: torch.Tensor) -> torch.Tensor:
        return -3 * tiles.mean((1, 2, 3))[:, None]  # normalised pixels are −2 … 2


def net(side: int) -> TileNet:
    made = seeded(0, lambda: TileNet("scout", side))
    made.encoder, made.last = Darkness(), torch.nn.Linear(1, 1)
    with torch.no_grad():
        made.last.weight.fill_(1.0)
        made.last.bias.fill_(0.0)
    return made.eval()


def bundle(scout: TileNet | None, trust: Trust | None = TRUST) -> Bundle:
    recipe = Recipe.of({"side_px": SIDE, "adequacy": {"groups": 2}, "selection": {"tiles": 100, "least": 2}})
    return Bundle(
        recipe=recipe,
        informativeness=net(SIDE),
        malignancy=net(SIDE),
        confident=0.9,
        cuts={"Y": [0.0]},
        threshold=0.0,
        calibration=Calibration(1.0, 0.0, 50, 50),
        mpp_range=(0.25, 0.25),
        figures={},
        slides={"train": 8, "validation": 5},
        scout=scout,
        trust=trust,
    )


@pytest.fixture(scope="module")
def slide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    shades = np.random.default_rng(0).integers(200, 250, ROWS * COLUMNS).astype(np.uint8)
    shades[list(DARK)] = 10
    pixels = shades.reshape(ROWS, COLUMNS).repeat(SIDE, 0).repeat(SIDE, 1)
    path = tmp_path_factory.mktemp("slides") / "planted.png"
    Image.fromarray(pixels).convert("RGB").save(path)
    return path


def shifted(by: float) -> TileNet:
    """A scout that is off by so many logits everywhere."""
    made = net(SIDE // 4)
    with torch.no_grad():
        made.last.bias.fill_(by)
    return made


def selected(values: dict[str, NDArray[np.generic]]) -> list[int]:
    return np.flatnonzero(values["selected"]).tolist()


def test_what_matters_is_found_by_looking_at_a_part(slide: Path) -> None:
    model = Model(bundle(shifted(0.3)), "torch")
    quick, whole = model.predict(slide, mpp=0.25), model.predict(slide, mpp=0.25, exact=True)
    assert selected(dict(quick.tiles.values)) == selected(dict(whole.tiles.values)) == list(DARK)
    assert quick.prediction == whole.prediction and quick.groups == whole.groups == 5
    assert whole.looked is None and whole.tiles.values["exact"].all()
    looked = quick.looked
    assert looked is not None and looked.at.sum() == len(DARK) + 32 + 32 and looked.widened == 0
    np.testing.assert_array_equal(quick.tiles.values["exact"], looked.at)


def test_tiles_that_were_not_looked_at_have_the_scouts_guess(slide: Path) -> None:
    quick, whole = (
        Model(bundle(shifted(0.3)), "torch").predict(slide, mpp=0.25, exact=exact) for exact in (False, True)
    )
    exact = quick.tiles.values["exact"]
    p, r = quick.tiles.values["informativeness"].astype(float), whole.tiles.values["informativeness"].astype(float)
    np.testing.assert_allclose(p[exact], r[exact], atol=1e-6)
    guessed = np.log(p / (1 - p))[~exact]
    np.testing.assert_allclose(guessed, np.log(r / (1 - r))[~exact] + 0.3, atol=0.15)


def test_a_scout_that_calls_everything_informative_changes_nothing_but_the_time(slide: Path) -> None:
    model = Model(bundle(shifted(12.0)), "torch")
    quick, whole = model.predict(slide, mpp=0.25), model.predict(slide, mpp=0.25, exact=True)
    assert quick.prediction == whole.prediction
    assert quick.looked is not None and quick.looked.share == 1 and not quick.looked.rest


def test_a_scout_that_misses_everything_is_noticed_on_the_slide(slide: Path) -> None:
    quick = Model(bundle(shifted(-12.0)), "torch").predict(slide, mpp=0.25)
    assert selected(dict(quick.tiles.values)) == list(DARK)
    assert quick.adequate and quick.prediction.informative_tiles == len(DARK)


def test_without_trust_in_the_scout_every_tile_is_looked_at(slide: Path) -> None:
    for one in (bundle(None, None), bundle(None, replace(TRUST, admitted=False))):
        found = Model(one, "torch").predict(slide, mpp=0.25)
        assert found.looked is None and found.tiles.values["exact"].all()


def test_who_scored_a_tile_is_kept_with_the_tiles(slide: Path, tmp_path: Path) -> None:
    found = Model(bundle(shifted(0.0)), "torch").predict(slide, mpp=0.25)
    write_tiles(tmp_path / "a.h5", found.tiles)
    exact = read_tiles(tmp_path / "a.h5").values["exact"]
    assert exact.dtype == bool and exact.sum() == found.looked.at.sum()  # type: ignore[union-attr]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """Nets that can be saved: those of the recipe."""
    plain = [seeded(seed, lambda: TileNet("vgg11-quarter", SIDE)).eval() for seed in (1, 2)]
    scout = seeded(3, lambda: TileNet("scout", SIDE // 4)).eval()
    one = replace(bundle(scout), informativeness=plain[0], malignancy=plain[1])
    save_bundle(tmp_path / "model", one, np.random.default_rng(0).integers(0, 256, (8, SIDE, SIDE, 3), np.uint8))
    return tmp_path / "model"


def test_the_bundle_keeps_the_scout_and_why_it_is_trusted(saved: Path) -> None:
    again = load_bundle(saved)
    assert again.trust == TRUST
    expected = seeded(3, lambda: TileNet("scout", SIDE // 4)).state_dict()
    for name, tensor in again.weights["scout"].state_dict().items():
        torch.testing.assert_close(tensor, expected[name])
    assert "A scout decides which tiles are looked at closely" in (saved / "README.md").read_text(encoding="utf-8")


def test_a_scout_that_was_changed_is_refused(saved: Path) -> None:
    path = saved / "scout.safetensors"
    content = bytearray(path.read_bytes())
    content[-5] ^= 1
    path.write_bytes(content)
    with pytest.raises(AspirateError, match=r"the weights of scout are not those that model\.json describes"):
        load_bundle(saved)


def test_saving_a_model_without_a_scout_leaves_none_behind(saved: Path) -> None:
    old = load_bundle(saved)
    reference = np.load(saved / "reference.npy")
    save_bundle(saved, replace(old, scout=None, trust=replace(TRUST, admitted=False)), reference)
    assert not (saved / "scout.safetensors").exists() and load_bundle(saved).scout is None
    assert "is not used, so every tile is looked at closely" in (saved / "README.md").read_text(encoding="utf-8")


def test_results_of_another_scout_or_of_looking_everywhere_are_not_taken_for_these(slide: Path, tmp_path: Path) -> None:
    entries = entries_at([slide])
    settings = PredictSettings(mpp=0.25)

    def skipped(one: Bundle, exact: bool = False) -> tuple[str, ...]:
        asked = settings.model_copy(update={"exact": exact})
        return predict_many(Model(one, "torch"), entries, tmp_path / "out", asked).skipped

    assert skipped(bundle(shifted(0.0))) == ()
    assert skipped(bundle(shifted(0.0))) == ("planted",)
    assert skipped(bundle(shifted(0.5))) == ()
    assert skipped(bundle(shifted(0.5), replace(TRUST, margin=2.0))) == ()
    assert skipped(bundle(shifted(0.5), replace(TRUST, margin=2.0)), exact=True) == ()
    tiles = read_tiles(tmp_path / "out" / "tiles" / "planted.h5").values
    assert tiles["exact"].all()
