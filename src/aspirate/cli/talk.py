"""How much a command says on the screen and in its log."""

import json
import logging
from typing import Annotated

import typer

from aspirate.cli import display
from aspirate.core.log import DEBUG, LOGGER, names_wanted, told


class _OnScreen(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        line = told(record, names_wanted.get())
        when, level, event = (str(line.pop(key)) for key in ("time", "level", "event"))
        del line["process"]
        facts = (f"{name} {value if isinstance(value, str) else json.dumps(value)}" for name, value in line.items())
        said = " · ".join([event, *facts])
        display.err.print(f"{when[11:19]} {level:7} {said}", markup=False)


_on_screen = _OnScreen()


def _verbose(wanted: bool) -> None:
    LOGGER.removeHandler(_on_screen)
    LOGGER.setLevel(DEBUG if wanted else logging.NOTSET)
    if wanted:
        LOGGER.addHandler(_on_screen)


def _name(wanted: bool) -> None:
    names_wanted.set(wanted)


Quiet = Annotated[bool, typer.Option("--quiet", "-q", callback=display.quiet, help="Say only what went wrong.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", callback=_verbose, help="Show and log every event.")]
LogNames = Annotated[
    bool,
    typer.Option("--log-names", callback=_name, help="Slides by name in log.jsonl, not by number; mind the patients."),
]
