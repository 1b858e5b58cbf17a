"""What the demonstration is made from: small enough for minutes on two cores."""

from aspirate.synth.settings import SynthSettings

DEMO_COHORT = SynthSettings(slides=12, size=(4096, 4096), seed=7, annotated=0.5)
