"""Places of a grid that touch, by an edge or a corner, as groups; scipy's takes longer to load than this to do."""

import numpy as np
from numpy.typing import NDArray

AROUND = [(x, y) for x in (-1, 0, 1) for y in (-1, 0, 1) if (x, y) != (0, 0)]


def groups_of(columns: NDArray[np.integer], rows: NDArray[np.integer]) -> NDArray[np.int64]:
    """The number of each place's group, (N,), from 0 on in the order of reading; no place may be there twice."""
    in_order = np.lexsort((columns, rows)).tolist()
    places = list(zip(columns.tolist(), rows.tolist(), strict=True))
    left = {places[number]: number for number in in_order}
    found = np.empty(len(places), np.int64)
    group = 0
    for first in in_order:
        if left.pop(places[first], None) is None:
            continue  # of a group that began before
        members, reached = [first], [places[first]]
        while reached:
            x, y = reached.pop()
            for dx, dy in AROUND:
                number = left.pop((x + dx, y + dy), None)
                if number is not None:
                    members.append(number)
                    reached.append(places[number])
        found[members] = group
        group += 1
    return found


def count_groups(columns: NDArray[np.integer], rows: NDArray[np.integer]) -> int:
    return int(groups_of(columns, rows).max(initial=-1)) + 1
