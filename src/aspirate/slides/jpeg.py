"""JPEG streams as TIFF keeps them: without tables of their own, their colours named by the TIFF."""

import simplejpeg

from aspirate.slides.slide import RgbArray

START = b"\xff\xd8"
END = b"\xff\xd9"
_ADOBE = b"\xff\xee\x00\x0eAdobe\x00\x64\x00\x00\x00\x00"
_APPLICATION = frozenset(bytes((0xFF, code)) for code in range(0xE0, 0xF0))


def stream_head(tables: bytes | None, ycbcr: bool) -> bytes:
    """What to put in place of a tile's start marker: the shared tables, and the meaning of its colours.

    A decoder guesses the colours from application markers; TIFF says them itself. So the tile's own
    markers are dropped, and one of Adobe's kind that agrees with the TIFF comes first.
    """
    body = b"" if tables is None else tables.removeprefix(START).removesuffix(END)
    return START + _ADOBE + bytes([ycbcr]) + body


def whole_stream(stream: bytes, head: bytes) -> bytes:
    """A tile as a picture of its own, without whatever a scanner wrote into it beside pixels."""
    if not stream.startswith(START):
        raise ValueError("no JPEG stream")
    begin = len(START)
    while stream[begin : begin + 2] in _APPLICATION:
        begin += 2 + int.from_bytes(stream[begin + 2 : begin + 4], "big")
    return head + stream[begin:]


def decode(stream: bytes, head: bytes, pixels: RgbArray) -> None:
    """A tile into contiguous `pixels` (height, width, 3); ValueError if it is damaged in any way."""
    image = simplejpeg.decode_jpeg(whole_stream(stream, head), buffer=pixels)
    if image.shape != pixels.shape:
        raise ValueError(f"{image.shape} pixels in a tile of {pixels.shape}")
