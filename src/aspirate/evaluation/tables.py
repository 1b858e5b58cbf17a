"""A table of results, once: as text for a page, as CSV with every limit in a column of its own, as LaTeX."""

import csv
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from math import isfinite, isnan

from aspirate.evaluation.discrimination import OverFolds
from aspirate.evaluation.estimates import Estimate

GAP = "–"
HOLM = "p values are adjusted by Holm for all comparisons of their column"


class PValue(float):
    """Shown as such: never as 0."""


@dataclass(frozen=True, slots=True)
class Share:
    """A proportion, to be shown with its counts and in percent."""

    of: Estimate


@dataclass(frozen=True, slots=True)
class Signed:
    """A difference, to be shown with its sign."""

    of: Estimate


Cell = str | int | float | PValue | Estimate | Share | Signed | OverFolds


@dataclass(frozen=True, slots=True)
class Table:
    name: str
    """Of its files."""
    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    note: str = ""
    strong: str = ""
    """Rows that begin with it stand out."""


def text(cell: Cell) -> str:
    """As a person reads it."""
    match cell:
        case Estimate():
            return _with_interval(cell, lambda value: f"{value:.3f}".replace("-", "−"), " to " if cell.low < 0 else "–")
        case Signed(of):
            return _with_interval(of, lambda value: f"{value:+.3f}".replace("-", "−"), " to ")
        case Share(of):
            counts = f"{round(of.value * of.n)}/{of.n} = " if isfinite(of.value) else ""
            return counts + _with_interval(of, lambda value: f"{100 * value:.1f} %")
        case OverFolds():
            spread = "" if isnan(cell.sd) else f" ± {cell.sd:.3f}"
            return GAP if isnan(cell.mean) else f"{cell.mean:.3f}{spread}"
        case PValue():
            return GAP if isnan(cell) else "< 0.001" if cell < 0.001 else f"{cell:.3f}"
        case float():
            return f"{cell:.3f}" if isfinite(cell) else GAP
        case int():
            return f"{cell:,}"
        case _:
            return cell


def _with_interval(found: Estimate, shown: Callable[[float], str], to: str = "–") -> str:
    if isnan(found.value):
        return GAP
    value = shown(found.value) if isfinite(found.value) else "∞"
    return value if isnan(found.low) else f"{value} ({shown(found.low).removesuffix(' %')}{to}{shown(found.high)})"


def why(cell: Cell) -> str:
    """How an interval was made or why there is none, for who wants to know."""
    found = cell.of if isinstance(cell, Share | Signed) else cell
    if isinstance(found, Estimate):
        return "; ".join(filter(None, (f"n = {found.n}", found.method, found.note)))
    return found.note if isinstance(found, OverFolds) else ""


def as_csv(table: Table) -> str:
    """Numbers in full; an estimate takes four columns, a mean over folds two."""
    parts = [_parts([row[i] for row in table.rows]) for i in range(len(table.columns))]
    header = [f"{name}{part}" for name, names in zip(table.columns, parts, strict=True) for part in names]
    out = StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(header)
    for row in table.rows:
        writer.writerow([value for cell, names in zip(row, parts, strict=True) for value in _values(cell, len(names))])
    return out.getvalue()


def _parts(cells: list[Cell]) -> tuple[str, ...]:
    if any(isinstance(cell, Estimate | Share | Signed) for cell in cells):
        return "", " low", " high", " n"
    return (" mean", " sd") if any(isinstance(cell, OverFolds) for cell in cells) else ("",)


def _values(cell: Cell, width: int) -> list[str]:
    found = cell.of if isinstance(cell, Share | Signed) else cell
    match found:
        case Estimate():
            values = [_plain(found.value), _plain(found.low), _plain(found.high), str(found.n)]
        case OverFolds():
            values = [_plain(found.mean), _plain(found.sd)]
        case float():
            values = [_plain(found)]
        case _:
            values = [str(found)]
    return values + [""] * (width - len(values))


def _plain(value: float) -> str:
    return "" if isnan(value) else f"{value:.8g}"


_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"$<$", ">": r"$>$", "±": r"$\pm$", "–": "--",
    "−": r"$-$", "≤": r"$\leq$", "≥": r"$\geq$", "×": r"$\times$", "σ": r"$\sigma$", "κ": r"$\kappa$", "Δ": r"$\Delta$",
    "·": r"$\cdot$", "∞": r"$\infty$", "½": r"$\frac{1}{2}$",
}  # fmt: skip


def latex_escaped(words: str) -> str:
    return "".join(_LATEX.get(character, character) for character in words)


def as_latex(table: Table) -> str:
    """A plain tabular that needs no package."""
    lines = [r"\begin{tabular}{l" + "r" * (len(table.columns) - 1) + "}", r"\hline"]
    lines += [" & ".join(map(latex_escaped, table.columns)) + r" \\", r"\hline"]
    lines += [" & ".join(latex_escaped(text(cell)) for cell in row) + r" \\" for row in table.rows]
    lines += [r"\hline", r"\end{tabular}"]
    note = f"% {table.note}\n" if table.note else ""
    return f"% {table.title}\n{note}" + "\n".join(lines) + "\n"
