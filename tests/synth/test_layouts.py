"""A layout fills its box exactly, in every architecture and however crowded."""

import numpy as np
import pytest

from aspirate.synth.layouts import BODY, Architecture, choose, lay_out

PITCH = 42.0


@pytest.mark.parametrize("kind", list(Architecture))
@pytest.mark.parametrize("crowding", [0.0, 0.4])
@pytest.mark.parametrize("box", [(114, 114), (180, 260), (470, 300)])
def test_outermost_cells_touch_the_box(kind: Architecture, crowding: float, box: tuple[int, int]) -> None:
    cells = lay_out(kind, *box, PITCH, crowding, np.random.default_rng(1)).cells
    margin = BODY * PITCH
    assert cells.min(axis=0) == pytest.approx([margin, margin])
    assert cells.max(axis=0) == pytest.approx([box[0] - margin, box[1] - margin])
    assert 4 <= len(cells) <= 260


def test_crowding_adds_cells() -> None:
    few = np.mean(
        [len(lay_out(Architecture.SHEET, 400, 400, PITCH, 0.0, np.random.default_rng(i)).cells) for i in range(9)]
    )
    many = np.mean(
        [len(lay_out(Architecture.SHEET, 400, 400, PITCH, 0.4, np.random.default_rng(i)).cells) for i in range(9)]
    )
    assert many / few == pytest.approx(1.4, abs=0.1)


def test_benign_sheets_are_evenly_spaced() -> None:
    cells = lay_out(Architecture.SHEET, 450, 400, PITCH, 0.0, np.random.default_rng(2)).cells
    distance = np.hypot(*(cells[:, None] - cells[None]).transpose(2, 0, 1))
    nearest = np.sort(distance, axis=1)[:, 1]
    assert np.median(nearest) == pytest.approx(0.92 * PITCH, rel=0.15)
    assert nearest.min() > 0.5 * PITCH


def test_architecture_depends_on_atypia_only_mildly() -> None:
    rng = np.random.default_rng(3)
    shares = {a: np.bincount([choose(a, rng) for _ in range(4000)], minlength=4) / 4000 for a in (0.0, 2.0)}
    distance = np.abs(shares[0.0] - shares[2.0]).sum() / 2
    assert 0.05 < distance < 0.25
    assert (shares[2.0] > 0.1).all()
