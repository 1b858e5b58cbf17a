"""Memory that a training step gives back is there for the next one.

glibc returns every freed block of 32 MB and more to the kernel, which then hands out zeroed pages, one fault for each
4 KB. What a layer leaves for 64 tiles is that large, and on a CPU a third of a training step went into it.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_MMAP_MAX = -1, -3, -4
"""Of <malloc.h>."""
USUAL_MAPPINGS = 65536
LARGEST_THRESHOLD = 2**25
"""To which glibc raises its threshold by itself."""


@contextmanager
def kept_memory() -> Iterator[None]:
    """While open, freed memory stays with the process; then it is given back. Without glibc nothing changes."""
    try:
        libc = ctypes.CDLL(None)
        mallopt, trim = libc.mallopt, libc.malloc_trim
    except (OSError, AttributeError, TypeError):  # another C library
        yield
        return
    mallopt(M_MMAP_MAX, 0)
    mallopt(M_TRIM_THRESHOLD, -1)
    try:
        yield
    finally:
        mallopt(M_MMAP_MAX, USUAL_MAPPINGS)
        mallopt(M_MMAP_THRESHOLD, LARGEST_THRESHOLD)
        mallopt(M_TRIM_THRESHOLD, 2 * LARGEST_THRESHOLD)
        trim(0)
