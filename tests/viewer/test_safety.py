"""The rules of the house: who comes in, what is refused, what a browser is told."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from tests.slides.slide_files import VARIETIES, picture, write_slide
from tests.viewer.planted import Open, Visitor

from aspirate.core.errors import ConfigError, TableError
from aspirate.slides.reader import open_slide
from aspirate.viewer.accounts import read_accounts, set_account, signed_in
from aspirate.viewer.guard import LARGEST_BODY, LARGEST_UPLOAD
from aspirate.viewer.places import Served, find
from aspirate.viewer.server import Address, refuse_open_door
from aspirate.viewer.sessions import TRIES, Sessions

PASSWORD = "a long password"


@pytest.fixture(scope="module")
def accounts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("accounts") / "accounts.csv"
    set_account(file, "anna", "reader", PASSWORD)
    set_account(file, "chief", "admin", PASSWORD)
    return file


def entered(room: Open, name: str) -> Visitor:
    client = room.client()
    answer = client.post("/api/sign-in", json={"name": name, "password": PASSWORD})
    assert answer.status_code == 200, answer.text
    visitor = Visitor.__new__(Visitor)
    visitor.client, visitor.session = client, answer.json()
    return visitor


def test_without_the_token_nothing_is_told(room: Open) -> None:
    client = room.client()
    assert client.get("/?token=wrong", follow_redirects=False).status_code == 403
    assert client.get("/api/session").json() == {"accounts": False, "version": "0.1.0"}
    for path in ("/api/slides", "/api/slides/a", "/api/slides/a/tiles/11/0/0", "/api/openapi.json", "/report"):
        answer = client.get(path)
        assert answer.status_code == 401, path
        assert answer.json()["detail"].startswith("sign in first")


def test_the_token_becomes_a_cookie_that_scripts_and_other_sites_do_not_get(room: Open) -> None:
    answer = room.client().get(f"/?token={room.sessions.token}", follow_redirects=False)
    assert answer.headers["location"] == "/"
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie


def test_a_forged_cookie_opens_nothing(room: Open, visitor: Visitor) -> None:
    (name,) = visitor.client.cookies
    good = visitor.client.cookies[name]
    others = Sessions({})
    forged = others.cookie(others.by_token(others.token))  # type: ignore[arg-type]
    for value in (forged, good[:-2] + "xx", "", "a.b.c"):
        client = room.client()
        client.cookies.set(name, value)
        assert client.get("/api/slides").status_code == 401


def test_writes_without_the_sign_or_from_another_site_are_refused(visitor: Visitor, room: Open) -> None:
    send = visitor.client.post
    assert send("/api/slides/a/readings", json={"bethesda": 2}).status_code == 403
    sign = {"X-CSRF-Token": visitor.session["csrf"]}
    elsewhere = sign | {"Origin": "http://evil.example"}
    assert send("/api/slides/a/readings", json={"bethesda": 2}, headers=elsewhere).status_code == 403
    assert send("/api/slides/a/readings", json={"bethesda": 2}, headers={"X-CSRF-Token": "0" * 64}).status_code == 403
    assert room.desk.readings() == []
    own = sign | {"Origin": "http://127.0.0.1:8000"}
    assert send("/api/slides/a/readings", json={"bethesda": 2}, headers=own).status_code == 201


def test_another_name_of_this_machine_is_not_answered(room: Open) -> None:
    client = TestClient(room.app, base_url="http://rebound.example")
    assert client.get("/").status_code == 421
    assert TestClient(room.app, base_url="http://localhost:8000").get("/").status_code == 200


@pytest.mark.parametrize("path", ["/", "/api/slides", "/api/slides/a/tiles/11/0/0", "/nowhere", "/slide/a", "/report"])
def test_every_answer_carries_the_rules_for_browsers(visitor: Visitor, path: str) -> None:
    headers = visitor.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy.split("script-src")[-1].split(";")[0] or path == "/report"
    assert "frame-ancestors 'none'" in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_the_page_itself_asks_no_other_machine() -> None:
    from aspirate.viewer.server import STATIC

    page = (STATIC / "index.html").read_text()
    assert "http" not in page
    assert "<script src=" in page
    assert "<style" not in page


@pytest.mark.parametrize(
    "name",
    [
        "../../etc/passwd",
        "..%2f..%2fetc%2fpasswd",
        "%2e%2e/%2e%2e/etc/passwd",
        "a/../../x",
        "....//",
        "a%00",
        "\\..\\x",
    ],
)
def test_no_path_reaches_the_file_system(visitor: Visitor, name: str) -> None:
    for path in (f"/api/slides/{name}", f"/api/slides/{name}/thumbnail", f"/static/{name}", f"/slide/{name}"):
        answer = visitor.get(path)
        assert answer.status_code in (404, 422) or answer.text.startswith("<!doctype html>"), (path, answer.text[:80])
        assert "root:" not in answer.text


def test_static_files_are_not_listed(visitor: Visitor) -> None:
    for path in ("/static", "/static/"):
        assert visitor.get(path).status_code == 404


def test_more_than_is_sensible_is_not_taken(visitor: Visitor) -> None:
    long = {"bethesda": 3, "comment": "x" * LARGEST_BODY}
    assert visitor.send("POST", "/api/slides/a/readings", long).status_code == 413
    assert visitor.send("POST", "/api/slides/a/readings", {"bethesda": 3, "comment": "x" * 2001}).status_code == 422
    sign = {"X-CSRF-Token": visitor.session["csrf"]}
    upload = visitor.client.post("/api/slides/a/marks.geojson", content=b" " * (LARGEST_UPLOAD + 1), headers=sign)
    assert upload.status_code == 413

    def without_length() -> Iterator[bytes]:
        for _ in range(4):
            yield b" " * (LARGEST_BODY // 2)

    cut_off = visitor.client.post("/api/dismissals", content=without_length(), headers=sign)
    assert cut_off.status_code == 400


def test_label_and_macro_are_never_served(tmp_path: Path) -> None:
    path = write_slide(tmp_path / "s.svs", picture(1300, 1100), VARIETIES["aperio"])
    with open_slide(path) as slide:
        assert len(slide.level_sizes) == 3  # the thumbnail page is no level
    visitor = Open(find([path])).visitor()
    assert visitor.get("/api/slides/slide%201").json()["pyramid"]["max_level"] == 11
    routes = visitor.get("/api/openapi.json").json()["paths"]
    assert not [route for route in routes if "label" in route or "macro" in route or "associated" in route]


def test_another_host_demands_readers() -> None:
    with pytest.raises(ConfigError, match="give --readers FILE"):
        refuse_open_door(Address("0.0.0.0"), {})
    for host in ("127.0.0.1", "::1", "localhost", "127.9.9.9"):
        refuse_open_door(Address(host), {})


def test_passwords_are_kept_as_argon2_only(accounts: Path) -> None:
    text = accounts.read_text()
    assert PASSWORD not in text
    assert text.count("$argon2id$") == 2
    assert accounts.stat().st_mode & 0o077 == 0
    known = read_accounts(accounts)
    assert [(account.name, account.role) for account in known.values()] == [("anna", "reader"), ("chief", "admin")]
    assert signed_in(known, "anna", PASSWORD) == known["anna"]
    assert signed_in(known, "anna", "wrong password") is None
    assert signed_in(known, "nobody", PASSWORD) is None


def test_a_table_of_readers_with_faults_says_them_all(tmp_path: Path) -> None:
    file = tmp_path / "accounts.csv"
    file.write_text("name,role,password\nanna,king,$argon2id$x\n,reader,$argon2id$x\nben,reader,plain\n")
    with pytest.raises(TableError) as caught:
        read_accounts(file)
    assert len(caught.value.problems) == 3
    with pytest.raises(ConfigError, match="at least 10"):
        set_account(tmp_path / "other.csv", "anna", "reader", "short")


def test_a_reader_reads_blind_and_an_admin_sees_all(served: Served, accounts: Path) -> None:
    room = Open(served, read_accounts(accounts))
    assert room.client().get(f"/?token={room.sessions.token}").status_code == 403  # passwords only
    anna, chief = entered(room, "anna"), entered(room, "chief")
    assert anna.get("/api/slides/a").json()["status"] == "hidden"
    assert anna.send("PATCH", "/api/session", {"mode": "review"}).status_code == 403
    assert anna.send("PATCH", "/api/session", {"reader": "chief"}).status_code == 403
    assert anna.get("/api/readings.csv").status_code == 403
    assert chief.get("/api/slides/a").json()["result"]["bethesda"] == 5
    mark = chief.send("POST", "/api/slides/a/marks", {"place": {"x": 1, "y": 1}, "grade": "normal"}).json()
    anna.send("POST", "/api/slides/a/readings", {"bethesda": 4})
    path = f"/api/slides/a/marks/{mark['id']}"
    assert anna.send("DELETE", path).status_code == 403
    assert anna.send("POST", f"{path}/restore", {"event": mark["event"]}).status_code == 403
    assert chief.get("/api/readers.csv").text == "slide_id,reader,bethesda\na,anna,4\n"
    chief.send("DELETE", "/api/session")
    assert chief.get("/api/slides").status_code == 401


def test_guessing_passwords_is_stopped(served: Served, accounts: Path) -> None:
    sessions = Sessions(read_accounts(accounts))
    for _ in range(TRIES):
        assert sessions.by_password("anna", "wrong") is None
    assert sessions.by_password("anna", PASSWORD) is None
    assert sessions.by_password("chief", PASSWORD) is not None
