"""An evaluation on one page: what was found in a minute's reading, then tables and figures; no outside request."""

import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader
from markupsafe import Markup, escape

from aspirate import __version__
from aspirate.core.labels import BETHESDA_NAMES
from aspirate.core.store import write_text
from aspirate.evaluation.analysis import Analysis
from aspirate.evaluation.summary import sentences
from aspirate.evaluation.tables import Cell, Table, text, why
from aspirate.workflow.heat_map import css_colours
from aspirate.workflow.report_pictures import Pictures

if TYPE_CHECKING:  # it needs matplotlib, which takes its time
    from aspirate.evaluation.drawing import Drawing

OF_REFERENCE = ("calibration", "rates", "subgroups")
"""Tables of which the page shows the reference method alone; the files have all."""
PX_PER_PT = 1.6
"""Letters of figures become about as large as those of tables."""


def write_report(
    path: Path,
    analysis: Analysis,
    tables: Mapping[str, Table],
    figures: Mapping[str, "Drawing"],
    pictures: Pictures,
    origin: Mapping[str, str],
) -> None:
    loader = PackageLoader("aspirate.workflow", "templates")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.globals |= {
        "text": text,
        "why": why,
        "kind": _kind,
        "inline": inline_svg,
        "uri": jpeg_uri,
        "count": _count,
    }
    html = environment.get_template("report.html.j2").render(
        analysis=analysis,
        own=analysis.method(analysis.reference),
        facts=_facts(analysis),
        sentences=sentences(analysis),
        tables={name: _shown(table, analysis.reference) for name, table in tables.items()},
        figures=figures,
        pictures=pictures,
        colours=css_colours(),
        bethesda_names=BETHESDA_NAMES,
        settings={name: value for name, value in analysis.settings.model_dump().items() if value is not None},
        origin=origin,
        version=__version__,
    )
    write_text(path, html)


def _facts(analysis: Analysis) -> list[tuple[str, str]]:
    slides = analysis.slides
    facts = [("slides", f"{slides.slides:,}")]
    facts += [("patients", f"{slides.patients:,}")] if slides.patients is not None else []
    facts += [("malignant", f"{slides.malignant:,}"), ("benign", f"{slides.benign:,}")]
    facts += [("histology unknown", f"{slides.unlabelled:,}")] if slides.unlabelled else []
    counts = {
        "method": len(analysis.methods),
        "fold": len(analysis.method(analysis.reference).auc_folds.values),
        "reader": len(analysis.readers.comparisons) if analysis.readers else 0,
    }
    return facts + [(name if n == 1 else f"{name}s", str(n)) for name, n in counts.items() if n]


def _shown(table: Table, reference: str) -> Table:
    """Of some the reference alone, and of all only columns that say something."""
    rows, title, first = table.rows, table.title, 0
    if table.name in OF_REFERENCE:
        rows, title, first = tuple(row for row in rows if row[0] == reference), f"{title}: {reference}", 1
    kept = [i for i in range(first, len(table.columns)) if any(row[i] != "" for row in rows)]
    columns = tuple(table.columns[i] for i in kept)
    return replace(table, title=title, columns=columns, rows=tuple(tuple(row[i] for i in kept) for row in rows))


def inline_svg(drawing: "Drawing") -> Markup:
    """No wider than drawn, and with names of its own: several figures share one document."""
    body = drawing.svg[drawing.svg.index("<svg") :]
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{drawing.name}-", body)
    head = re.compile(r'<svg[^>]*?width="([\d.]+)pt"[^>]*?viewBox="([^"]+)"[^>]*>')
    space = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    label = escape(drawing.title)
    found = head.search(body)
    if found is None:
        raise ValueError(f"{drawing.name}: the figure does not say its size")
    width_px = float(found[1]) * PX_PER_PT
    own = f'<svg {space} role="img" aria-label="{label}" viewBox="{found[2]}" style="width: {width_px:.0f}px">'
    return Markup(own + body[found.end() :])


def jpeg_uri(data: bytes) -> str:
    return "data:image/jpeg;base64," + b64encode(data).decode()


def _kind(cell: Cell) -> str:
    """Words are read from the left, numbers from the right."""
    return "word" if isinstance(cell, str) and any(map(str.isalpha, cell)) else "number"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
