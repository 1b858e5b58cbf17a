"""The engines that score a model's tiles, chosen for this machine and checked before they are used."""

from dataclasses import dataclass

import numpy as np

from aspirate.core.errors import AspirateError, ConfigError
from aspirate.engines.choice import candidates, engine_for
from aspirate.engines.engine import Engine
from aspirate.engines.machine import this_machine
from aspirate.engines.turns import Turns
from aspirate.stages.settings import CELLS_AT_ONCE
from aspirate.workflow.admission import Admission
from aspirate.workflow.bundle import NETS, SCOUT, TOLERANCE, Bundle

CHECKED = 16
"""Reference tiles scored when a model is loaded: one batch."""


@dataclass(frozen=True, slots=True)
class Scorers:
    informativeness: Engine
    malignancy: Engine
    scout: Engine | None = None
    """In bf16 where the nets may be, which moves a guess by a few hundredths of a logit; margins go in quarters."""
    notes: tuple[str, ...] = ()
    """What a person should know about this choice."""

    @property
    def name(self) -> str:
        return self.malignancy.name


def scorers_for(bundle: Bundle, asked: str = "auto") -> Scorers:
    """The first engine that reproduces the model's reference scores, or an error that says what differs."""
    admissions = {admission.precision: admission for admission in bundle.reference.admissions}
    names = candidates(asked, [name for name, admission in admissions.items() if admission.admitted])
    notes = _notes(asked, admissions)
    for name in names:
        precision = name.removeprefix("openvino-")
        admission = admissions.get(precision)
        if precision == "int8" and not (admission and admission.ranges):
            raise ConfigError(f"engine={name}: this bundle was made without it; train or bundle it again, or use auto")
        turns = Turns()
        engines = {
            net: engine_for(
                bundle.kept[net],
                name,
                ranges=admission.ranges.get(net) if admission else None,
                fingerprint=bundle.fingerprints[net],
                turns=turns,
            )
            for net in NETS
        }
        wrong = _wrong(bundle, engines, admission)
        if wrong is None:
            rounded = name in ("openvino-bf16", "openvino-int8") and "openvino-bf16" in names
            return Scorers(**engines, scout=_scout(bundle, name, rounded), notes=tuple(notes))
        notes.append(f"{name} is left out: {wrong}")
    raise AspirateError(f"{wrong}; the weights or the libraries are not those it was made with")


def _scout(bundle: Bundle, name: str, rounded: bool) -> Engine | None:
    if bundle.scout is None:
        return None
    beside = "torch" if name == "torch" else "openvino-bf16" if rounded else "openvino-fp32"
    return engine_for(bundle.scout, beside, CELLS_AT_ONCE, fingerprint=bundle.fingerprints[SCOUT])


def _notes(asked: str, admissions: dict[str, Admission]) -> list[str]:
    precision = asked.removeprefix("openvino-")
    if precision != asked and precision != "fp32":
        admission = admissions.get(precision)
        if admission is None or not admission.admitted:
            why = admission.why if admission else "this bundle was never checked for it"
            return [f"{asked} is used because it was asked for, though it is not admitted for this model: {why}"]
    here = this_machine() if asked == "auto" else None
    return [here.note] if here and not here.speeds else []


def _wrong(bundle: Bundle, engines: dict[str, Engine], admission: Admission | None) -> str | None:
    """What differs from the reference by more than it may."""
    reference = bundle.reference
    for net, engine in reversed(engines.items()):  # large nets take turns in memory, and the first is needed first
        allowed = TOLERANCE if admission is None else max(TOLERANCE, admission.allowed(net))
        difference = np.abs(engine.score(reference.tiles[:CHECKED]) - reference.scores[net][:CHECKED]).max(initial=0)
        if not difference <= allowed:
            return (
                f"{net} does not reproduce its reference scores (largest difference {difference:.3g}, "
                f"allowed {allowed:g})"
            )
    return None
