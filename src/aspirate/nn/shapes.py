"""Sizes and ranges that nets, engines and settings must agree on; without torch."""

SCOUT_FILTERS = (16, 32, 64, 64)
SMALLEST_CELL = 2 ** (len(SCOUT_FILTERS) - 1)
"""In pixels: the scout halves a cell so often."""

Range = tuple[float, float]
"""The lowest and the highest of what comes into a layer."""
