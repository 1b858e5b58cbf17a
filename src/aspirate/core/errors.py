"""One family of errors; each message says what, which value, and what to do."""

from collections.abc import Sequence


class AspirateError(Exception):
    """Anything a person can mend; the command line shows its message and no traceback."""


class SlideError(AspirateError):
    """A slide that cannot be used; the message begins with the slide's name."""


class UnreadableSlide(SlideError):
    """The file is missing, is no slide, or has damaged pixels."""


class MissingResolution(SlideError):
    """The slide does not say how many micrometres a pixel is."""


class ImplausibleResolution(SlideError):
    """The slide's micrometres per pixel cannot be true."""


class ConfigError(AspirateError):
    """A setting that contradicts another or has no meaning."""


class TableError(AspirateError):
    """A table with problems, all of them listed."""

    SHOWN = 20

    def __init__(self, table: str, problems: Sequence[str]) -> None:
        self.problems = list(problems)
        shown = "\n".join(f"  - {problem}" for problem in self.problems[: self.SHOWN])
        more = len(self.problems) - self.SHOWN
        rest = f"\n  - … and {more} more" if more > 0 else ""
        count = f"{len(self.problems)} problem{'s' if len(self.problems) != 1 else ''}"
        super().__init__(f"{table}: {count}\n{shown}{rest}")


class CohortError(TableError):
    """A cohort table with problems."""


class AnnotationError(TableError):
    """Annotations with problems."""
