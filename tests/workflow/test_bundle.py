"""A model on disk: it comes back as it was, or does not come back at all and says why."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from tests.workflow.by_weight import mean_by_weight

from aspirate.core.errors import AspirateError, ImplausibleResolution
from aspirate.engines.torch_engine import TorchEngine
from aspirate.nn.tile_net import TileNet, seeded
from aspirate.stages.calibration import Calibration
from aspirate.workflow.bundle import Bundle, load_bundle, save_bundle
from aspirate.workflow.predict import Model, load_model
from aspirate.workflow.recipe import load_recipe

SIDE = 32
REFERENCE = np.random.default_rng(0).integers(0, 256, (6, SIDE, SIDE, 3), np.uint8)


def net(seed: int, outputs: int = 1) -> TileNet:
    """Random weights, and normalisation that has seen something."""
    made = seeded(seed, lambda: TileNet("vgg11-quarter", SIDE, outputs))
    with torch.no_grad():
        for _ in range(20):
            made.train()(torch.from_numpy(REFERENCE).permute(0, 3, 1, 2))
    return made.eval()


SLIDE_CUTS = (-0.5, 0.0, 0.25, 0.5)


def bundle(two_heads: bool = False) -> Bundle:
    changes = {"side_px": SIDE, "malignancy.two_heads": two_heads, "adequacy.groups": 1, "selection.tiles": 5}
    return Bundle(
        recipe=load_recipe("compact", changes),
        informativeness=net(1),
        malignancy=net(2, outputs=1 + two_heads),
        confident=0.123456789,
        cuts={"Y": [0.0], "S": [-1.5, 0.25, 1.0, 2.0]},
        slide_cuts=SLIDE_CUTS,
        threshold=0.3,
        calibration=Calibration(slope=1.2, offset=-0.7, benign=1000, malignant=700),
        mpp_range=(0.2, 0.25),
        figures={"slide_auc": 0.9},
        slides={"train": 40, "validation": 17},
    )


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bundle") / "model"
    save_bundle(folder, bundle(), REFERENCE)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy to do harm to."""
    return Path(shutil.copytree(made, tmp_path / "model"))


def edit(folder: Path, change: Any) -> None:
    note = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    change(note)
    (folder / "model.json").write_text(json.dumps(note), encoding="utf-8")


@pytest.mark.parametrize("two_heads", [False, True])
def test_it_comes_back_as_it_was(tmp_path: Path, two_heads: bool) -> None:
    before = bundle(two_heads)
    save_bundle(tmp_path, before, REFERENCE)
    after = load_bundle(tmp_path)
    for name in (
        "recipe",
        "confident",
        "cuts",
        "slide_cuts",
        "threshold",
        "calibration",
        "mpp_range",
        "figures",
        "slides",
    ):
        assert getattr(after, name) == getattr(before, name)
    assert after.sha256() == before.sha256()
    for name, one in before.nets.items():
        assert not after.nets[name].training
        # equal weights, but not at equal places in memory, which may move the last bit of a sum
        scores = TorchEngine(after.nets[name]).score(REFERENCE)
        np.testing.assert_allclose(scores, TorchEngine(one).score(REFERENCE), rtol=1e-6)


def test_the_fingerprint_is_of_every_weight_in_its_place() -> None:
    one, other = bundle(), bundle()
    assert one.sha256() == other.sha256()
    with torch.no_grad():
        other.nets["malignancy"].last.bias.add_(1e-6)
    assert one.sha256() != other.sha256()


def test_saving_again_gives_the_same_bytes(made: Path, tmp_path: Path) -> None:
    save_bundle(tmp_path, bundle(), REFERENCE)
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == {p.name: p.read_bytes() for p in made.iterdir()}


def test_no_file_can_execute_anything(made: Path) -> None:
    """By their content: JSON, text, plain numbers in .npy, and safetensors, whose header is JSON."""
    kinds = {path.name: path.read_bytes() for path in made.iterdir()}
    assert set(kinds) == {
        "README.md",
        "informativeness.safetensors",
        "malignancy.safetensors",
        "model.json",
        "reference.npy",
    }
    json.loads(kinds.pop("model.json"))
    kinds.pop("README.md").decode("utf-8")
    array = kinds.pop("reference.npy")
    assert array[:6] == b"\x93NUMPY" and b"'|u1'" in array[:128]
    for content in kinds.values():
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length])
        ends = [value["data_offsets"][1] for name, value in header.items() if name != "__metadata__"]
        assert 8 + length + max(ends) == len(content), "nothing but the tensors it lists"
    for path in made.iterdir():
        assert path.read_bytes()[:2] not in (b"\x80\x02", b"\x80\x04", b"\x80\x05", b"PK"), "no pickle, no archive"


@pytest.mark.parametrize("name", ["informativeness", "malignancy"])
def test_one_flipped_bit_in_the_weights_is_refused(folder: Path, name: str) -> None:
    path = folder / f"{name}.safetensors"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1  # the lowest bit of some number
    path.write_bytes(content)
    with pytest.raises(AspirateError, match=rf"the weights of {name} are not those that model\.json describes"):
        load_bundle(folder)


def test_swapped_nets_are_refused(folder: Path) -> None:
    a, b = folder / "informativeness.safetensors", folder / "malignancy.safetensors"
    content = a.read_bytes()
    a.write_bytes(b.read_bytes())
    b.write_bytes(content)
    with pytest.raises(AspirateError, match=r"the weights of informativeness are not those"):
        load_bundle(folder)


def test_another_net_under_the_same_name_is_refused(folder: Path) -> None:
    path = folder / "malignancy.safetensors"
    tensors = load_file(path)
    tensors["last.weight"] = tensors["last.weight"][:, :10].contiguous()
    save_file(tensors, path)
    with pytest.raises(AspirateError, match="the weights of malignancy are not those"):
        load_bundle(folder)


def test_a_fingerprint_that_was_edited_is_refused(folder: Path) -> None:
    edit(folder, lambda note: note["sha256"].update(malignancy="0" * 64))
    with pytest.raises(AspirateError, match="the weights of malignancy are not those"):
        load_bundle(folder)


def test_scores_that_do_not_reproduce_are_refused_with_the_difference(folder: Path) -> None:
    def change(note: dict[str, Any]) -> None:
        note["reference"]["informativeness"][3] += 0.5

    edit(folder, change)
    told = r"informativeness does not reproduce its reference scores \(largest difference 0\.5, allowed 0\.01\)"
    with pytest.raises(AspirateError, match=told):
        load_model(folder)


def test_the_last_rounding_does_not_matter(folder: Path) -> None:
    def change(note: dict[str, Any]) -> None:
        note["reference"]["informativeness"][3] += 0.005

    edit(folder, change)
    assert load_model(folder).bundle.confident == 0.123456789


def test_a_category_is_by_the_cuts_of_slides_or_where_there_are_none_by_the_learned_ones(folder: Path) -> None:
    scores, u = np.array([0.2, 0.4], np.float32), np.ones(2)
    assert load_bundle(folder).reading.opinion(scores, u).bethesda == 5  # 0.3 among SLIDE_CUTS
    assert bundle(two_heads=True).reading.opinion(scores, u).bethesda == 5
    edit(folder, lambda note: note.pop("slide_cuts"))
    old = load_bundle(folder)
    assert old.slide_cuts == () and old.cuts_of_score == (-1.5, 0.25, 1.0, 2.0)
    assert old.reading.opinion(scores, u).bethesda == 4


def test_other_reference_tiles_are_refused(folder: Path) -> None:
    np.save(folder / "reference.npy", REFERENCE // 8)
    with pytest.raises(AspirateError, match="does not reproduce its reference scores"):
        load_model(folder)


@pytest.mark.parametrize("what", ["reference", "sha256", "recipe", "cuts", "calibration", "outputs", "mpp_range"])
def test_a_note_that_lacks_something_is_refused(folder: Path, what: str) -> None:
    edit(folder, lambda note: note.pop(what))
    with pytest.raises(AspirateError, match=f"not a model bundle, or a damaged one.*{what}"):
        load_bundle(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda note: note["reference"].pop("malignancy"),
        lambda note: note["reference"].update(malignancy=[0.0]),
        lambda note: note["reference"].update(malignancy=["a"] * 6),
        lambda note: note["calibration"].update(slope=None, colour="red"),
        lambda note: note["recipe"].update(colour="red"),
        lambda note: note.update(slide_cuts=[1.0, 0.0, 2.0, 3.0]),
        lambda note: note.update(slide_cuts=[1.0]),
    ],
)
def test_a_note_that_makes_no_sense_is_refused(folder: Path, change: Any) -> None:
    edit(folder, change)
    with pytest.raises(AspirateError, match=r"model"):
        load_bundle(folder)


@pytest.mark.parametrize("name", ["model.json", "informativeness.safetensors", "reference.npy"])
@pytest.mark.parametrize("damage", ["gone", "empty", "cut"])
def test_a_missing_or_broken_file_is_named(folder: Path, name: str, damage: str) -> None:
    path = folder / name
    content = path.read_bytes()
    path.unlink()
    if damage != "gone":
        path.write_bytes(b"" if damage == "empty" else content[: len(content) // 2])
    with pytest.raises(AspirateError, match=r"train|copy"):
        load_bundle(folder)


def test_any_other_folder_is_refused(tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(AspirateError, match=r"not a model bundle.*train or copy it again"):
            load_model(place)


def test_a_pickled_reference_is_not_opened(folder: Path) -> None:
    np.save(folder / "reference.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(AspirateError, match="not a model bundle"):
        load_bundle(folder)


def test_the_card_says_what_a_reader_must_know(made: Path) -> None:
    card = (made / "README.md").read_text(encoding="utf-8")
    for words in ("Not for diagnosis", "40 slides", "1700", "YS", "32 px at 0.25", "0.2 to 0.25", "slide_auc | 0.9"):
        assert words in card


def test_a_slide_of_another_resolution_is_refused_unless_told(made: Path, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    Image.fromarray(rng.integers(0, 256, (128, 160, 3), np.uint8)).save(tmp_path / "a.png")
    model = load_model(made)
    for mpp in (0.1, 0.25, 0.25 * 1.24):
        assert model.predict(tmp_path / "a.png", mpp=mpp).score is not None
    with pytest.raises(ImplausibleResolution, match=r"a: 0\.5 µm/px is coarser .*up to 0\.25.*insist"):
        model.predict(tmp_path / "a.png", mpp=0.5)
    assert model.predict(tmp_path / "a.png", mpp=0.5, any_resolution=True).score is not None


def test_a_prediction_by_hand(made: Path, tmp_path: Path) -> None:
    """Score, category, probability and the order of things, from the nets alone."""
    pixels = np.random.default_rng(2).integers(0, 256, (4 * SIDE, 5 * SIDE, 3), np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    tiles = np.stack(
        [pixels[y : y + SIDE, x : x + SIDE] for y in range(0, 4 * SIDE, SIDE) for x in range(0, 5 * SIDE, SIDE)]
    )
    one = bundle()
    r, g = (TorchEngine(net).score(tiles) for net in one.nets.values())
    p = 1 / (1 + np.exp(-r.astype(float)))
    confident = p >= one.confident
    count = min(5, max(int(confident.sum()), 6))
    best = np.argsort(-p, kind="stable")[:count]
    f = mean_by_weight(g[best], p[best])
    found = Model(load_bundle(made), "torch").predict(tmp_path / "a.png", mpp=0.25)
    assert found.score == pytest.approx(f, abs=1e-5)
    assert np.flatnonzero(found.tiles.values["selected"]).tolist() == sorted(best.tolist())
    assert found.prediction.informative_tiles == confident.sum()
    assert found.adequate == bool(confident.any())
    assert found.probability == pytest.approx(1 / (1 + np.exp(-(1.2 * f - 0.7))), abs=1e-5)
    assert found.bethesda == 2 + sum(f > cut for cut in (-1.5, 0.25, 1.0, 2.0))
    assert found.prediction.predicted_malignant == (f > 0.3)
