"""A simulated annotator who marks most groups in QuPath, now and then with a neighbouring grade."""

from collections.abc import Iterable
from typing import Any
from uuid import UUID

import numpy as np

from aspirate.core.geometry import Box
from aspirate.core.labels import Abnormality
from aspirate.synth.plan import GroupPlan
from aspirate.synth.settings import SynthSettings

BOXED_PX0 = 256
"""Groups at least this long are drawn around; smaller ones are clicked."""
COLOURS = {
    Abnormality.NORMAL: [60, 160, 80],
    Abnormality.ATYPICAL: [240, 170, 40],
    Abnormality.MALIGNANT: [200, 40, 60],
}


def annotate(settings: SynthSettings, groups: Iterable[GroupPlan], rng: np.random.Generator) -> dict[str, Any]:
    """A GeoJSON FeatureCollection as QuPath exports it, in level-0 pixels."""
    features = []
    for group in groups:
        seen = rng.random() < settings.annotation_recall
        slip = int(rng.choice([-1, 1])) if rng.random() < settings.annotation_noise else 0
        grade = Abnormality(int(np.clip(group.abnormality + slip, 0, 2)))
        geometry = _geometry(group.box_px0, rng)
        identity = UUID(bytes=rng.bytes(16), version=4)
        if seen:
            features.append(_feature(identity, geometry, grade))
    return {"type": "FeatureCollection", "features": features}


def _feature(identity: UUID, geometry: dict[str, Any], grade: Abnormality) -> dict[str, Any]:
    return {
        "type": "Feature",
        "id": str(identity),
        "geometry": geometry,
        "properties": {
            "objectType": "annotation",
            "classification": {"name": grade.name.lower(), "color": COLOURS[grade]},
        },
    }


def _geometry(box: Box, rng: np.random.Generator) -> dict[str, Any]:
    """A box around a large group, else a click near the middle of the group."""
    near = rng.normal(0.5, 0.05, 2).clip(0.3, 0.7)
    if max(box.width, box.height) < BOXED_PX0:
        x, y = box.x + near[0] * box.width, box.y + near[1] * box.height
        return {"type": "Point", "coordinates": [round(float(x), 1), round(float(y), 1)]}
    right, bottom = box.x + box.width, box.y + box.height
    ring = [[box.x, box.y], [right, box.y], [right, bottom], [box.x, bottom], [box.x, box.y]]
    return {"type": "Polygon", "coordinates": [ring]}
