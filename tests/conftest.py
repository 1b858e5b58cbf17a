"""Fixtures shared by all tests."""

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

# Tests run side by side, one process a core: more threads in each would only get in each other's way.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The machine may be busy, so no deadline; the same examples each time, so that a failure can be repeated.
settings.register_profile("aspirate", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("aspirate")

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Real slides and benchmarks that are not part of the repository."""
    folder = Path(os.environ.get("ASPIRATE_TEST_DATA", ROOT.parent / "shared" / "data"))
    if not (folder / "slides").is_dir():
        pytest.skip("real slides are absent: set ASPIRATE_TEST_DATA to a folder that has slides/")
    return folder


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Compiled nets and verdicts about this machine, shared by the processes of one test run and by nobody else."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    os.environ["ASPIRATE_CACHE"] = str(shared / "aspirate-cache")


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_is_heard() -> None:
    """Programs started in the background ignore Ctrl-C, and so would all that they start; tests press it."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
