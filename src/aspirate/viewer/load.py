"""Browsers that ask for tiles as fast as they are answered: the load of a measurement, from a process of its own."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle


@dataclass(frozen=True, slots=True)
class Load:
    """So many clients for so long, or for so many requests in all."""

    port: int
    cookie: str
    paths: Sequence[str]
    clients: int
    seconds: float
    requests: int | None = None


@dataclass(frozen=True, slots=True)
class Outcome:
    latencies_s: list[float]
    seconds: float
    bytes: int

    @property
    def per_second(self) -> float:
        return len(self.latencies_s) / self.seconds


def put(load: Load) -> Outcome:
    """Each client keeps its connection and asks for the next tile when it has the last."""
    return asyncio.run(_all(load))


async def _all(load: Load) -> Outcome:
    paths = cycle(load.paths)
    latencies: list[float] = []
    read = 0
    start = time.perf_counter()

    async def client() -> None:
        nonlocal read
        reader, writer = await asyncio.open_connection("127.0.0.1", load.port)
        while time.perf_counter() - start < load.seconds and (load.requests is None or len(latencies) < load.requests):
            asked = time.perf_counter()
            head = f"GET {next(paths)} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {load.cookie}\r\n\r\n"
            writer.write(head.encode())
            answer = await reader.readuntil(b"\r\n\r\n")
            if not answer.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"the server answered {answer[:80]!r}")
            length = int(answer.lower().split(b"content-length:")[1].split(b"\r\n")[0])
            await reader.readexactly(length)
            latencies.append(time.perf_counter() - asked)
            read += length
        writer.close()

    await asyncio.gather(*(client() for _ in range(load.clients)))
    return Outcome(latencies, time.perf_counter() - start, read)
