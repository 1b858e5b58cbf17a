"""The rows of the comparison, as data: the paper's table and a few more."""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from aspirate.core.errors import ConfigError
from aspirate.evaluation.material import PROPOSED
from aspirate.slides.examination import Examination

Kind = Literal["crops", "bags", "tiles"]


@dataclass(frozen=True, slots=True)
class Method:
    """One row: what it looks at, which labels it learns from, and how tiles become a slide."""

    family: str
    labels: str
    """With U the kept tiles are seen, without it crops of whole slides, or tiles drawn from them."""
    kind: Kind
    pool: str = ""
    two_heads: bool = False
    link: Literal["plain", "mixture"] = "plain"

    @property
    def name(self) -> str:
        return f"{self.family} ({','.join(self.labels)})"

    @property
    def slug(self) -> str:
        return f"{self.family}-{self.labels}".lower()

    @property
    def own_labels(self) -> str:
        """Without U, which is stage 1's."""
        return self.labels.removeprefix("U")


METHODS = (
    Method("CNN", "YS", "crops", "cnn"),
    Method("NoisyAND", "YS", "crops", "noisy-and"),
    Method("AttentionMIL", "YS", "crops", "attention"),
    Method("GatedAttentionMIL", "YS", "crops", "gated-attention"),
    Method("Proposed", "YS", "tiles"),
    Method("Mixture", "YS", "tiles", link="mixture"),
    Method("NoisyOr", "UYS", "bags", "max"),
    Method("TextbookNoisyOr", "UYS", "bags", "noisy-or"),
    Method("NoisyAND", "UYS", "bags", "noisy-and"),
    Method("AttentionMIL", "UYS", "bags", "attention"),
    Method("GatedAttentionMIL", "UYS", "bags", "gated-attention"),
    Method("AveragePooling", "UYS", "bags", "mean"),
    *(Method("Proposed", labels, "tiles") for labels in ("UY", "US", "UV", "UYV", "USV")),
    Method("Proposed2Heads", "UYS", "tiles", two_heads=True),
    Method("Proposed", "UYS", "tiles"),
    Method("Proposed", "UYSV", "tiles"),
    Method("Mixture", "UYS", "tiles", link="mixture"),
)
"""In the order of the paper's table, and what it does not have."""

SHOWN = PROPOSED
"""The one whose tile scores are kept to be looked at."""


def choose_methods(names: Sequence[str] = (), labels: Sequence[str] = ()) -> tuple[Method, ...]:
    """Rows by name (`Proposed (U,Y,S)`, `proposed-uys`) or family (`proposed`), or all; of these, those of `labels`.

    Each may be several with commas between.
    """
    wanted = [name.lower() for name in _apart(names)] or ["all"]
    known = {"all"} | {said for method in METHODS for said in _names(method)}
    if unknown := [name for name in wanted if name not in known]:
        families = dict.fromkeys(method.family for method in METHODS)
        raise ConfigError(
            f"--methods {unknown[0]}: no such method; use all, {', '.join(families)}, or one row, as proposed-uys"
        )
    chosen = tuple(m for m in METHODS if {"all", *_names(m)} & set(wanted))
    if labels:
        letters = ["".join(sorted(text.upper())) for text in _apart(labels)]
        chosen = tuple(m for m in chosen if "".join(sorted(m.labels)) in letters)
    if not chosen:
        raise ConfigError(
            f"--labels {' '.join(labels)}: none of the chosen methods learns from these; use e.g. UYS or YS"
        )
    return chosen


def _apart(said: Sequence[str]) -> list[str]:
    """`cnn, Proposed (U,Y,S)` are two: commas within brackets belong to a row's name."""
    return [part.strip() for text in said for part in re.split(r",(?![^(]*\))", text)]


def _names(method: Method) -> tuple[str, str, str]:
    return method.name.lower(), method.slug, method.family.lower()


def divide(methods: Sequence[Method], examination: Examination) -> tuple[tuple[Method, ...], dict[str, str]]:
    """Methods whose labels the cohort has, and why the others are skipped; to be judged, every one needs Y."""
    rows = {row.labels: row for row in examination.trainable}
    if not rows["Y"].possible:
        raise ConfigError(
            f"{examination.source}: methods are compared by telling malignant from benign slides ({rows['Y'].why})"
        )
    skipped = {m.name: rows[m.labels].why for m in methods if not rows[m.labels].possible}
    return left_of(methods, skipped, examination.source)


def left_of(
    methods: Sequence[Method], skipped: dict[str, str], source: Path
) -> tuple[tuple[Method, ...], dict[str, str]]:
    """Those that are left, of which there must be one."""
    able = tuple(method for method in methods if method.name not in skipped)
    if not able:
        alike: defaultdict[str, list[str]] = defaultdict(list)
        for name, why in skipped.items():
            alike[why].append(name)
        reasons = "".join(f"\n  - {_first_few(names)}: {why}" for why, names in alike.items())
        raise ConfigError(f"{source}: none of the chosen methods can be trained{reasons}")
    return able, skipped


def _first_few(names: Sequence[str], few: int = 3) -> str:
    return ", ".join(names[:few]) + (f" and {len(names) - few} more" if len(names) > few else "")
