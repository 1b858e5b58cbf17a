"""Jobs that only say how far they are, done by an executor: slides to draw, runs of a study."""

from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from aspirate.core.progress import Advance, Stages
from aspirate.synth.cohort import Jobs, Run
from aspirate.workflow.launch import Executor, Needs, Unit
from aspirate.workflow.unit_progress import OneBar


@dataclass(frozen=True, slots=True)
class _Sized:
    """A job of so much work, as a unit."""

    name: str
    job: Callable[[Advance], None]
    size: float

    def __call__(self, stages: Stages, /) -> None:
        with stages(self.name, 1, "jobs") as bar:
            self.job(lambda n: bar(n / self.size))


@dataclass(frozen=True, slots=True)
class _Whole:
    """The bar of all jobs together."""

    advance: Advance
    size: float

    def __call__(self, n: float, /) -> None:
        self.advance(n * self.size)

    def note(self, text: str) -> None:
        """Of which job there is news; many are under way."""


def done_by(
    executor: Executor,
    needs: Needs = Needs(1),  # noqa: B008 - a frozen record
) -> Run:

    def run(jobs: Jobs, advance: Advance, size: float) -> dict[str, str]:
        units = [Unit(name, _Sized(name, job, size), needs) for name, job in jobs.items()]
        shown, failed = OneBar(_Whole(advance, size)), {}
        with closing(executor.run(units, shown)) as outcomes:
            for outcome in outcomes:
                if outcome.error is None:
                    shown.end(outcome.name)
                else:
                    failed[outcome.name] = outcome.error
        return failed

    return run
