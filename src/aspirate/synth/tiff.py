"""The little of TIFF 6.0 and BigTIFF that a pyramid of ready-made JPEG tiles needs."""

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import BinaryIO

ASCII, SHORT, LONG, RATIONAL, LONG8 = 2, 3, 4, 5, 16
_PACKED = {ASCII: "B", SHORT: "H", LONG: "I", RATIONAL: "I", LONG8: "Q"}

JPEG_COMPRESSION = 7
YCBCR = 6
PER_CENTIMETRE = 3


@dataclass(frozen=True, slots=True)
class Page:
    """An image of whole JPEG tiles, or of one JPEG strip where `tile_px` is None."""

    width: int
    height: int
    tile_px: int | None
    subsampling: int
    """Of chroma, both ways: 1 or 2."""
    pixels_per_cm: float | None = None
    reduced: bool = False
    description: str | None = None


class TiffWriter:
    """Appends pages to an empty file; each page's data goes out as it comes in."""

    def __init__(self, file: BinaryIO, big: bool) -> None:
        self._file, self._big = file, big
        self._offset, self._count = ("Q", "Q") if big else ("I", "H")
        file.write(struct.pack("<2sHHH", b"II", 43, 8, 0) if big else struct.pack("<2sH", b"II", 42))
        self._link = file.tell()
        file.write(struct.pack(f"<{self._offset}", 0))

    def write(self, page: Page, chunks: Iterable[bytes]) -> None:
        offsets, lengths = [], []
        for chunk in chunks:
            offsets.append(self._file.tell())
            lengths.append(len(chunk))
            self._file.write(chunk + b"\0" * (len(chunk) % 2))
        self._directory(_tags(page, offsets, lengths, LONG8 if self._big else LONG))

    def _directory(self, tags: dict[int, tuple[int, Sequence[int]]]) -> None:
        """Long values first, then the sorted entries; the previous directory is made to point here."""
        entries = []
        room = struct.calcsize(f"<{self._offset}")
        for tag, (kind, values) in sorted(tags.items()):
            data = struct.pack(f"<{len(values)}{_PACKED[kind]}", *values)
            count = len(values) // 2 if kind == RATIONAL else len(values)
            if len(data) > room:
                place = self._file.tell()
                self._file.write(data + b"\0" * (len(data) % 2))
                data = struct.pack(f"<{self._offset}", place)
            entries.append(struct.pack(f"<HH{self._offset}", tag, kind, count) + data.ljust(room, b"\0"))
        here = self._file.tell()
        self._file.write(struct.pack(f"<{self._count}", len(entries)) + b"".join(entries))
        link = self._file.tell()
        self._file.write(struct.pack(f"<{self._offset}", 0))
        self._file.seek(self._link)
        self._file.write(struct.pack(f"<{self._offset}", here))
        self._link = link
        self._file.seek(0, 2)


def _tags(page: Page, offsets: list[int], lengths: list[int], offset_kind: int) -> dict[int, tuple[int, Sequence[int]]]:
    tags: dict[int, tuple[int, Sequence[int]]] = {
        254: (LONG, [int(page.reduced)]),
        256: (LONG, [page.width]),
        257: (LONG, [page.height]),
        258: (SHORT, [8, 8, 8]),
        259: (SHORT, [JPEG_COMPRESSION]),
        262: (SHORT, [YCBCR]),
        277: (SHORT, [3]),
        284: (SHORT, [1]),  # channels interleaved
        530: (SHORT, [page.subsampling] * 2),
    }
    if page.tile_px is None:
        tags |= {278: (LONG, [page.height]), 273: (offset_kind, offsets), 279: (LONG, lengths)}
    else:
        tags |= {322: (LONG, [page.tile_px]), 323: (LONG, [page.tile_px])}
        tags |= {324: (offset_kind, offsets), 325: (LONG, lengths)}
    if page.pixels_per_cm is not None:
        ratio = (round(page.pixels_per_cm * 10_000), 10_000)
        tags |= {282: (RATIONAL, ratio), 283: (RATIONAL, ratio), 296: (SHORT, [PER_CENTIMETRE])}
    if page.description is not None:
        tags[270] = (ASCII, page.description.encode("ascii") + b"\0")
    return tags
