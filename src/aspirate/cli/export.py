"""The command that hands a model to other programs."""

from pathlib import Path
from typing import Annotated

import typer

from aspirate.cli.display import FAILED, err, out


def export(
    model: Annotated[Path, typer.Argument(help="RUN/model of a training.")],
    to: Annotated[str, typer.Option("--to", help="onnx, torchscript (WSInfer, QuPath) or openvino.")],
    folder: Annotated[Path, typer.Option("--out", "-o", help="Folder of the export; must not exist.")],
) -> None:
    """Both nets for other programs, checked on the model's own tiles."""
    from aspirate.workflow.export import ExportDiffers
    from aspirate.workflow.export import export as export_

    try:
        done = export_(model, to, folder)
    except ExportDiffers as error:
        err.print(f"error: {error}", markup=False)
        raise typer.Exit(FAILED) from error
    for net, difference in done.differences.items():
        out.print(f"{net}: largest difference {difference:.2g} on {done.tiles} reference tiles", markup=False)
    out.print(f"{to}, for research use only: {done.folder}", markup=False)
