"""The doctor in processes apart: a slide whose decoder ends its process is named, and the others are looked at."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass

from aspirate.core.progress import Advance, Stages, silent, silent_stages
from aspirate.core.records import SlideEntry
from aspirate.slides.doctor import Checking, Checkup, check_here
from aspirate.slides.slide_check import CheckedSlide, lost_slide
from aspirate.slides.threads import available_threads
from aspirate.workflow.launch import Needs, Unit
from aspirate.workflow.local_pool import LocalPool

AT_ONCE = 16
"""Slides a unit; those of one that is lost are looked at again, one by one."""


@dataclass(frozen=True, slots=True)
class CheckJob:
    entries: tuple[SlideEntry, ...]
    how: Checkup
    look: Checking

    def __call__(self, stages: Stages, /) -> list[CheckedSlide]:
        return list(self.look(self.entries, self.how, silent))


def check_apart(
    entries: Sequence[SlideEntry], how: Checkup, advance: Advance, look: Checking = check_here
) -> list[CheckedSlide]:
    """As `look`, in as many processes as there are cores."""
    threads = available_threads()
    crew, needs = (LocalPool(1), Needs(threads)) if how.deep else (LocalPool(threads), Needs(1))
    found: dict[int, CheckedSlide] = {}

    def checked(parts: Sequence[range]) -> dict[range, str]:
        """Looks at slides by their places; says of which nothing came back, and why."""
        jobs = {str(part): CheckJob(tuple(entries[i] for i in part), how, look) for part in parts}
        places, lost = {str(part): part for part in parts}, {}
        with closing(crew.run([Unit(name, job, needs) for name, job in jobs.items()], silent_stages)) as outcomes:
            for outcome in outcomes:
                part = places[outcome.name]
                if outcome.error is not None:
                    lost[part] = outcome.error.removeprefix(f"{outcome.name}: ")
                    continue
                found.update(zip(part, outcome.value, strict=True))
                advance(len(part))
        return lost

    size = 1 if how.deep else AT_ONCE
    everyone = range(len(entries))
    lost = checked([everyone[start : start + size] for start in range(0, len(everyone), size)])
    alone = [range(i, i + 1) for part in lost for i in part]
    for part, why in (checked(alone) if size > 1 else lost).items():
        found[part.start] = lost_slide(entries[part.start], why)
        advance(1)
    return [found[i] for i in everyone]
