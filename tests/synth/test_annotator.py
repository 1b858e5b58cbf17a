"""Simulated annotations: QuPath's form, most groups, grades nearly right."""

import numpy as np
import pytest

from aspirate.core.geometry import Box
from aspirate.core.labels import Abnormality, parse_abnormality
from aspirate.synth.annotator import BOXED_PX0, annotate
from aspirate.synth.plan import GroupPlan
from aspirate.synth.settings import SynthSettings

GROUPS = [GroupPlan(Box(1000 * i, 50, 100 + i % 300, 120), Abnormality(i % 3), 0.0) for i in range(3000)]


def test_recall_and_noise_are_as_set() -> None:
    settings = SynthSettings(annotation_recall=0.8, annotation_noise=0.1)
    marks = annotate(settings, GROUPS, np.random.default_rng(0))
    assert marks["type"] == "FeatureCollection"
    assert len(marks["features"]) / 3000 == pytest.approx(0.8, abs=0.03)
    wrong = 0
    for feature in marks["features"]:
        where = feature["geometry"]["coordinates"]
        x = where[0] if feature["geometry"]["type"] == "Point" else where[0][0][0]
        group = GROUPS[int(x // 1000)]
        grade = parse_abnormality(feature["properties"]["classification"]["name"])
        assert grade is not None
        assert abs(grade - group.abnormality) <= 1
        wrong += grade != group.abnormality
    # A slip below normal or above malignant has nowhere to go: a third of groups each, half of slips.
    assert wrong / len(marks["features"]) == pytest.approx(0.1 * 2 / 3, abs=0.015)


def test_small_groups_are_clicked_and_large_ones_boxed() -> None:
    settings = SynthSettings(annotation_recall=1.0)
    features = annotate(settings, GROUPS[:300], np.random.default_rng(1))["features"]
    for feature, group in zip(features, GROUPS, strict=False):
        box, geometry = group.box_px0, feature["geometry"]
        if box.width < BOXED_PX0:
            x, y = geometry["coordinates"]
            assert box.x < x < box.x + box.width
            assert box.y < y < box.y + box.height
        else:
            ring = np.array(geometry["coordinates"][0])
            assert ring[0].tolist() == ring[-1].tolist()
            assert ring.min(axis=0).tolist() == [box.x, box.y]
            assert ring.max(axis=0).tolist() == [box.x + box.width, box.y + box.height]
    assert len({feature["id"] for feature in features}) == 300
