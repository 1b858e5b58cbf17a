"""TIFF headers that lie: sizes, counts, offsets and chains; and tiles that unpack to far more than they should."""

import io
import struct
import zlib
from dataclasses import dataclass
from functools import cache
from random import Random

from benchmarks.hostile.damage import Mutate

from aspirate.synth.tiff import Page, TiffWriter

WIDTH, HEIGHT, BITS, COMPRESSION, PHOTOMETRIC, SAMPLES, ROWS_PER_STRIP = 256, 257, 258, 259, 262, 277, 278
STRIP_OFFSETS, STRIP_BYTES, TILE_WIDTH, TILE_HEIGHT, TILE_OFFSETS, TILE_BYTES = 273, 279, 322, 323, 324, 325
X_RESOLUTION, Y_RESOLUTION, UNIT, DESCRIPTION = 282, 283, 296, 270
DEFLATE, RGB = 8, 2
SIZES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 7: 1, 9: 4, 11: 4, 12: 8, 13: 4, 16: 8}
HUGE = (2**16 - 1, 2**20, 2**24, 2**31 - 1, 2**31, 2**32 - 1, 0, 1, 3)


@dataclass(frozen=True, slots=True)
class Entry:
    """One field of a directory, by the places of its parts in the file."""

    at: int
    tag: int
    kind: int
    count: int
    value_at: int


@dataclass(frozen=True, slots=True)
class Header:
    big: bool
    entries: tuple[Entry, ...]
    directories: tuple[int, ...]
    links: tuple[int, ...]
    """Where the places of directories are written: the first in the file's head, the others behind each of them."""

    @property
    def word(self) -> str:
        return "<Q" if self.big else "<I"


def header(data: bytes) -> Header:
    """Of a sound little-endian file."""
    big = data[2:4] == b"+\0"
    word, number, step = ("<Q", "<Q", 20) if big else ("<I", "<H", 12)
    room, link = struct.calcsize(word), 8 if big else 4
    entries: list[Entry] = []
    directories: list[int] = []
    links = [link]
    # a file over 4 GB of classic TIFF or one in Hamamatsu's way may end in what is no directory
    while (place := struct.unpack_from(word, data, link)[0]) and place < len(data) and place not in directories:
        directories.append(place)
        (count,) = struct.unpack_from(number, data, place)
        first = place + struct.calcsize(number)
        for at in range(first, first + step * count, step):
            tag, kind = struct.unpack_from("<HH", data, at)
            (values,) = struct.unpack_from(word, data, at + 4)
            inside = SIZES.get(kind, 1) * values <= room
            value_at = at + 4 + room if inside else struct.unpack_from(word, data, at + 4 + room)[0]
            entries.append(Entry(at, tag, kind, values, value_at))
        link = first + step * count
        links.append(link)
    return Header(big, tuple(entries), tuple(directories), tuple(links))


def _put(data: bytes, at: int, form: str, value: int) -> bytes:
    size = struct.calcsize(form)
    new: bytes = (value % (1 << 8 * size)).to_bytes(size, "little")
    return data[:at] + new + data[at + size :]


def _with_value(data: bytes, entry: Entry, value: int, index: int = 0) -> bytes:
    form = {1: "<B", 2: "<B", 3: "<H", 16: "<Q", 12: "<Q", 5: "<Q"}.get(entry.kind, "<I")
    return _put(data, entry.value_at + index * struct.calcsize(form), form, value)


def _changed(*tags: int, values: tuple[int, ...] = HUGE) -> Mutate:
    """One of the values of one of these fields becomes absurd."""

    def change(data: bytes, rng: Random) -> bytes:
        found = [entry for entry in header(data).entries if entry.tag in tags]
        entry = rng.choice(found or list(header(data).entries))
        return _with_value(data, entry, rng.choice(values), rng.randrange(entry.count))

    return change


def many_values(data: bytes, rng: Random) -> bytes:
    """A field that says it has billions of values."""
    entry = rng.choice(header(data).entries)
    return _put(data, entry.at + 4, header(data).word, rng.choice((2**20, 2**28, 2**31 - 1, 2**32 - 1, 0)))


def other_kind(data: bytes, rng: Random) -> bytes:
    return _put(data, rng.choice(header(data).entries).at + 2, "<H", rng.choice((0, 1, 2, 3, 4, 5, 12, 13, 16, 200)))


def values_elsewhere(data: bytes, rng: Random) -> bytes:
    """Values that are said to lie in another place, also behind the end."""
    found = header(data)
    room = struct.calcsize(found.word)
    entry = rng.choice([entry for entry in found.entries if SIZES.get(entry.kind, 1) * entry.count > room])
    return _put(data, entry.at + 4 + room, found.word, rng.choice((0, len(data) - 3, len(data), 2**31, 2**32 - 4)))


def looping_chain(data: bytes, rng: Random) -> bytes:
    """A directory whose next one is itself, or one before it."""
    found = header(data)
    number = rng.randrange(len(found.directories))
    return _put(data, found.links[number + 1], found.word, found.directories[rng.randrange(number + 1)])


def chain_beyond(data: bytes, rng: Random) -> bytes:
    found = header(data)
    return _put(data, rng.choice(found.links), found.word, rng.choice((len(data) - 1, len(data) + 8, 2**32 - 2, 1)))


def long_chain(data: bytes, rng: Random) -> bytes:
    """A hundred thousand copies of the last directory, each pointing to the next."""
    found = header(data)
    start, end = found.directories[-1], found.links[-1]
    room = struct.calcsize(found.word)
    body, step = data[start:end], end - start + room
    count = rng.choice((1000, 100_000))
    head = len(data) + len(data) % 2
    places = [head + step * i for i in range(count)]
    chain = b"".join(body + struct.pack(found.word, place) for place in [*places[1:], 0])
    return _put(data, end, found.word, head).ljust(head, b"\0") + chain


def own_subdirectory(data: bytes, rng: Random) -> bytes:
    """A directory that is a part of itself (SubIFDs)."""
    found = header(data)
    entry = rng.choice(found.entries)
    out = _put(_put(data, entry.at, "<H", 330), entry.at + 2, "<H", 16 if found.big else 4)
    out = _put(out, entry.at + 4, found.word, 1)
    return _put(out, entry.at + 4 + struct.calcsize(found.word), found.word, rng.choice(found.directories))


def huge_frame(data: bytes, rng: Random) -> bytes:
    """JPEG tiles whose own header claims up to 65,535 × 65,535 pixels."""
    places = [at for at in range(len(data) - 9) if data[at : at + 2] in (b"\xff\xc0", b"\xff\xc2")]
    if not places:
        return data[: rng.randrange(1, len(data))]
    out = bytearray(data)
    for at in rng.sample(places, rng.randrange(1, len(places) + 1)):
        out[at + 5 : at + 9] = struct.pack(">HH", rng.choice((65535, 65500, 0, 65)), rng.choice((65535, 64, 8192)))
    return bytes(out)


def deflate_bomb(data: bytes, rng: Random) -> bytes:
    """Some kilobytes that unpack to a tile of hundreds of megabytes, or claim to."""
    side = rng.choice((4096, 8192, 11_584))
    return _one_tile(side, _packed_zeros(min(3 * side**2, 2**28)))


def overlong_tile(data: bytes, rng: Random) -> bytes:
    """A tile of 64 × 64 pixels whose stream unpacks to a hundred megabytes."""
    return _one_tile(64, _packed_zeros(10**8))


def shared_tile(data: bytes, rng: Random) -> bytes:
    """A slide of up to a quarter of a million pixels a side, all of whose tiles are the same few bytes."""
    side = rng.choice((256, 1024, 2048))
    columns = 128
    out = _one_tile(side, _packed_zeros(3 * side**2), columns)
    for tag in (TILE_OFFSETS, TILE_BYTES):
        (entry,) = [entry for entry in header(out).entries if entry.tag == tag]
        (value,) = struct.unpack_from("<I", out, entry.value_at)
        out = out[: entry.value_at] + struct.pack("<I", value) * entry.count + out[entry.value_at + 4 * entry.count :]
    return out


@cache
def _packed_zeros(count: int) -> bytes:
    packer, block = zlib.compressobj(1), bytes(2**16)
    return b"".join(packer.compress(block) for _ in range(count // len(block))) + packer.flush()


def _one_tile(side: int, stream: bytes, columns: int = 1) -> bytes:
    """A deflated slide of `columns` × `columns` tiles, of which only the first has any bytes."""
    file = io.BytesIO()
    TiffWriter(file, big=False).write(
        Page(side * columns, side * columns, side, 1, 40_000), [stream, *[b""] * (columns**2 - 1)]
    )
    out = file.getvalue()
    for tag, value in ((COMPRESSION, DEFLATE), (PHOTOMETRIC, RGB)):
        (entry,) = [entry for entry in header(out).entries if entry.tag == tag]
        out = _with_value(out, entry, value)
    return out


LIES: dict[str, Mutate] = {
    "huge_dimensions": _changed(WIDTH, HEIGHT),
    "tile_sides": _changed(TILE_WIDTH, TILE_HEIGHT, ROWS_PER_STRIP),
    "byte_counts": _changed(TILE_BYTES, STRIP_BYTES),
    "offsets_beyond": _changed(TILE_OFFSETS, STRIP_OFFSETS, values=(*HUGE, 2**31 + 5, 2**32 - 9)),
    "samples": _changed(BITS, SAMPLES, PHOTOMETRIC, values=(0, 1, 2, 3, 4, 5, 6, 8, 16, 32, 64, 255, 65535)),
    "compression": _changed(COMPRESSION, values=(0, 1, 2, 5, 6, 8, 33003, 33005, 34712, 50000, 65535)),
    "resolution": _changed(X_RESOLUTION, Y_RESOLUTION, UNIT, values=(0, 1, 2**31, 2**32 - 1, 2**63, 1 << 32)),
    "description": _changed(DESCRIPTION, values=(0, 10, 124, 255)),
    "many_values": many_values,
    "other_kind": other_kind,
    "values_elsewhere": values_elsewhere,
    "looping_chain": looping_chain,
    "chain_beyond": chain_beyond,
    "long_chain": long_chain,
    "own_subdirectory": own_subdirectory,
    "huge_frame": huge_frame,
    "deflate_bomb": deflate_bomb,
    "overlong_tile": overlong_tile,
    "shared_tile": shared_tile,
}
