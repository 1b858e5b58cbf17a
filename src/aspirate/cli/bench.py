"""Commands that measure reading, training and whole slides; that of serving is with the reading room."""

from pathlib import Path
from typing import Annotated

import typer

from aspirate.cli.crew import cores
from aspirate.cli.display import progress, show_figures

JsonFile = Annotated[Path | None, typer.Option("--json", help="Write the figures to this file.")]


def bench_read(
    slide: Annotated[Path, typer.Argument(help="A JPEG-tiled TIFF or SVS.")],
    threads: Annotated[int | None, typer.Option(min=1, help="Threads of every contestant.")] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Turns of each; medians are shown.")] = 5,
    json_file: JsonFile = None,
) -> None:
    """Reading, beside OpenSlide and bare JPEG decoding. Every 128-px tile of a slide once."""
    from aspirate.workflow.bench_read import measure

    show_figures(measure(slide, threads=threads or cores(), repeats=repeats), json_file)


def bench_train(
    json_file: JsonFile = None,
) -> None:
    """Training, beside plain fp32 PyTorch on the same nets. Also beside our loop with data already in memory."""
    from aspirate.workflow.bench_train import measure, steps_of

    with progress("training", steps_of(), "turns") as advance:
        figures = measure(advance=advance)
    show_figures(figures, json_file)


def bench_slide(
    model: Annotated[
        Path, typer.Option(metavar="RUN/model", help="A trained model: random weights would tell nothing.")
    ],
    size: Annotated[str, typer.Option(metavar="WxH", help="Pixels of the slide that is drawn.")] = "40000x25000",
    slide: Annotated[Path | None, typer.Option(help="A slide to take instead.")] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Look at every tile closely.")] = False,
    engine: Annotated[str, typer.Option(help="As of `aspirate predict`.")] = "auto",
    repeats: Annotated[int, typer.Option(min=1, help="Runs of the command; the median is shown.")] = 3,
    json_file: JsonFile = None,
) -> None:
    """A whole slide, beside the naive way with the same nets. From the command line to its result."""
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
