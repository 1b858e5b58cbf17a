"""Recipes: both load, the paper's has the paper's numbers, and a slip of the pen is told."""

from pathlib import Path

import pytest

from aspirate.core.config import parse_changes
from aspirate.core.errors import ConfigError
from aspirate.nn.tile_net import TileNet, parameters_of
from aspirate.workflow.recipe import BUILT_IN, Recipe, load_recipe
from aspirate.workflow.run_folder import RunFolder


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_recipes_load_and_survive_toml(name: str, tmp_path: Path) -> None:
    recipe = load_recipe(name)
    (tmp_path / "x.toml").write_text(recipe.to_toml(), encoding="utf-8")
    assert load_recipe(str(tmp_path / "x.toml")) == Recipe.from_toml(tmp_path / "x.toml") == recipe


def test_the_papers_numbers() -> None:
    recipe = load_recipe("paper")
    first, second = recipe.informativeness, recipe.malignancy
    assert (recipe.side_px, recipe.mpp) == (128, 0.25)
    assert (first.encoder, first.batch) == ("vgg11", 10)
    assert (second.encoder, second.batch, second.epochs) == ("vgg11", 288, 100)
    for stage in (first, second):
        assert (stage.learning_rate, stage.momentum, stage.weight_decay) == (0.001, 0.99, 1e-7)
        assert stage.schedule == "constant" and stage.optimiser == "sgd"
    assert (recipe.selection.mode, recipe.selection.tiles, recipe.selection.weights) == ("fixed", 1000, "binary")
    assert not second.ordered_cuts and second.labels == "YS" and second.marked_share == 0.2
    assert second.start == "random"


def test_the_compact_recipe_is_small_and_selects_adaptively() -> None:
    recipe = load_recipe("compact")
    assert recipe.selection.mode == "adaptive" and recipe.malignancy.ordered_cuts
    for stage in (recipe.informativeness, recipe.malignancy):
        assert parameters_of(TileNet(stage.encoder, recipe.side_px)) < 1_000_000


def test_single_settings_are_changed_as_typed() -> None:
    typed = ["malignancy.epochs=5", "malignancy.labels=YSV", "seed = 3", "malignancy.augment.turn=false"]
    typed += ["malignancy.weights.S=0.5", 'selection.mode="fixed"', "malignancy.learning_rate=1e-3"]
    recipe = load_recipe("compact", parse_changes(typed))
    second = recipe.malignancy
    assert (second.epochs, second.labels, recipe.seed, second.augment.turn) == (5, "YSV", 3, False)
    assert (second.weights, recipe.selection.mode, second.learning_rate) == ({"S": 0.5}, "fixed", 0.001)
    same = load_recipe("compact")
    assert recipe.informativeness == same.informativeness, "nothing else changed"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        ("scout.shrink=3", r"scout\.shrink: the side of a tile, 128, is no multiple of 3 × 8; use another divisor"),
        ("malignancy.epoch=5", r"recipe compact: malignancy\.epoch: Extra inputs"),
        ("sed=5", r"sed: Extra inputs"),
        ("malignancy.epochs=0", r"malignancy\.epochs: .*got 0"),
        ("malignancy.epochs=many", r"malignancy\.epochs: .*got 'many'"),
        ("malignancy.labels=YX", r"malignancy\.labels: .*got 'YX'"),
        ("malignancy.weights.X=1", r"malignancy: weights: X is no label"),
        (
            "malignancy.encoder=vgg11",
            r"malignancy\.start: stage 2 \(vgg11\) cannot start from stage 1 \(vgg11-quarter\)",
        ),
        ("malignancy.encoder.width=2", r"malignancy\.encoder\.width: encoder is a value"),
        ("malignancy.epochs", r"--set malignancy\.epochs: expected key=value"),
        ("=5", r"--set =5: expected key=value"),
    ],
)
def test_what_makes_no_sense_is_refused(typed: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load_recipe("compact", parse_changes([typed]))


def test_a_recipe_that_is_not_there_or_no_toml(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="'compct': neither compact nor quick nor paper, nor a file"):
        load_recipe("compct")
    (tmp_path / "r.toml").write_text("malignancy = [")
    with pytest.raises(ConfigError, match=r"r\.toml: not TOML"):
        load_recipe(str(tmp_path / "r.toml"))


def test_a_run_folder_belongs_to_one_recipe_and_one_cohort(tmp_path: Path) -> None:
    run = tmp_path / "run"
    recipe = load_recipe("compact", {"malignancy.weights": {"S": 0.5}})
    RunFolder(run).claim(recipe, "these slides")
    before = {p: p.read_bytes() for p in run.iterdir()}
    RunFolder(run).claim(recipe, "these slides")
    with pytest.raises(ConfigError, match="holds a run with other settings"):
        RunFolder(run).claim(load_recipe("compact"), "these slides")
    with pytest.raises(ConfigError, match="other slides, labels or annotations"):
        RunFolder(run).claim(recipe, "those slides")
    assert {p: p.read_bytes() for p in run.iterdir()} == before
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.txt").write_text("mine")
    with pytest.raises(ConfigError, match="not empty and not a run"):
        RunFolder(tmp_path / "other").claim(recipe, "these slides")
    assert [p.name for p in (tmp_path / "other").iterdir()] == ["thesis.txt"]
