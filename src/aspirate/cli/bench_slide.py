"""The command that measures a whole slide."""

from pathlib import Path
from typing import Annotated

import typer

from aspirate.cli.display import progress, show_figures


def bench_slide(
    model: Annotated[
        Path, typer.Option(metavar="RUN/model", help="A trained model: random weights would tell nothing.")
    ],
    size: Annotated[str, typer.Option(metavar="WxH", help="Pixels of the slide that is drawn.")] = "40000x25000",
    slide: Annotated[Path | None, typer.Option(help="A slide to take instead.")] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Look at every tile closely.")] = False,
    engine: Annotated[str, typer.Option(help="As of `aspirate predict`.")] = "auto",
    repeats: Annotated[int, typer.Option(min=1, help="Runs of the command; the median is shown.")] = 3,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")] = None,
) -> None:
    """A whole slide from the command line to its result, beside the naive way with the same nets."""
    from tempfile import TemporaryDirectory

    from aspirate.synth.cohort import draw_slide
    from aspirate.synth.settings import SynthSettings, read_size
    from aspirate.workflow.bench_slide import measure, steps_of

    with TemporaryDirectory(prefix="aspirate-bench-") as folder:
        if slide is None:
            slide = Path(folder) / "slide.tiff"
            settings = SynthSettings.of({"size": read_size(size)}, source=f"--size {size}")
            with progress("drawing a slide", settings.megapixels / settings.slides, "Mpx") as bar:
                draw_slide(settings, slide, lambda pixels: bar(pixels / 1e6))
        with progress("measuring", steps_of(repeats), "runs") as advance:
            figures = measure(model, slide, exact, repeats, engine, advance)
    show_figures(figures, json_file)
