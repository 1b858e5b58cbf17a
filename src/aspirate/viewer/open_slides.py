"""Slides that are open: few at a time, opened again when their file has changed, gone when it has gone."""

import hashlib
import re
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from aspirate.core.errors import SlideError, UnreadableSlide
from aspirate.core.records import SlideEntry
from aspirate.slides.reader import open_slide
from aspirate.viewer.cache import ByteCache
from aspirate.viewer.places import ServedSlide
from aspirate.viewer.pyramid import Pyramid

MOST_OPEN = 16
LOOK_AGAIN_S = 1.0
"""So often a file is looked at, while tiles of it are asked for."""
CACHE_BYTES = 96 * 2**20

NO_FILE = "{}: its file is in none of the places served; name its cohort too"


class _Open:
    def __init__(self, pyramid: Pyramid, fingerprint: str) -> None:
        self.pyramid, self.fingerprint = pyramid, fingerprint
        self.looked = time.monotonic()
        self.users = 0
        self.stale = False


class OpenSlides:
    def __init__(self, most: int = MOST_OPEN, cache: ByteCache | None = None) -> None:
        self.most = most
        self.cache = ByteCache(CACHE_BYTES) if cache is None else cache
        self._open: OrderedDict[str, _Open] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._open)

    def at_hand(self, name: str) -> Pyramid | None:
        """A slide that is open and was looked at just now."""
        known = self._open.get(name)
        return known.pyramid if known is not None and time.monotonic() - known.looked < LOOK_AGAIN_S else None

    @contextmanager
    def lease(self, served: ServedSlide) -> Iterator[tuple[Pyramid, str]]:
        """The slide, which stays open meanwhile, and the fingerprint of its file; errors name no path."""
        entry = served.entry
        if entry is None:
            raise UnreadableSlide(NO_FILE.format(served.name))
        try:
            opened = self._take(served.name, entry)
            try:
                yield opened.pyramid, opened.fingerprint
            finally:
                self._give_back(opened)
        except SlideError as error:
            raise UnreadableSlide(anonymous(str(error), served)) from error
        except OSError as error:
            raise UnreadableSlide(f"{served.name}: the file cannot be read ({error.strerror})") from error

    def _take(self, name: str, entry: SlideEntry) -> _Open:
        with self._lock:
            known = self._open.get(name)
            if known is not None and time.monotonic() - known.looked < LOOK_AGAIN_S:
                return self._used(name, known)
        fingerprint = _fingerprint(entry)
        with self._lock:
            known = self._open.get(name)
            if known is not None and known.fingerprint == fingerprint:
                known.looked = time.monotonic()
                return self._used(name, known)
            if known is not None:
                self._drop(name)
        slide = open_slide(entry.path, mpp=entry.mpp, name=name, threads=1)
        with self._lock:
            if name in self._open:  # another thread was faster
                slide.close()
            else:
                self._open[name] = _Open(Pyramid(slide, self.cache, f"{name}/{fingerprint}"), fingerprint)
            used = self._used(name, self._open[name])
            for other in [key for key, value in self._open.items() if not value.users][: len(self._open) - self.most]:
                self._drop(other)
            return used

    def _used(self, name: str, opened: _Open) -> _Open:
        self._open.move_to_end(name)
        opened.users += 1
        return opened

    def _drop(self, name: str) -> None:
        opened = self._open.pop(name)
        opened.stale = True
        if not opened.users:
            opened.pyramid.slide.close()

    def _give_back(self, opened: _Open) -> None:
        with self._lock:
            opened.users -= 1
            if opened.stale and not opened.users:
                opened.pyramid.slide.close()

    def close(self) -> None:
        with self._lock:
            for name in list(self._open):
                self._drop(name)


def _fingerprint(entry: SlideEntry) -> str:
    try:
        state = entry.path.stat()
    except OSError as error:
        raise UnreadableSlide(f"{entry.slide_id}: the file has gone ({error.strerror}); put it back") from error
    facts = f"{state.st_ino} {state.st_size} {state.st_mtime_ns} {entry.mpp}"
    return hashlib.sha256(facts.encode()).hexdigest()[:16]


def anonymous(message: str, served: ServedSlide) -> str:
    """A message without paths: a file's name may be a patient's."""
    if served.entry is None or not message:
        return message
    path = served.entry.path
    for told in (str(path.resolve()), str(path), str(path.parent), path.name, path.stem, served.slide_id):
        message = re.sub(rf"(?<!\w){re.escape(told)}(?!\w)", served.name, message)
    return message
