"""What was made once and may be asked for again, within a bound of bytes."""

from collections import OrderedDict
from threading import Lock


class ByteCache:
    """The least recently asked for gives way."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.bytes = 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._lock = Lock()

    def get(self, key: str) -> bytes | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)

    def put(self, key: str, value: bytes) -> None:
        with self._lock:
            self.bytes += len(value) - len(self._kept.pop(key, b""))
            self._kept[key] = value
            while self.bytes > self.most_bytes:
                self.bytes -= len(self._kept.popitem(last=False)[1])
