"""Groups of places that touch, against scipy's."""

import numpy as np
import pytest
from scipy.ndimage import label

from aspirate.core.touching import count_groups, groups_of


@pytest.mark.parametrize("share", [0.0, 0.02, 0.2, 0.4, 0.7, 1.0])
@pytest.mark.parametrize("shape", [(1, 1), (1, 60), (40, 50)])
def test_groups_are_scipys_in_the_same_order(share: float, shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(5)
    image = rng.random(shape) < share
    rows, columns = np.nonzero(image)
    shuffled = rng.permutation(len(rows))
    rows, columns = rows[shuffled], columns[shuffled]
    labels, count = label(image, structure=np.ones((3, 3)))
    found = groups_of(columns, rows)
    assert found.tolist() == (labels[rows, columns] - 1).tolist()
    assert len(set(found.tolist())) == count == count_groups(columns, rows)
