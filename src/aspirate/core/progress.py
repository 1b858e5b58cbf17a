"""How long work reports that it moves on, without knowing who watches."""

from collections.abc import Callable

Advance = Callable[[int], None]
"""Called with the number of units just done."""


def silent(_: int) -> None:
    """For callers who do not watch."""
