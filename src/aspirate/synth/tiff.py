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


@dataclass(frozen=True, slots=True)
class FoundPage:
    width: int
    height: int
    tiled: bool
    end: int
    """First byte after all that belongs to the page."""


def read_pages(file: BinaryIO) -> list[FoundPage]:
    """The pages of a file as `TiffWriter` leaves it; a struct.error where the file breaks off."""
    magic = file.read(4)
    if magic not in (b"II*\0", b"II+\0"):
        raise struct.error("not a TIFF file of this program")
    offset, count = ("Q", "Q") if magic[2:3] == b"+" else ("I", "H")
    file.seek(8 if offset == "Q" else 4)
    pages = []
    while link := _unpack(file, f"<{offset}")[0]:
        file.seek(link)
        entries = [_unpack(file, f"<HH{offset}{offset}") for _ in range(_unpack(file, f"<{count}")[0])]
        after = file.tell()
        values = {tag: _values(file, kind, number, value, offset) for tag, kind, number, value in entries}
        chunks = zip(values.get(324) or values[273], values.get(325) or values[279], strict=True)
        end = max([after + struct.calcsize(offset), *(start + length for start, length in chunks)])
        pages.append(FoundPage(values[256][0], values[257][0], 324 in values, end))
        file.seek(after)
    return pages


def _unpack(file: BinaryIO, form: str) -> tuple[int, ...]:
    return struct.unpack(form, file.read(struct.calcsize(form)))


def _values(file: BinaryIO, kind: int, number: int, value: int, offset: str) -> tuple[int, ...]:
    """An entry's values, from within it or from where it points to."""
    form = f"<{number * (2 if kind == RATIONAL else 1)}{_PACKED[kind]}"
    packed = struct.pack(f"<{offset}", value)
    if struct.calcsize(form) <= len(packed):
        return struct.unpack_from(form, packed)
    file.seek(value)
    return _unpack(file, form)


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
