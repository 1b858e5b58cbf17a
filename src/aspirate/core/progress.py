"""How long work reports that it moves on, without knowing who watches."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol

Advance = Callable[[float], None]
"""Called with the number of units just done, or the part of one."""


class Bar(Protocol):
    """One stretch of work under way; itself an `Advance`."""

    def __call__(self, n: float, /) -> None: ...

    def note(self, text: str) -> None:
        """A few words beside the bar, such as the loss."""


class Stages(Protocol):
    """Opens a bar for each stretch of work in turn."""

    def __call__(self, what: str, total: float, unit: str) -> AbstractContextManager[Bar]: ...


class _Silent:
    def __call__(self, n: float, /) -> None:
        pass

    def note(self, text: str) -> None:
        pass


silent: Bar = _Silent()
"""For callers who do not watch."""


def silent_stages(what: str, total: float, unit: str) -> AbstractContextManager[Bar]:
    return nullcontext(silent)
