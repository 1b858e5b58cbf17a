"""How well a score puts one kind above another."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def ranks_of(values: ArrayLike) -> NDArray[np.float64]:
    """1 for the lowest, equal values share their mean rank, NaN where any is NaN; scipy.stats is slow to load."""
    values = np.asarray(values, np.float64)
    if np.isnan(values).any():
        return np.full(len(values), np.nan)
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(counts) - (counts - 1) / 2)[place])


def auc(scores: ArrayLike, positive: ArrayLike) -> float:
    """P(score of a positive > score of a negative) + ½ P(equal); NaN where one kind is absent."""
    scores, positive = np.asarray(scores, float), np.asarray(positive, bool)
    n_positive, n_negative = int(positive.sum()), int((~positive).sum())
    if n_positive == 0 or n_negative == 0:
        return float("nan")
    ranks = ranks_of(scores)
    return float((ranks[positive].sum() - n_positive * (n_positive + 1) / 2) / (n_positive * n_negative))


def rank_correlation(one: ArrayLike, other: ArrayLike) -> float:
    """Spearman's: 1 where both put things in the same order; NaN where one does not tell any apart."""
    a, b = (ranks_of(values) - (np.size(values) + 1) / 2 for values in (one, other))
    spread = np.sqrt((a**2).sum() * (b**2).sum())
    return float((a * b).sum() / spread) if spread else float("nan")


def concordance(scores: ArrayLike, ranks: ArrayLike) -> float:
    """The same for ordered labels: over all pairs of different rank, the share put in order; NaN without a pair."""
    scores, ranks = np.asarray(scores, float), np.asarray(ranks)
    higher = ranks[:, None] > ranks[None, :]
    if not higher.any():
        return float("nan")
    difference = np.sign(scores[:, None] - scores[None, :])
    return float(((difference[higher] + 1) / 2).mean())


def average_precision(scores: ArrayLike, positive: ArrayLike) -> float:
    """Mean over positives of the precision at their score, equal scores taken together; NaN without a positive."""
    scores, positive = np.asarray(scores, float), np.asarray(positive, bool)
    if not positive.any():
        return float("nan")
    at_least = scores[None, :] >= scores[positive][:, None]  # (positives, N)
    return float(((at_least & positive).sum(1) / at_least.sum(1)).mean())
