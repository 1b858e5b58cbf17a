"""Large nets of one model take turns in memory: one is put away before another is taken up."""

from typing import Protocol

TOGETHER_BYTES = 512 << 20
"""Weights that may be held at once. An engine holds them twice, as they were read and as they are packed for use."""


class Large(Protocol):
    weight_bytes: int

    def put_away(self) -> None:
        """Free the memory; what was put away comes from disk again when there are tiles to score."""


class Turns:
    """Compiled nets that were taken up, in this order."""

    def __init__(self, limit_bytes: int = TOGETHER_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self._up: list[Large] = []

    def take(self, engine: Large) -> None:
        """As many others as need be are put away, those first that were taken up first."""
        others = [other for other in self._up if other is not engine]
        while others and engine.weight_bytes + sum(other.weight_bytes for other in others) > self.limit_bytes:
            others.pop(0).put_away()
        self._up = [*others, engine]
