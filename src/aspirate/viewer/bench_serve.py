"""How fast tiles are served, beside OpenSlide's deep-zoom generator served in the same way.

Both contestants run behind the same server, the same sessions and the same rules, each in a process of its own; the
load comes from another. Tiles are drawn at random over the slide and its levels, the finer the more, so that no cache
helps either.
"""

import multiprocessing as mp
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import ceil
from multiprocessing.connection import Connection
from pathlib import Path
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
    """`seconds` for each number of clients; then `requests` to ours, to see whether its memory grows."""
    with open_slide(path) as slide:
        shape = Pyramid(slide, ByteCache(0), NAME).shape
    paths = random_paths(shape, 20_000)
    figures: dict[str, float | int | str] = {"slide": path.name, "tile_px": shape.tile_px, "seconds_each": seconds}
    rates: dict[tuple[str, int], float] = {}
    for contestant in CONTESTANTS:
        with _running(contestant, path) as (process, port, cookie):
            _put(Load(port, cookie, paths[:200], 1, seconds))  # the file and the program are warm, for both alike
            for count in clients:
                outcome = _put(Load(port, cookie, paths, count, seconds))
                rates[contestant, count] = outcome.per_second
                figures |= _figures(contestant, count, outcome)
                advance(1)
            figures[f"peak_rss_mb_{contestant}"] = _rss_mb(process)
            if contestant == "direct" and requests:
                figures |= _growth(Load(port, cookie, paths, max(clients), 3600.0, requests), process)
                advance(1)
    ratios = {count: rates["direct", count] / rates["deepzoom", count] for count in clients}
    figures |= {f"ratio_deepzoom_{count}_clients": ratio for count, ratio in ratios.items()}
    middle = 8 if 8 in clients else clients[0]
    return figures | {"ratio_deepzoom": ratios[middle], "p99_ms": figures[f"p99_ms_direct_{middle}_clients"]}


def steps_of(clients: Sequence[int] = CLIENTS) -> int:
    return len(CONTESTANTS) * len(clients) + 1


def _figures(contestant: Contestant, clients: int, outcome: Outcome) -> dict[str, float]:
    p50, p99 = np.percentile(outcome.latencies_s, [50, 99]) * 1000
    name = f"{contestant}_{clients}_clients"
    return {f"tiles_per_second_{name}": outcome.per_second, f"p50_ms_{name}": float(p50), f"p99_ms_{name}": float(p99)}


def _growth(load: Load, process: mp.process.BaseProcess) -> dict[str, float | int]:
    before = _rss_mb(process)
    outcome = _put(load)
    return {"requests": len(outcome.latencies_s), "rss_growth_mb": _rss_mb(process) - before}


@contextmanager
def _running(contestant: Contestant, path: Path) -> Iterator[tuple[mp.process.BaseProcess, int, str]]:
    hear, say = mp.get_context("spawn").Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder:
        process = mp.get_context("spawn").Process(target=_serve, args=(contestant, path, Path(folder), say))
        process.start()
        try:
            port, cookie = hear.recv()
            yield process, port, cookie
        finally:
            process.terminate()
            process.join()


def _put(load: Load) -> Outcome:
    """From another process, so that asking does not slow answering."""
    with mp.get_context("spawn").Pool(1) as pool:
        return pool.apply(put, (load,))


def _rss_mb(process: mp.process.BaseProcess) -> float:
    """What the process holds now; not a number where the system does not tell."""
    status = Path(f"/proc/{process.pid}/statm")
    return int(status.read_text().split()[1]) * 4096 / 2**20 if status.exists() else float("nan")


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


def draw_slide(folder: Path) -> Path:
    """A synthetic slide of the size that figures are given for."""
    from aspirate.synth.cohort import make_cohort
    from aspirate.synth.settings import SynthSettings

    make_cohort(SynthSettings(slides=1, size=SIZE_PX, patients=1, annotated=0.0, readers=0), folder, 1)
    return next((folder / "slides").iterdir())
