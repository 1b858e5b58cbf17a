"""A server that is killed in the middle of writing: whatever it had acknowledged is there."""

import http.client
import json
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.viewer.planted import make_cohort

from aspirate.slides.annotations import AnnotationIndex
from aspirate.viewer.desk import Desk
from aspirate.viewer.server import STATIC

pytestmark = pytest.mark.skipif(not (STATIC / "index.html").exists(), reason="the pages were not built: npm is missing")


class Client:
    """A plain connection, signed in by the printed address."""

    def __init__(self, url: str) -> None:
        host, token = re.fullmatch(r"http://([^/]+)/\?token=(\S+)", url).groups()  # type: ignore[union-attr]
        self.connection = http.client.HTTPConnection(host, timeout=30)
        self.headers: dict[str, str] = {}
        self.cookie = self.ask("GET", f"/?token={token}")[1]["set-cookie"].split(";")[0]
        self.headers = {"Cookie": self.cookie}
        self.headers["X-CSRF-Token"] = json.loads(self.ask("GET", "/api/session")[2])["csrf"]

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, dict[str, str], bytes]:
        headers = self.headers | {"Content-Type": "application/json"}
        self.connection.request(method, path, None if body is None else json.dumps(body), headers)
        answer = self.connection.getresponse()
        return answer.status, {name.lower(): value for name, value in answer.getheaders()}, answer.read()


def started(cohort: Path) -> tuple[subprocess.Popen[str], str]:
    command = [sys.executable, "-m", "aspirate", "serve", str(cohort), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    for line in server.stdout:
        if line.startswith("open "):
            return server, line.split()[1]
    raise AssertionError("the server said no address")


def test_no_acknowledged_reading_or_mark_is_lost(tmp_path: Path) -> None:
    cohort = make_cohort(tmp_path)
    server, url = started(cohort)
    acknowledged: dict[str, int] = {"readings": 0, "marks": 0}

    def write(what: str, slide: str) -> None:
        client = Client(url)
        for number in range(10_000):
            body: object = {"bethesda": 2 + number % 5, "comment": f"{number}"}
            if what == "marks":
                body = {"place": {"x": number % 1000, "y": number // 1000}, "grade": "normal"}
            try:
                status = client.ask("POST", f"/api/slides/{slide}/{what}", body)[0]
            except (OSError, http.client.HTTPException):
                return
            assert status == 201
            acknowledged[what] = number + 1

    writers = [threading.Thread(target=write, args=pair) for pair in (("readings", "a"), ("marks", "b"))]
    for writer in writers:
        writer.start()
    deadline = time.monotonic() + 60
    while min(acknowledged.values()) < 5 and time.monotonic() < deadline:
        time.sleep(0.05)
    server.send_signal(signal.SIGKILL)
    server.wait()
    for writer in writers:
        writer.join()
    assert min(acknowledged.values()) >= 5

    desk = Desk(cohort)
    readings = [int(reading.comment) for reading in desk.readings("a")]
    assert readings[: acknowledged["readings"]] == list(range(acknowledged["readings"]))
    assert len(readings) <= acknowledged["readings"] + 1  # at most the one that was under way
    desk.close()
    again, url = started(cohort)
    try:
        marks = json.loads(Client(url).ask("GET", "/api/slides/b/marks")[2])["marks"]
    finally:
        again.terminate()
        again.wait(30)
    assert len(marks) in (acknowledged["marks"], acknowledged["marks"] + 1)
    assert len(AnnotationIndex.of(cohort).read("b")) >= acknowledged["marks"]
