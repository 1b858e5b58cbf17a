"""Groups lie inside slide and smear, apart from each other, wherever grades fall."""

import dataclasses

import numpy as np
import pytest

from aspirate.core.errors import ConfigError
from aspirate.synth.model import Stream, draw_labels, stream
from aspirate.synth.plan import plan_slide
from aspirate.synth.settings import SynthSettings


@pytest.mark.parametrize("size", [(1024, 1024), (3000, 1500), (20_000, 12_500)])
def test_boxes_are_inside_and_apart(size: tuple[int, int]) -> None:
    settings = SynthSettings(slides=12, size=size, seed=3)
    labels = draw_labels(settings, stream(3, Stream.LABELS))
    for index in range(12):
        plan = plan_slide(settings, labels, index)
        boxes = [g.box_px0 for g in plan.groups]
        taken = np.zeros((-(-size[1] // 4), -(-size[0] // 4)), np.int64)  # brute force on a raster of 4 pixels
        for box in boxes:
            assert box.x >= 0
            assert box.y >= 0
            assert box.x + box.width <= size[0]
            assert box.y + box.height <= size[1]
            taken[box.y // 4 : -(-(box.y + box.height) // 4), box.x // 4 : -(-(box.x + box.width) // 4)] += 1
            corners = np.array([[box.x, box.y], [box.x + box.width, box.y + box.height]], np.float64)
            assert (plan.smear.depth(corners[:, 0], corners[:, 1]) > 0).all()
        assert taken.max() == 1
        assert [g.abnormality for g in plan.groups] == labels.grades[index].tolist()


def test_only_atypia_follows_the_grades() -> None:
    settings = SynthSettings(slides=4, size=(2048, 2048))
    labels = draw_labels(settings, stream(0, Stream.LABELS))
    graver = dataclasses.replace(
        labels,
        malignant=~labels.malignant,
        bethesda=np.full(4, 6),
        grades=tuple(np.full_like(g, 2) for g in labels.grades),
    )
    for index in range(4):
        a, b = plan_slide(settings, labels, index), plan_slide(settings, graver, index)
        assert [g.box_px0 for g in a.groups] == [g.box_px0 for g in b.groups]
        assert a.appearance.numbers() == b.appearance.numbers()
        shift = [h.atypia - g.atypia for g, h in zip(a.groups, b.groups, strict=True)]
        assert shift == pytest.approx([2 - int(g.abnormality) for g in a.groups])


def test_atypia_of_neighbouring_grades_overlaps() -> None:
    """With σ = 0.6 a midway cut errs on Φ(−0.5 / 0.6) = 20 % of groups."""
    settings = SynthSettings(slides=400, size=(4096, 4096))
    labels = draw_labels(settings, stream(1, Stream.LABELS))
    groups = [g for index in range(400) for g in plan_slide(settings, labels, index).groups]
    normal = np.array([g.atypia for g in groups if g.abnormality == 0])
    assert (normal > 0.5).mean() == pytest.approx(0.2023, abs=0.03)


def test_too_many_groups_for_the_glass_is_said() -> None:
    settings = SynthSettings(slides=2, size=(1024, 1024), min_groups=50)
    labels = draw_labels(settings, stream(0, Stream.LABELS))
    with pytest.raises(ConfigError, match="do not fit on a slide of 1024x1024"):
        plan_slide(settings, labels, 0)
