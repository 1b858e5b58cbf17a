"""The pages in a real browser: what a person sees and does."""

import json
import re
import shutil
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright
from tests.viewer.planted import SIDE, grid, make_cohort, make_results
from tests.viewer.test_kill import started

from aspirate.core.labels import Abnormality
from aspirate.slides.annotations import AnnotationIndex
from aspirate.slides.cohort import Cohort
from aspirate.viewer.server import STATIC
from aspirate.workflow.tiling import tile_slide

CHROMIUM = shutil.which("chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed"),
    pytest.mark.skipif(not (STATIC / "index.html").exists(), reason="the pages were not built: npm is missing"),
]
SETTLED = """async () => {
  for (let same = 0, last = ""; same < 4; ) {
    await new Promise((done) => setTimeout(done, 150));
    await new Promise((done) => requestAnimationFrame(done));
    const now = location.href + (document.querySelector(".power")?.textContent ?? "");
    same = now === last ? same + 1 : 0;
    last = now;
  }
}"""
"""After a key or a click: the flight is over, and the address says so; however slow the machine."""
expect.set_options(timeout=20_000)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("browser")
    for name in ("cohort", "results"):
        (folder / name).mkdir()
    make_cohort(folder / "cohort")
    make_results(folder / "results")
    return folder


@pytest.fixture(scope="module")
def address(place: Path) -> Iterator[str]:
    server, url = started(place)
    yield url
    server.terminate()
    server.wait(30)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """Signed in; any error on the console, or any request beyond the server, fails the test."""
    context = browser.new_context(viewport={"width": 1280, "height": 800}, accept_downloads=True)
    opened = context.new_page()
    faults: list[str] = []
    own = urlsplit(address).netloc
    opened.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: faults.append(str(error)))
    opened.on("request", lambda request: faults.append(request.url) if outside(request.url, own) else None)
    opened.goto(address)
    opened.wait_for_selector("h1")
    yield opened
    context.close()
    assert faults == []


def outside(url: str, own: str) -> bool:
    return urlsplit(url).scheme not in ("data", "blob") and urlsplit(url).netloc != own


def visit(page: Page, path: str) -> None:
    root = urlsplit(page.url)
    page.goto(f"{root.scheme}://{root.netloc}{path}")
    settle(page)


def settle(page: Page) -> None:
    page.wait_for_load_state("networkidle")
    page.evaluate(SETTLED)


def press(page: Page, *keys: str) -> None:
    for key in keys:
        page.keyboard.press(key)
        settle(page)


def view_of(page: Page) -> dict[str, float]:
    return {name: float(values[0]) for name, values in parse_qs(urlsplit(page.url).query).items()}


def on_screen(page: Page, x_px0: float, y_px0: float) -> tuple[float, float]:
    """Where a place of the slide is, worked out from the address alone."""
    view, stage = view_of(page), page.locator(".stage").bounding_box()
    assert stage is not None
    middle = stage["x"] + stage["width"] / 2, stage["y"] + stage["height"] / 2
    return middle[0] + (x_px0 - view["x"]) * view["z"], middle[1] + (y_px0 - view["y"]) * view["z"]


def pixels(page: Page) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    return np.asarray(Image.open(BytesIO(page.screenshot())).convert("RGB"), np.int64)


def middle_of(tile: int) -> tuple[float, float]:
    x, y = grid().corners_px0()[tile].tolist()
    return x + SIDE / 2, y + SIDE / 2


def change_at(before: np.ndarray, after: np.ndarray, spot: tuple[float, float]) -> float:
    x, y = (round(value) for value in spot)
    return float(np.abs(after - before)[y - 4 : y + 5, x - 4 : x + 5].mean())


def test_the_worklist_sorts_filters_and_leads_to_a_slide(page: Page) -> None:
    assert page.locator("tbody tr").count() == 5
    assert page.locator("tbody tr").first.get_attribute("data-slide") == "a"  # the most malignant first
    page.get_by_role("button", name="Slide").click()
    assert page.locator("tbody tr").last.get_attribute("data-slide") == "gone"
    page.get_by_role("searchbox").fill("brok")
    assert page.locator("tbody tr").count() == 1
    assert "not a slide" in page.locator(".why").inner_text()
    page.get_by_role("searchbox").fill("")
    page.get_by_role("link", name="b", exact=True).click()
    expect(page.locator("h1")).to_have_text("b")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    expect(page.get_by_text("Research use only")).to_be_visible()


def test_the_heat_map_changes_the_pixels_of_informative_tiles_and_no_others(page: Page) -> None:
    visit(page, "/slide/a?tiles=0&marks=0")
    before = pixels(page)
    press(page, "h")
    page.mouse.move(640, 790)
    after = pixels(page)
    hot, cold = (on_screen(page, *middle_of(tile)) for tile in (37, 50))
    assert change_at(before, after, hot) > 20
    assert change_at(before, after, cold) == 0
    edge = grid().corners_px0()[37].tolist()  # the tile to its left is faint: the edge is where the tile ends
    inside, beyond = (on_screen(page, edge[0] + step / view_of(page)["z"], edge[1] + SIDE / 2) for step in (6, -6))
    assert change_at(before, after, inside) > 3 * change_at(before, after, beyond)
    press(page, "h")
    assert change_at(before, pixels(page), hot) == 0


def test_a_click_on_the_most_suspicious_tile_flies_there(page: Page) -> None:
    visit(page, "/slide/a")
    page.get_by_role("button", name="Show the most suspicious tile").click()
    settle(page)
    view = view_of(page)
    assert (view["x"], view["y"]) == pytest.approx(middle_of(3), abs=1.5)
    tile = page.locator(".tile").first
    assert (tile.get_attribute("data-x"), tile.get_attribute("data-y")) == tuple(map(str, grid().corners_px0()[37]))
    tile.click()
    settle(page)
    assert (view_of(page)["x"], view_of(page)["y"]) == pytest.approx(middle_of(37), abs=1.5)


def test_an_address_opens_the_same_spot(page: Page, browser: Browser, address: str) -> None:
    visit(page, "/slide/b?x=640&y=384&z=1.2&r=90&heat=0.4&tiles=0&marks=1")
    view = view_of(page)
    assert view == pytest.approx({"x": 640, "y": 384, "z": 1.2, "r": 90, "heat": 0.4, "tiles": 0, "marks": 1})
    assert page.locator(".power").inner_text() == "48 ×"  # 0.25 µm a pixel is 40 ×


def test_reading_blind_and_then_seeing_both(page: Page) -> None:
    page.get_by_label("Your name as a reader").fill("anna")
    page.get_by_label("Your name as a reader").blur()
    page.get_by_role("switch", name="Blind reading").click()
    expect(page.get_by_role("switch", name="Blind reading")).to_have_attribute("aria-checked", "true")
    assert "%" not in page.locator("table").inner_text()
    visit(page, "/slide/a")
    panel = page.locator(".panel")
    assert "Hidden until" in panel.inner_text()
    assert "%" not in panel.inner_text()
    page.get_by_label("Comment").fill("crowded groups")
    page.locator(".choice", has_text="4").click()
    page.get_by_role("button", name="Give this reading").click()
    expect(panel.get_by_text("Combined decision")).to_be_visible()
    said = panel.inner_text()
    assert re.search(r"\d+ %\s+probability of malignancy", said)
    assert "TBS 5 suspicious for malignancy" in said
    assert "crowded groups" in said


def test_a_box_is_drawn_graded_exported_found_by_the_next_training_and_sized(page: Page, place: Path) -> None:
    visit(page, "/slide/b?x=500&y=500&z=0.8")
    press(page, "b")
    page.get_by_role("button", name="atypical").click()
    corners = [on_screen(page, *spot) for spot in ((400, 400), (500, 460))]
    page.mouse.move(*corners[0])
    page.mouse.down()
    page.mouse.move(*corners[1], steps=6)
    page.mouse.up()
    expect(page.locator(".count")).to_contain_text("1 annotation")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export GeoJSON").click()
    (feature,) = json.loads(Path(download.value.path()).read_text())["features"]
    assert feature["properties"]["classification"]["name"] == "atypical"
    xs, ys = zip(*feature["geometry"]["coordinates"][0], strict=True)
    assert (min(xs), min(ys), max(xs), max(ys)) == pytest.approx((400, 400, 500, 460), abs=3)
    file = place / "cohort" / "annotations" / "b.geojson"
    entry = next(each for each in Cohort.read(place / "cohort").entries if each.slide_id == "b")
    labelled = tile_slide(entry, AnnotationIndex.of(place / "cohort"))  # as `aspirate train` does it
    under = grid().index_at(450, 430)
    assert labelled.values["informative"][under]
    assert labelled.values["abnormality"][under] == Abnormality.ATYPICAL
    press(page, "v")
    across, to = on_screen(page, *min(zip(xs, ys, strict=True))), on_screen(page, 380, 360)
    page.mouse.move(*across)
    page.mouse.down()
    page.mouse.move(*to, steps=6)
    page.mouse.up()
    settle(page)
    xs, ys = zip(*json.loads(file.read_text())["features"][0]["geometry"]["coordinates"][0], strict=True)
    assert (min(xs), min(ys), max(xs), max(ys)) == pytest.approx((380, 360, 500, 460), abs=3)
    press(page, "u", "u")
    expect(page.locator(".count")).to_contain_text("0 annotations")
    assert json.loads(file.read_text())["features"] == []


def test_by_keyboard_alone(page: Page) -> None:
    page.get_by_role("searchbox").focus()
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "a":
            break
    press(page, "Enter")
    expect(page.locator("h1")).to_have_text("a")
    press(page, "5")
    assert page.locator(".power").inner_text() == "40 ×"
    at = view_of(page)
    press(page, "ArrowRight")
    assert view_of(page)["x"] == pytest.approx(at["x"] + 120, abs=2)
    press(page, "-")
    assert view_of(page)["z"] == pytest.approx(at["z"] / 1.5, rel=0.01)
    press(page, ".")
    assert (view_of(page)["x"], view_of(page)["y"]) == pytest.approx(middle_of(37), abs=1.5)
    press(page, "h", "r")
    assert (view_of(page)["heat"], view_of(page)["r"]) == (0.5, 90)
    press(page, "?")
    expect(page.get_by_role("dialog")).to_be_visible()
    press(page, "Escape", "n")
    expect(page.locator("h1")).to_have_text("b")
    press(page, "p")
    expect(page.locator("h1")).to_have_text("a")


def test_spots_to_label_are_answered_one_by_one(page: Page) -> None:
    visit(page, "/queue")
    first = page.locator(".queue p").first.inner_text()
    assert first.startswith("Spot 1 of ")
    press(page, "0")
    assert page.locator(".queue p").first.inner_text().startswith("Spot 2 of ")


def test_a_slide_that_cannot_be_shown_says_why(page: Page) -> None:
    visit(page, "/slide/broken")
    assert "not a slide of any known kind" in page.get_by_role("alert").inner_text()


def test_a_wrong_token_is_refused_and_a_stranger_is_told_the_way_in(browser: Browser, address: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    answer = page.goto(address[:-4] + "xxxx")
    assert answer is not None
    assert answer.status == 403
    page.goto(address.split("?")[0])
    expect(page.get_by_text("Open the address that")).to_be_visible()
    context.close()


def test_light_and_dark(page: Page) -> None:
    page.get_by_role("button", name="Light or dark").click()
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.reload()
    page.wait_for_selector("h1")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark
    assert sum(map(int, re.findall(r"\d+", dark)[:3])) < 150


def test_nothing_moves_while_the_page_loads(page: Page) -> None:
    page.add_init_script(
        "window.moved = 0; new PerformanceObserver((list) => { for (const shift of list.getEntries()) "
        "window.moved += shift.value; }).observe({ type: 'layout-shift', buffered: true });"
    )
    for path in ("/", "/slide/a"):
        visit(page, path)
        assert page.evaluate("window.moved") < 0.02, path


def test_a_slide_that_vanishes_while_it_is_looked_at_says_so(browser: Browser, address: str, place: Path) -> None:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()  # a console error is due here: the browser itself notes the tile that failed
    page.goto(address)
    page.wait_for_selector("h1")
    visit(page, "/slide/few?x=650&y=550&z=0.4")  # coarse: finer tiles are still to come
    file, away = place / "cohort" / "few.tiff", place / "away.tiff"
    file.rename(away)
    try:
        page.wait_for_timeout(1500)
        press(page, "5")
        expect(page.get_by_role("alert").filter(has_text="the file has gone")).to_be_visible()
    finally:
        away.rename(file)
    visit(page, "/slide/a")
    expect(page.locator(".alarm")).to_be_hidden()
    context.close()
