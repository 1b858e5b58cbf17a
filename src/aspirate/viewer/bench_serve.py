"""How fast tiles are served, beside OpenSlide's deep-zoom generator served in the same way.

Both contestants run behind the same server, the same sessions and the same rules, each in a process of its own; the
load comes from another. Tiles are drawn at random over the slide and its levels, the finer the more, so that no cache
helps either.
"""

import multiprocessing as mp
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Literal

import numpy as np

from aspirate.core.progress import Advance, silent
from aspirate.core.records import SlideEntry
from aspirate.slides.deepzoom import DeepZoomYardstick
from aspirate.slides.reader import open_slide
from aspirate.viewer.cache import ByteCache
from aspirate.viewer.desk import Desk
from aspirate.viewer.load import Load, Outcome, put
from aspirate.viewer.open_slides import OpenSlides
from aspirate.viewer.places import Served, ServedSlide
from aspirate.viewer.pyramid import QUALITY, Pyramid, Shape
from aspirate.viewer.room import Room
from aspirate.viewer.server import Address, listen, make_app, run
from aspirate.viewer.sessions import Sessions

NAME = "slide"
CLIENTS = (1, 8, 32)
TURNS = 3
SIZE_PX = (20_000, 12_500)
Contestant = Literal["direct", "deepzoom"]
CONTESTANTS: tuple[Contestant, ...] = ("direct", "deepzoom")


class DeepZoomPyramid(Pyramid):
    """The same slide, its tiles made by OpenSlide."""

    def __init__(self, pyramid: Pyramid) -> None:
        self.slide, self.shape = pyramid.slide, pyramid.shape
        self._yardstick = DeepZoomYardstick(pyramid.slide.path, pyramid.shape.tile_px, QUALITY)

    def tile(self, level: int, column: int, row: int) -> bytes:
        return self._yardstick.tile(level, column, row)


class DeepZoomSlides(OpenSlides):
    def at_hand(self, name: str) -> None:
        """Never: every tile has to be made."""

    @contextmanager
    def lease(self, served: ServedSlide) -> Iterator[tuple[Pyramid, str]]:
        with super().lease(served) as (pyramid, fingerprint):
            if not hasattr(self, "_rival"):
                self._rival = DeepZoomPyramid(pyramid)
            yield self._rival, fingerprint


@dataclass(frozen=True, slots=True)
class _Server:
    process: mp.process.BaseProcess
    port: int
    cookie: str

    def load(self, paths: Sequence[str], clients: int, seconds: float, requests: int | None = None) -> Load:
        return Load(self.port, self.cookie, paths, clients, seconds, requests)


def _serve(contestant: Contestant, path: Path, folder: Path, say: "Connection[tuple[int, str], object]") -> None:
    """In a process of its own, until it is ended."""
    slides = {NAME: ServedSlide(NAME, NAME, SlideEntry(NAME, path))}
    sessions = Sessions({})
    rooms = {"direct": OpenSlides, "deepzoom": DeepZoomSlides}
    room = Room(Served(slides, None, None, folder), Desk(folder), rooms[contestant]())
    with listen(Address(port=0)) as door:
        address = Address(port=door.getsockname()[1])
        session = sessions.by_token(sessions.token)
        if session is not None:
            say.send((address.port, f"aspirate-{address.port}={sessions.cookie(session)}"))
        run(make_app(room, sessions, address), door)


def measure(
    path: Path,
    seconds: float = 5.0,
    clients: Sequence[int] = CLIENTS,
    requests: int = 50_000,
    advance: Advance = silent,
) -> dict[str, float | int | str]:
    """`seconds` for each turn; then `requests` to ours, to see whether its memory grows.

    Contestants take turns, so that what else the machine does strikes both; rates and ratios are medians of turns.
    """
    with open_slide(path) as slide:
        shape = Pyramid(slide, ByteCache(0), NAME).shape
    paths = random_paths(shape, 20_000)
    figures: dict[str, float | int | str] = {"slide": path.name, "tile_px": shape.tile_px, "seconds_each": seconds}
    with _running("direct", path) as ours, _running("deepzoom", path) as theirs:
        servers: dict[Contestant, _Server] = {"direct": ours, "deepzoom": theirs}
        for server in servers.values():
            _put(server.load(paths[:200], 1, seconds))  # the file and the program are warm, for both alike
        for count in clients:
            turns: list[dict[Contestant, Outcome]] = []
            for _ in range(TURNS):
                turns.append({name: _put(server.load(paths, count, seconds)) for name, server in servers.items()})
                advance(1)
            figures |= _figures(count, turns)
        if requests:
            figures |= _growth(ours, paths, max(clients), requests)
            advance(1)
        figures |= {f"peak_rss_mb_{name}": _memory_mb(server.process, "VmHWM") for name, server in servers.items()}
    middle = 8 if 8 in clients else clients[0]
    return figures | {
        "ratio_deepzoom": figures[f"ratio_deepzoom_{middle}_clients"],
        "p99_ms": figures[f"p99_ms_direct_{middle}_clients"],
        "peak_rss_mb": figures["peak_rss_mb_direct"],
    }


def steps_of(clients: Sequence[int] = CLIENTS, requests: int = 1) -> int:
    return TURNS * len(clients) + (requests > 0)


def _figures(clients: int, turns: Sequence[Mapping[Contestant, Outcome]]) -> dict[str, float]:
    figures: dict[str, float] = {}
    for contestant in CONTESTANTS:
        name = f"{contestant}_{clients}_clients"
        latencies_s = [latency for turn in turns for latency in turn[contestant].latencies_s]
        p50, p99 = np.percentile(latencies_s, [50, 99]) * 1000
        figures[f"tiles_per_second_{name}"] = median(turn[contestant].per_second for turn in turns)
        figures |= {f"p50_ms_{name}": float(p50), f"p99_ms_{name}": float(p99)}
    ratios = (turn["direct"].per_second / turn["deepzoom"].per_second for turn in turns)
    return figures | {f"ratio_deepzoom_{clients}_clients": median(ratios)}


def _growth(server: _Server, paths: Sequence[str], clients: int, requests: int) -> dict[str, float | int]:
    before = _memory_mb(server.process, "VmRSS")
    outcome = _put(server.load(paths, clients, 3600.0, requests))
    return {"requests": len(outcome.latencies_s), "rss_growth_mb": _memory_mb(server.process, "VmRSS") - before}


@contextmanager
def _running(contestant: Contestant, path: Path) -> Iterator[_Server]:
    hear, say = mp.get_context("spawn").Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder:
        process = mp.get_context("spawn").Process(target=_serve, args=(contestant, path, Path(folder), say))
        process.start()
        try:
            yield _Server(process, *hear.recv())
        finally:
            process.terminate()
            process.join()


def _put(load: Load) -> Outcome:
    """From another process, so that asking does not slow answering."""
    with mp.get_context("spawn").Pool(1) as pool:
        return pool.apply(put, (load,))


def _memory_mb(process: mp.process.BaseProcess, what: Literal["VmRSS", "VmHWM"]) -> float:
    """What the process holds now, or held at most; not a number where the system does not tell."""
    status = Path(f"/proc/{process.pid}/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith(what)), float("nan"))


def random_paths(shape: Shape, count: int, seed: int = 0) -> list[str]:
    """Tiles as one zooms in on a slide: half of all at full resolution, half of the rest a level above, and so on."""
    rng = np.random.default_rng(seed)
    paths = []
    for up in np.minimum(rng.geometric(0.5, count) - 1, shape.max_level - 8).tolist():
        level = shape.max_level - up
        size = shape.level_px(level)
        column, row = (int(rng.integers(ceil(side / shape.tile_px))) for side in (size.width, size.height))
        paths.append(f"/api/slides/{NAME}/tiles/{level}/{column}/{row}")
    return paths


def draw_slide(folder: Path, size_px: tuple[int, int] = SIZE_PX) -> Path:
    """A synthetic slide of the size that figures are given for."""
    from aspirate.synth.cohort import draw_slide as draw
    from aspirate.synth.settings import SynthSettings

    path = folder / "slide-001.tiff"
    draw(SynthSettings(slides=2, size=size_px, annotated=0.0, readers=0), path)
    return path
