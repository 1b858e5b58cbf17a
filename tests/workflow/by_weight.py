"""A mean over kept tiles as the method defines it: u = π·p / (π·p + (1 − π)·(1 − p)), π = 0.01."""

import numpy as np
from numpy.typing import NDArray

PREVALENCE = 0.01


def mean_by_weight(scores: NDArray[np.floating], p: NDArray[np.floating]) -> float:
    real, other = PREVALENCE * p.astype(float), (1 - PREVALENCE) * (1 - p.astype(float))
    u = real / (real + other)
    return float((u * scores.astype(float)).sum() / u.sum())
