"""Probabilities and logits, against scipy's."""

import warnings

import numpy as np
from scipy.special import expit
from scipy.special import logit as logit_of_scipy

from aspirate.core.logits import LARGEST_LOGIT, logit, sigmoid


def test_sigmoid_is_scipys_and_never_warns() -> None:
    x = np.array([-np.inf, -1e4, -40.0, -1.5, -0.0, 0.0, 1e-9, 2.0, 36.7, 800.0, np.inf])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = sigmoid(x)
    np.testing.assert_allclose(found, expit(x), rtol=1e-15)
    assert sigmoid(np.array([0.5], np.float32)).dtype == np.float64 and float(sigmoid(0.0)) == 0.5


def test_logit_is_scipys_within_its_limits() -> None:
    p = np.array([1e-6, 0.2, 0.5, 0.999])
    np.testing.assert_allclose(logit(p), logit_of_scipy(p), rtol=1e-12)
    assert logit(np.array([0.0, 1.0])).tolist() == [-LARGEST_LOGIT, LARGEST_LOGIT]
    np.testing.assert_allclose(sigmoid(logit(p)), p, rtol=1e-12)
