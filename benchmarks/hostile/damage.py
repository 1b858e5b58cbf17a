"""What happens to any file: cut short, bits flipped, blocks zeroed, lost, doubled or overwritten with noise."""

from collections.abc import Callable
from random import Random

Mutate = Callable[[bytes, Random], bytes]
LONGEST_BLOCK = 4096


def truncated(data: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(1, len(data))]


def truncated_in_the_header(data: bytes, rng: Random) -> bytes:
    return data[: rng.randrange(1, min(512, len(data)))]


def one_bit(data: bytes, rng: Random) -> bytes:
    return _flipped(data, rng, 1, len(data))


def many_bits(data: bytes, rng: Random) -> bytes:
    return _flipped(data, rng, rng.randrange(2, 200), len(data))


def bits_of_the_header(data: bytes, rng: Random) -> bytes:
    return _flipped(data, rng, rng.randrange(1, 8), min(512, len(data)))


def zeroed(data: bytes, rng: Random) -> bytes:
    start, end = _block(data, rng)
    return data[:start] + bytes(end - start) + data[end:]


def noise(data: bytes, rng: Random) -> bytes:
    start, end = _block(data, rng)
    return data[:start] + rng.randbytes(end - start) + data[end:]


def lost(data: bytes, rng: Random) -> bytes:
    start, end = _block(data, rng)
    return data[:start] + data[end:]


def doubled(data: bytes, rng: Random) -> bytes:
    start, end = _block(data, rng)
    return data[:end] + data[start:end] + data[end:]


def extreme_words(data: bytes, rng: Random) -> bytes:
    """Whole numbers as a reader that trusts them would least like them, anywhere in the first part of the file."""
    out = bytearray(data)
    for _ in range(rng.randrange(1, 4)):
        size = rng.choice((2, 4, 8))
        at = rng.randrange(0, max(1, min(len(data), 4096) - size))
        out[at : at + size] = rng.choice((0, 1, -1, 2 ** (8 * size - 1) - 1, -(2 ** (8 * size - 1)))).to_bytes(
            size, "little", signed=True
        )
    return bytes(out)


def nothing_but_noise(data: bytes, rng: Random) -> bytes:
    return rng.randbytes(rng.randrange(1, LONGEST_BLOCK))


def _flipped(data: bytes, rng: Random, bits: int, within: int) -> bytes:
    out = bytearray(data)
    for _ in range(bits):
        out[rng.randrange(within)] ^= 1 << rng.randrange(8)
    return bytes(out)


def _block(data: bytes, rng: Random) -> tuple[int, int]:
    start = rng.randrange(len(data))
    return start, min(len(data), start + rng.randrange(1, LONGEST_BLOCK))


CUTS: tuple[Mutate, ...] = (truncated, truncated_in_the_header)
DAMAGE: tuple[Mutate, ...] = (
    *CUTS, one_bit, many_bits, bits_of_the_header, zeroed, noise, lost, doubled, extreme_words, nothing_but_noise,
)  # fmt: skip
