"""A whole-slide image in DICOM, written by hand: one level, JPEG frames, explicit VR little endian."""

import struct
from collections.abc import Sequence

from aspirate.core.geometry import Size

LONG_FORMS = (b"OB", b"SQ", b"UN", b"OW")
WHOLE_SLIDE = "1.2.840.10008.5.1.4.1.1.77.1.6"
JPEG_BASELINE = "1.2.840.10008.1.2.4.50"
ROOT = "1.2.826.0.1.3680043.8.498"
UNKNOWN_LENGTH = 0xFFFFFFFF


def _element(tag: int, form: str, value: bytes) -> bytes:
    head = struct.pack("<HH", tag >> 16, tag & 0xFFFF) + form.encode()
    value += (b"\0" if form in ("UI", "OB") else b" ") * (len(value) % 2)
    if form.encode() in LONG_FORMS:
        return head + struct.pack("<HI", 0, len(value)) + value
    return head + struct.pack("<H", len(value)) + value


def _text(tag: int, form: str, value: str) -> bytes:
    return _element(tag, form, value.encode("ascii"))


def _short(tag: int, value: int) -> bytes:
    return _element(tag, "US", struct.pack("<H", value))


def _long(tag: int, value: int) -> bytes:
    return _element(tag, "UL", struct.pack("<I", value))


def _sequence(tag: int, *elements: bytes) -> bytes:
    inside = b"".join(elements)
    return _element(tag, "SQ", struct.pack("<HHI", 0xFFFE, 0xE000, len(inside)) + inside)


def _item(data: bytes) -> bytes:
    data += b"\0" * (len(data) % 2)
    return struct.pack("<HHI", 0xFFFE, 0xE000, len(data)) + data


def dicom(size: Size, tile_px: int, frames: Sequence[bytes], mpp: float) -> bytes:
    """Tiles row by row, as `TILED_FULL` promises."""
    spacing = _text(0x00280030, "DS", f"{mpp / 1000}\\{mpp / 1000}")
    meta = b"".join(
        (
            _element(0x00020001, "OB", b"\0\1"),
            _text(0x00020002, "UI", WHOLE_SLIDE),
            _text(0x00020003, "UI", f"{ROOT}.1"),
            _text(0x00020010, "UI", JPEG_BASELINE),
            _text(0x00020012, "UI", ROOT),
        )
    )
    about = (
        _text(0x00080008, "CS", "ORIGINAL\\PRIMARY\\VOLUME\\NONE"),
        _text(0x00080016, "UI", WHOLE_SLIDE),
        _text(0x00080018, "UI", f"{ROOT}.1"),
        _text(0x00080060, "CS", "SM"),
        _text(0x0020000D, "UI", f"{ROOT}.2"),
        _text(0x0020000E, "UI", f"{ROOT}.3"),
        _text(0x00209311, "CS", "TILED_FULL"),
        _short(0x00280002, 3),
        _text(0x00280004, "CS", "YBR_FULL_422"),
        _short(0x00280006, 0),
        _text(0x00280008, "IS", str(len(frames))),
        _short(0x00280010, tile_px),
        _short(0x00280011, tile_px),
        _short(0x00280100, 8),
        _short(0x00280101, 8),
        _short(0x00280102, 7),
        _short(0x00280103, 0),
        _long(0x00480006, size.width),
        _long(0x00480007, size.height),
        _sequence(0x52009229, _sequence(0x00289110, spacing)),
    )
    pixels = struct.pack("<HH2sHI", 0x7FE0, 0x0010, b"OB", 0, UNKNOWN_LENGTH)
    pixels += _item(b"") + b"".join(map(_item, frames)) + struct.pack("<HHI", 0xFFFE, 0xE0DD, 0)
    group = _element(0x00020000, "UL", struct.pack("<I", len(meta)))
    return bytes(128) + b"DICM" + group + meta + b"".join(about) + pixels
