"""A whole synthetic cohort on disk: slides, labels, annotations, truth."""

import csv
import gc
import io
import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from aspirate.core.errors import AspirateError, ConfigError
from aspirate.core.progress import Advance, silent
from aspirate.core.ranking import auc
from aspirate.core.store import (
    ANNOTATION_FOLDER,
    COHORT_FILE,
    PROVENANCE_FILE,
    SLIDE_FOLDER,
    TRUTH_FILE,
    atomic_path,
    provenance,
    write_json,
    write_text,
)
from aspirate.synth.annotator import annotate
from aspirate.synth.model import CohortLabels, Stream, draw_labels, mean_oracle_auc, stream
from aspirate.synth.plan import SlidePlan, plan_slide
from aspirate.synth.render import SlideRenderer
from aspirate.synth.settings import SynthSettings
from aspirate.synth.writer import Encoding, is_whole, write_slide


@dataclass(frozen=True, slots=True)
class SynthSummary:
    """What was made, and how far its labels can be told from its cells."""

    folder: Path
    slides: int
    slides_written: int
    """The rest were there, whole, from an earlier start."""
    malignant_share: float
    oracle_auc: float
    """Of this cohort, for one who sees every group's true grade."""
    oracle_auc_mean: float
    """The same over many label-only draws of these settings."""
    reader_aucs: tuple[float, ...]
    megapixels: float
    """Of the slides written now."""
    seconds: float


@dataclass(frozen=True, slots=True)
class _Job:
    plan: SlidePlan
    path: Path
    encoding: Encoding

    def __call__(self, advance: Advance) -> None:
        with atomic_path(self.path) as part:
            write_slide(part, self.plan.size_px0, SlideRenderer(self.plan).region, self.encoding, advance)
        gc.collect()  # a renderer's caches refer to itself, so nothing else would free them before the next slide


Jobs = Mapping[str, Callable[[Advance], None]]
Run = Callable[[Jobs, Advance, float], dict[str, str]]
"""Does jobs that advance by so much each; says which failed, and why."""


def one_by_one(jobs: Jobs, advance: Advance, size: float) -> dict[str, str]:
    """In this process; one that fails does not stop the others."""
    failures = {}
    for name, job in jobs.items():
        try:
            job(advance)
        except Exception as error:  # noqa: BLE001 - one bad slide is told by its name, the others go on
            failures[name] = str(error) or type(error).__name__
    return failures


def make_cohort(settings: SynthSettings, out: Path, advance: Advance = silent, run: Run = one_by_one) -> SynthSummary:
    """Makes what is missing of a cohort; `advance` hears of level-0 pixels, slides already there included."""
    start = time.monotonic()
    _claim(settings, out)
    labels = draw_labels(settings, stream(settings.seed, Stream.LABELS))
    names = _numbered("slide", settings.slides)
    plans = [plan_slide(settings, labels, index) for index in range(settings.slides)]
    jobs: dict[str, Callable[[Advance], None]] = {}
    pixels = settings.size[0] * settings.size[1]
    for name, plan in zip(names, plans, strict=True):
        path = out / SLIDE_FOLDER / f"{name}.{settings.format}"
        encoding = _encoding(settings, plan)
        if is_whole(path, settings.size_px0, encoding.factor):
            advance(pixels)
        else:
            jobs[name] = _Job(plan, path, encoding)
    failures = run(jobs, advance, pixels)
    if failures:
        told = "; ".join(f"{name}: {reason}" for name, reason in failures.items())
        raise AspirateError(
            f"{len(failures)} of {settings.slides} slides could not be written ({told}). "
            f"The others are kept in {out}; mend the cause and start the same command again"
        )
    _write_tables(settings, out, labels, names, plans)
    read = labels.bethesda > 1
    return SynthSummary(
        folder=out,
        slides=settings.slides,
        slides_written=len(jobs),
        malignant_share=float(labels.malignant.mean()),
        oracle_auc=auc(labels.oracle_score[read], labels.malignant[read]),
        oracle_auc_mean=mean_oracle_auc(settings),
        reader_aucs=tuple(auc(column[read], labels.malignant[read]) for column in labels.readers.T),
        megapixels=len(jobs) * pixels / 1e6,
        seconds=time.monotonic() - start,
    )


def draw_slide(settings: SynthSettings, path: Path, advance: Advance = silent) -> None:
    """The first slide of a cohort, alone."""
    plan = plan_slide(settings, draw_labels(settings, stream(settings.seed, Stream.LABELS)), 0)
    _Job(plan, path, _encoding(settings, plan))(advance)


def _encoding(settings: SynthSettings, plan: SlidePlan) -> Encoding:
    return Encoding(settings.mpp, settings.format == "svs", plan.appearance.jpeg_quality, plan.scanner.chroma)


def _claim(settings: SynthSettings, out: Path) -> None:
    """Marks the folder as this cohort's, unless it is another's."""
    record = provenance(settings.model_dump(mode="json"))
    path = out / PROVENANCE_FILE
    if not path.exists():
        if (out / COHORT_FILE).exists() or (out.exists() and not out.is_dir()):
            raise ConfigError(f"{out} is not a synthetic cohort of this program; choose another folder")
        write_json(path, record)
        return
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        before = {"aspirate_version": found["aspirate_version"], **found["settings"]}
    except (ValueError, KeyError, TypeError) as exc:
        raise ConfigError(f"{path} cannot be read; remove {out} or choose another folder") from exc
    now = {"aspirate_version": record["aspirate_version"], **record["settings"]}
    differing = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    if differing:
        told = ", ".join(f"{key} {before.get(key)} → {now.get(key)}" for key in differing)
        raise ConfigError(f"{out} holds a cohort of other settings ({told}); choose another folder or remove it")


def _numbered(kind: str, count: int) -> list[str]:
    digits = max(3, len(str(count)))
    return [f"{kind}-{number:0{digits}d}" for number in range(1, count + 1)]


def _write_tables(
    settings: SynthSettings, out: Path, labels: CohortLabels, names: Sequence[str], plans: Sequence[SlidePlan]
) -> None:
    for index in np.flatnonzero(labels.annotated).tolist():
        marks = annotate(settings, plans[index].groups, stream(settings.seed, index, Stream.ANNOTATION))
        write_json(out / ANNOTATION_FOLDER / f"{names[index]}.geojson", marks)
    truth = [
        (name, g.box_px0.x, g.box_px0.y, g.box_px0.width, g.box_px0.height, int(g.abnormality))
        for name, plan in zip(names, plans, strict=True)
        for g in plan.groups
    ]
    header = ("slide_id", "x", "y", "width", "height", "abnormality")
    write_text(out / TRUTH_FILE, _csv([header, *truth]))
    patients = _numbered("patient", settings.patient_count)
    readers = [f"reader_{number}" for number in range(1, settings.readers + 1)]
    rows: list[Sequence[object]] = [
        ("slide_id", "path", "patient_id", "malignant", "bethesda", "mpp", "site", *readers)
    ]
    for i, name in enumerate(names):
        path = f"{SLIDE_FOLDER}/{name}.{settings.format}"
        site = f"site-{chr(ord('A') + labels.site[i])}"
        read = [int(tbs) if tbs else "" for tbs in labels.readers[i]]
        label = (int(labels.malignant[i]), int(labels.bethesda[i]))
        rows.append((name, path, patients[labels.patient[i]], *label, f"{settings.mpp:g}", site, *read))
    write_text(out / COHORT_FILE, _csv(rows))  # last: where it is, the cohort is complete


def _csv(rows: Iterable[Sequence[object]]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()
