"""A small cohort with planted predictions: two predicted slides, one inadequate, one failed, one without a file."""

from pathlib import Path

import numpy as np
from fastapi.testclient import TestClient
from httpx2 import Response
from tests.slides.slide_files import Variety, picture, write_slide

from aspirate.core.geometry import Size, TileGrid
from aspirate.core.predictions import Prediction, write_predictions
from aspirate.core.records import SlideEntry
from aspirate.core.store import write_json
from aspirate.core.tile_file import TileTable, write_tiles
from aspirate.slides.cohort import Cohort
from aspirate.stages.calibration import Calibration
from aspirate.viewer.accounts import Account
from aspirate.viewer.desk import Desk
from aspirate.viewer.places import Served
from aspirate.viewer.room import Room
from aspirate.viewer.server import Address, make_app
from aspirate.viewer.sessions import Sessions

SIZE = Size(1300, 1100)
SIDE = 128
CALIBRATION = Calibration(slope=2.0, offset=0.5, benign=20, malignant=10)
METHOD = "Proposed (U,Y,S)"
CUTS = [-1.5, -0.5, 0.5, 1.5]


def informativeness(seed: int) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    """Low all over but for a few tiles, of which number 37 is highest; number 50 is 0."""
    values = np.random.default_rng(seed).uniform(0.0, 0.3, len(grid())).astype(np.float32)
    values[[3, 20, 37, 60, 50]] = [0.91, 0.55, 0.99, 0.95, 0.0]
    return values


def grid() -> TileGrid:
    return TileGrid.cover(SIZE, 0.25, SIDE, 0.25)


def tile_values(seed: int) -> dict[str, np.ndarray[tuple[int], np.dtype[np.generic]]]:
    heat = informativeness(seed)
    kept = heat > 0.9
    malignancy = np.full(len(heat), np.nan, np.float32)
    malignancy[[3, 37, 60]] = [2.5, -1.0, 0.25]
    exact = heat >= (0.2 if seed == 2 else 0.0)  # on slide b a scout guessed at the rest
    return {"informativeness": heat, "selected": kept, "malignancy": malignancy, "exact": exact}


def make_cohort(folder: Path) -> Path:
    pixels = [picture(SIZE.width, SIZE.height, seed) for seed in (1, 2)]
    for name, level_0 in zip("ab", pixels, strict=True):
        write_slide(folder / f"Jane Doe {name}.tiff", level_0, Variety())
    (folder / "Jane Doe broken.tiff").write_bytes(b"no slide")
    write_slide(folder / "few.tiff", pixels[0], Variety(levels=1))
    files = {"a": "Jane Doe a.tiff", "b": "Jane Doe b.tiff", "few": "few.tiff", "broken": "Jane Doe broken.tiff"}
    Cohort.write(
        folder / "cohort.csv",
        [SlideEntry(name, folder / file, mpp=0.25, malignant=name == "a", bethesda=5) for name, file in files.items()],
    )
    return folder


def make_results(folder: Path) -> Path:
    rows = []
    for name, score in (("a", 1.0), ("b", -1.0)):
        probability = float(CALIBRATION.probability(score))
        rows.append(
            Prediction(name, "", METHOD, None, None, score, probability, score > 0, 5 if score > 0 else 3, True, 3)
        )
        write_tiles(folder / "tiles" / f"{name}.h5", TileTable.of_grid(name, grid(), tile_values(len(rows))))
    rows.append(Prediction("few", "", METHOD, score=0.3, adequate=False, informative_tiles=3, status="inadequate"))
    write_tiles(folder / "tiles" / "few.h5", TileTable.of_grid("few", grid(), tile_values(3)))
    rows.append(Prediction("broken", status="failed", error="broken: Jane Doe broken.tiff is not a slide"))
    probability = float(CALIBRATION.probability(0.0))
    rows.append(Prediction("gone", "", METHOD, score=0.0, probability=probability, adequate=True))
    write_predictions(folder / "predictions.csv", rows)
    write_json(folder / "model" / "model.json", model_note())
    (folder / "report").mkdir()
    (folder / "report" / "index.html").write_text("<h1>the report</h1>")
    return folder


def model_note() -> dict[str, object]:
    return {
        "aspirate_version": "0.1.0",
        "recipe": {
            "side_px": SIDE,
            "mpp": 0.25,
            "informativeness": {"encoder": "vgg11-quarter"},
            "malignancy": {"encoder": "vgg11-quarter", "two_heads": False, "labels": "YS"},
            "adequacy": {"groups": 6},
        },
        "confident": 0.9,
        "cuts": {"Y": [0.0], "S": CUTS},
        "threshold": 0.0,
        "calibration": {"slope": 2.0, "offset": 0.5, "benign": 20, "malignant": 10},
        "slides": {"train": 90, "validation": 30},
        "sha256": {"malignancy": "0123456789abcdef"},
    }


class Visitor:
    """A browser that has signed in and sends what the page would send."""

    def __init__(self, client: TestClient, path: str) -> None:
        self.client = client
        assert client.get(path, follow_redirects=False).status_code == 303
        self.session = client.get("/api/session").json()

    def get(self, path: str, **more: object) -> Response:
        return self.client.get(path, **more)  # type: ignore[arg-type]

    def send(self, method: str, path: str, body: object = None, **more: object) -> Response:
        headers = {"X-CSRF-Token": self.session["csrf"]}
        return self.client.request(method, path, json=body, headers=headers, **more)  # type: ignore[arg-type]

    def become(self, **change: str) -> None:
        answer = self.send("PATCH", "/api/session", change)
        assert answer.status_code == 200, answer.text
        self.session = answer.json()


class Open:
    """A reading room and the way into it."""

    def __init__(self, served: Served, accounts: dict[str, Account] | None = None) -> None:
        self.sessions = Sessions(accounts or {})
        self.desk = Desk(served.desk)
        self.app = make_app(Room(served, self.desk), self.sessions, Address())

    def client(self) -> TestClient:
        return TestClient(self.app, base_url="http://127.0.0.1:8000")

    def visitor(self) -> Visitor:
        return Visitor(self.client(), f"/?token={self.sessions.token}")
