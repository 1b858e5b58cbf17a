"""A bounded number of slides kept open, for work that comes back to each of them many times."""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from aspirate.core.records import SlideEntry
from aspirate.slides.reader import open_slide
from aspirate.slides.slide import Slide

MOST = 64


class Shelf:
    """One reader at a time; of more slides than there is room for, the one used longest ago is closed."""

    def __init__(self, most: int = MOST) -> None:
        self.most = most
        self._open: OrderedDict[str, Slide] = OrderedDict()
        self._lock = threading.Lock()

    @contextmanager
    def slide(self, entry: SlideEntry) -> Iterator[Slide]:
        with self._lock:
            key = entry.slide_id
            if key not in self._open:
                self._open[key] = open_slide(entry.path, mpp=entry.mpp, name=entry.slide_id)
                if len(self._open) > self.most:
                    self._open.popitem(last=False)[1].close()
            self._open.move_to_end(key)
            yield self._open[key]

    def close(self) -> None:
        with self._lock:
            while self._open:
                self._open.popitem()[1].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
