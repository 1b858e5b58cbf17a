"""Probabilities as logits, and back."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

LARGEST_LOGIT = 17.0
"""Beyond it a probability in 32 bits is 0 or 1."""


def sigmoid(logits: ArrayLike) -> NDArray[np.float64]:
    """In 64 bits; scipy's takes longer to load than a small slide's tiles to score."""
    less = np.exp(-np.abs(np.asarray(logits, np.float64)))  # never more than 1
    return np.asarray(np.where(np.asarray(logits) < 0, less, 1.0) / (1 + less))


def logit(probability: NDArray[np.floating] | float) -> NDArray[np.float64]:
    p = np.asarray(probability, np.float64)
    with np.errstate(divide="ignore"):
        return np.asarray(np.clip(np.log(p) - np.log1p(-p), -LARGEST_LOGIT, LARGEST_LOGIT))
