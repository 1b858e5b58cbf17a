"""A reading room over planted slides and predictions, and a way into it."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.viewer.planted import Open, Visitor, make_cohort, make_results

from aspirate.viewer.places import Served, find


@pytest.fixture
def cohort(tmp_path: Path) -> Path:
    (tmp_path / "cohort").mkdir()
    return make_cohort(tmp_path / "cohort")


@pytest.fixture
def served(tmp_path: Path, cohort: Path) -> Served:
    (tmp_path / "results").mkdir()
    return find([make_results(tmp_path / "results"), cohort])


@pytest.fixture
def room(served: Served) -> Iterator[Open]:
    opened = Open(served)
    yield opened
    opened.app.state.room.open_slides.close()
    opened.desk.close()


@pytest.fixture
def visitor(room: Open) -> Visitor:
    return room.visitor()
