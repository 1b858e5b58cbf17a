"""Which mutations there are: every way of every source in turn, each by its own seed, so that any can be made again."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from random import Random

from benchmarks.hostile.binary_lies import HDF5_LIES, NPY_LIES, SAFETENSORS_LIES
from benchmarks.hostile.damage import CUTS, DAMAGE, Mutate
from benchmarks.hostile.sources import Source
from benchmarks.hostile.text_lies import CSV_LIES, GEOJSON_LIES, JSON_LIES, TOML_LIES, XML_LIES
from benchmarks.hostile.tiff_lies import LIES, huge_frame

OF_ANY: dict[str, Mutate] = {way.__name__: way for way in DAMAGE}
OWN: dict[str, dict[str, Mutate]] = {
    "tiff": LIES,
    "bigtiff": LIES,
    "svs": LIES,
    "tiff-deflate": LIES,
    "ndpi": LIES,
    "dicom": {"huge_frame": huge_frame},
    "jpeg": {"huge_frame": huge_frame},
    "geojson": GEOJSON_LIES,
    "xml": XML_LIES,
    "csv": CSV_LIES,
    "toml": TOML_LIES,
    "hdf5": HDF5_LIES,
    "json": JSON_LIES,
    "safetensors": SAFETENSORS_LIES,
    "npy": NPY_LIES,
}
MUST_BE_NOTICED = frozenset(way.__name__ for way in CUTS)
"""What is missing cannot be made up: a file cut short is refused, or what was read is what was there."""


@dataclass(frozen=True, slots=True)
class Mutation:
    number: int
    source: Source
    way: str
    seed: int

    def files(self) -> dict[str, bytes]:
        """All files of the case, the mutated one among them."""
        mutate = (OF_ANY | OWN.get(self.source.format, {}))[self.way]
        data = mutate(self.source.files[self.source.target], Random(f"{self.seed} {self.number}"))
        return self.source.files | {self.source.target: data}


def mutations(sources: Sequence[Source], count: int, seed: int) -> Iterator[Mutation]:
    """Sources take turns, and so do the ways of each of them."""
    ways = {source.name: cycle([*OWN.get(source.format, {}), *OF_ANY]) for source in sources}
    for number, source in enumerate(islice(cycle(sources), count)):
        yield Mutation(number, source, next(ways[source.name]), seed)
