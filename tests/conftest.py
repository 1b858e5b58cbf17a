"""Fixtures shared by all tests."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real slides and benchmarks that are not part of the repository."""
    folder = Path(os.environ.get("ASPIRATE_TEST_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "slides").is_dir():
        pytest.skip("real slides are absent: set ASPIRATE_TEST_DATA to a folder that has slides/")
    return folder
