"""Every JSON body that the server sends or takes."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Role = Literal["reader", "admin"]
Mode = Literal["review", "reading"]
"""In reading mode the algorithm's result of a slide is hidden until one has given an own category."""
Grade = Literal["informative", "normal", "atypical", "malignant"]
Name = Annotated[
    str, StringConstraints(strip_whitespace=True, min_length=1, max_length=60, pattern=r"^[^\x00-\x1f,;\"]+$")
]


class Message(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Problem(Message):
    """Why a request was refused, and what to do."""

    detail: str


class Session(Message):
    reader: str
    role: Role
    mode: Mode
    csrf: str
    """To be sent back with every write, in the header X-CSRF-Token."""
    accounts: bool
    """Whether readers have passwords; else a reader may change the name."""
    report: bool
    version: str


class SignedOut(Message):
    """What a browser must know before anyone has signed in."""

    accounts: bool
    version: str


class SignIn(Message):
    name: Annotated[str, Field(max_length=60)]
    password: Annotated[str, Field(max_length=1000)]


class SessionChange(Message):
    reader: Name | None = None
    mode: Mode | None = None


class Result(Message):
    """What the algorithm says of a slide."""

    method: str
    score: float | None
    probability: float | None
    bethesda: int | None
    malignant: bool | None
    adequate: bool | None
    informative_tiles: int | None


class SlideRow(Message):
    name: str
    status: Literal["predicted", "inadequate", "failed", "unpredicted", "hidden"]
    result: Result | None
    error: str
    own_bethesda: int | None
    readings: int
    """How many the reader has given."""
    marks: int


class Worklist(Message):
    slides: list[SlideRow]
    mode: Mode


class PyramidShape(Message):
    width: int
    height: int
    tile_px: int
    max_level: int
    mpp: float | None


class ModelNote(Message):
    confident: float
    cuts: list[float]
    threshold: float
    calibration_slope: float
    calibration_offset: float
    calibration_limits: list[float]
    calibration_slides: int
    groups_needed: int
    provenance: dict[str, str]


class Reading(Message):
    bethesda: int
    comment: str
    reader: str
    time: str
    blind: bool
    """Given before the algorithm's result was shown to this reader."""


class Combination(Message):
    rule: Literal["Combined345Human", "Combined345Alg"]
    bethesda: int
    decided_by: Literal["reader", "algorithm", "both"]
    conflict: bool


class SlideView(Message):
    """A slide's page but for its pixels."""

    name: str
    previous: str | None
    next: str | None
    status: Literal["predicted", "inadequate", "failed", "unpredicted", "hidden"]
    error: str
    pyramid: PyramidShape | None
    result: Result | None
    model: ModelNote | None
    blind: bool
    """Whether a reading given now would be one."""
    readings: list[Reading]
    """One's own, and others' for an admin who may see the result."""
    combined: list[Combination]
    marks_kept: str
    """Where annotations go, in words."""


class EvidenceTile(Message):
    rank: int
    x: int
    y: int
    informativeness: float
    malignancy: float | None


class Evidence(Message):
    side_px0: int
    columns: int
    rows: int
    tiles: list[EvidenceTile]
    histogram: list[int]
    groups: int | None
    colours: list[str]
    guessed: float
    """Share of the tiles whose informativeness is a scout's guess."""


class NewReading(Message):
    bethesda: Annotated[int, Field(ge=1, le=6)]
    comment: Annotated[str, Field(max_length=2000)] = ""


class Mark(Message):
    """An annotation: a place as GeoJSON geometry in level-0 pixels, and its grade."""

    id: str
    event: int
    """What to name to have it as it is now again."""
    geometry: dict[str, Any]
    grade: Grade
    reader: str
    time: str


class Place(Message):
    """A point, or a box where it has a width and a height; level-0 pixels."""

    x: Annotated[float, Field(ge=0, le=1e9)]
    y: Annotated[float, Field(ge=0, le=1e9)]
    width: Annotated[float, Field(ge=0, le=1e9)] = 0
    height: Annotated[float, Field(ge=0, le=1e9)] = 0


class NewMark(Message):
    place: Place
    grade: Grade


class MarkChange(Message):
    grade: Grade
    place: Place | None = None
    """None leaves it where it is."""


class Restoration(Message):
    event: Annotated[int, Field(ge=1, le=2**62)]


class Marks(Message):
    marks: list[Mark]


class Imported(Message):
    added: int


class Suggestion(Message):
    slide: str
    x: int
    y: int
    side_px0: int
    informativeness: float


class Suggestions(Message):
    suggestions: list[Suggestion]


class Dismissal(Message):
    slide: Annotated[str, Field(max_length=200)]
    x: Annotated[int, Field(ge=0, le=10**9)]
    y: Annotated[int, Field(ge=0, le=10**9)]
