"""Made once for all tests of cross-validation."""

from pathlib import Path

import pytest
from tests.workflow.crossval.small import COHORT, FOLDS, recipe

from aspirate.synth.cohort import make_cohort
from aspirate.workflow.crossval import CrossvalSummary, Plan, crossval


@pytest.fixture(scope="session")
def cohort(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cohort")
    make_cohort(COHORT, folder)
    return folder


@pytest.fixture(scope="session")
def whole(cohort: Path, tmp_path_factory: pytest.TempPathFactory) -> CrossvalSummary:
    """All rows, nothing interrupted."""
    return crossval(cohort, recipe(), tmp_path_factory.mktemp("runs") / "whole", Plan(folds=FOLDS))
