"""Settings of a synthetic cohort refuse what cannot be drawn."""

import pytest

from aspirate.core.errors import ConfigError
from aspirate.synth.settings import SynthSettings


@pytest.mark.parametrize(
    ("values", "named"),
    [
        ({"size": (1000, 4096)}, "1000x4096"),
        ({"size": (1024, 1024), "mpp": 0.1}, "2560"),
        ({"informative": (0.02, 0.001)}, "informative"),
        ({"slides": 4, "patients": 5}, "patients 5"),
        ({"slides": 1}, "slides"),
        ({"format": "png"}, "format"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_contradictions_are_named(values: dict[str, object], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        SynthSettings.of(values)


def test_patients_default_to_one_and_a_tenth_slides_each() -> None:
    assert SynthSettings(slides=110).patient_count == 100
    assert SynthSettings(slides=110, patients=40).patient_count == 40
    assert SynthSettings(slides=2).patient_count == 2
