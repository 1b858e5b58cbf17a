"""How fast a synthetic slide is drawn and written on one core, and in how much memory.

python benchmarks/synth_speed.py [WIDTHxHEIGHT] [slide index]
"""

import resource
import sys
import tempfile
import time
from pathlib import Path

from aspirate.core.progress import silent
from aspirate.synth.model import Stream, draw_labels, stream
from aspirate.synth.plan import plan_slide
from aspirate.synth.render import SlideRenderer
from aspirate.synth.settings import SynthSettings
from aspirate.synth.writer import Encoding, write_slide


def main(size: str = "8192x8192", index: str = "0") -> None:
    width, height = (int(side) for side in size.split("x"))
    settings = SynthSettings(slides=24, size=(width, height))
    labels = draw_labels(settings, stream(settings.seed, Stream.LABELS))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "slide.tiff"
        start, wall = time.process_time(), time.monotonic()
        plan = plan_slide(settings, labels, int(index))
        encoding = Encoding(settings.mpp, False, plan.appearance.jpeg_quality, plan.scanner.chroma)
        write_slide(path, settings.size_px0, SlideRenderer(plan).region, encoding, silent)
        seconds, elapsed = time.process_time() - start, time.monotonic() - wall
        megabytes = path.stat().st_size / 1e6
    pixels = width * height / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{size}, slide {index}: {len(plan.groups)} groups, {plan.appearance.stain}, {megabytes:.0f} MB file")
    print(f"{pixels / seconds:.1f} Mpx/s per core ({seconds:.1f} s of one core, {elapsed:.1f} s elapsed)")
    print(f"peak RSS {peak:.0f} MiB")


if __name__ == "__main__":
    main(*sys.argv[1:])
