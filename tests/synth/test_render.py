"""Pixels: no seams, nothing of the labels outside groups, nuclei where the truth says."""

import dataclasses
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray

from aspirate.core.geometry import Box
from aspirate.core.labels import Abnormality
from aspirate.synth import render
from aspirate.synth.groups import reach_box
from aspirate.synth.model import Stream, draw_labels, stream
from aspirate.synth.palette import Stain
from aspirate.synth.plan import SlidePlan, plan_slide
from aspirate.synth.render import SlideRenderer
from aspirate.synth.settings import SynthSettings

SIDE = 1536


@cache
def planned(index: int) -> SlidePlan:
    settings = SynthSettings(slides=6, size=(SIDE, SIDE), seed=11)
    return plan_slide(settings, draw_labels(settings, stream(11, Stream.LABELS)), index)


@cache
def drawn(index: int) -> NDArray[np.uint8]:
    return SlideRenderer(planned(index)).region(Box(0, 0, SIDE, SIDE))


def graver(plan: SlidePlan, atypia: float) -> SlidePlan:
    groups = tuple(dataclasses.replace(g, atypia=atypia, abnormality=Abnormality.MALIGNANT) for g in plan.groups)
    return dataclasses.replace(plan, groups=groups)


@pytest.mark.parametrize("index", [0, 1])
def test_a_region_equals_its_pieces(index: int) -> None:
    whole = drawn(index)
    fresh = SlideRenderer(planned(index))
    for box in (Box(700, 300, 301, 517), Box(0, 1200, 1536, 100), Box(511, 511, 2, 2), Box(1000, 37, 519, 64)):
        piece = fresh.region(box)
        assert np.array_equal(piece, whole[box.y : box.y + box.height, box.x : box.x + box.width])


def test_the_size_of_blocks_leaves_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    renderer = SlideRenderer(planned(2))
    monkeypatch.setattr(render, "BLOCK_PX", 96)
    assert np.array_equal(renderer.region(Box(200, 100, 700, 500)), drawn(2)[100:600, 200:900])


def test_labels_show_in_groups_only() -> None:
    plan = planned(3)
    a, b = drawn(3), SlideRenderer(graver(plan, 3.0)).region(Box(0, 0, SIDE, SIDE))
    elsewhere = np.ones((SIDE, SIDE), bool)
    for group in plan.groups:
        box = reach_box(group, plan)
        elsewhere[box.y : box.y + box.height, box.x : box.x + box.width] = False
    assert np.array_equal(a[elsewhere], b[elsewhere])
    assert elsewhere.mean() > 0.6
    assert not np.array_equal(a, b)


def _nuclear(plan: SlidePlan, pixels: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """As dark in red as a nucleus: red cells, film and colloid hardly absorb red light."""
    palette = plan.appearance.palette
    return np.asarray(pixels[..., 0] < 255 * np.exp(-palette.glass[0] - 0.95 * palette.nucleus[0]))


@pytest.mark.parametrize("index", range(6))
def test_nuclei_lie_in_truth_boxes(index: int) -> None:
    clear = dataclasses.replace(planned(index).appearance, defocus=0.0, pen=False, bubbles=0)
    plan = dataclasses.replace(planned(index), appearance=clear)
    dark = _nuclear(plan, SlideRenderer(plan).region(Box(0, 0, SIDE, SIDE)))
    outside = np.ones_like(dark)
    for group in plan.groups:
        box = group.box_px0
        inside = dark[box.y : box.y + box.height, box.x : box.x + box.width]
        assert inside.mean() > 0.06
        outside[box.y - 8 : box.y + box.height + 8, box.x - 8 : box.x + box.width + 8] = False
    assert dark[outside].mean() < 0.02


@pytest.mark.parametrize("atypia", [0.0, 2.5])
def test_truth_boxes_are_tight_whatever_the_grade(atypia: float) -> None:
    """Cytoplasm ends within 2.5 µm of the box's sides: measured on the group's own picture."""
    plan = graver(planned(4), atypia)
    renderer = SlideRenderer(plan)
    for index, group in enumerate(plan.groups):
        picture = renderer._draw_group(index)
        cover = picture.sprite.sum(axis=2) > 0.25 * 1024 * plan.appearance.palette.cytoplasm.sum()
        rows, columns = np.flatnonzero(cover.any(axis=1)), np.flatnonzero(cover.any(axis=0))
        found = [
            picture.x_px0 + columns[0],
            picture.y_px0 + rows[0],
            picture.x_px0 + columns[-1] + 1,
            picture.y_px0 + rows[-1] + 1,
        ]
        box = group.box_px0
        assert np.abs(np.subtract(found, [box.x, box.y, box.x + box.width, box.y + box.height])).max() <= 10


def test_both_stains_occur_and_look_their_part() -> None:
    """Red cells of a Papanicolaou are orange; of a Diff-Quik, nuclei are magenta: green is absorbed most."""
    settings = SynthSettings(slides=40, seed=2)
    labels = draw_labels(settings, stream(2, Stream.LABELS))
    looks = [plan_slide(settings, labels, index).appearance for index in range(40)]
    assert {look.stain for look in looks} == set(Stain)
    for look in looks:
        red, green, blue = look.palette.nucleus
        assert green > blue
        assert look.palette.red_cell[2] > look.palette.red_cell[0]
        if look.stain is Stain.DIFF_QUIK:
            assert green > 1.3 * red
