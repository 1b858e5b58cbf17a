"""The API against its own document: whatever fits it is answered as it says, and nothing makes the server fail."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.viewer.planted import Open

NAMES = st.sampled_from(["a", "b", "few", "broken", "gone", "no such", "%", "ü", "x" * 300])
NUMBERS = st.one_of(st.integers(-2, 15), st.integers(), st.floats(allow_nan=False, allow_infinity=False))
ANY_JSON = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)


def fitting(schema: dict[str, Any], document: dict[str, Any]) -> st.SearchStrategy[Any]:
    """Values that a schema of the document describes, as far as this API uses the language."""
    if "$ref" in schema:
        return fitting(document["components"]["schemas"][schema["$ref"].split("/")[-1]], document)
    if "anyOf" in schema:
        return st.one_of([fitting(part, document) for part in schema["anyOf"]])
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if "const" in schema:
        return st.just(schema["const"])
    low, high = schema.get("minimum"), schema.get("maximum")
    match schema.get("type"):
        case "integer":
            return st.integers(low, None if high is None else int(high))
        case "number":
            return st.floats(low, high, allow_nan=False, allow_infinity=False)
        case "string":
            return st.text(min_size=schema.get("minLength", 0), max_size=min(schema.get("maxLength", 30), 30))
        case "null":
            return st.none()
        case "object":
            needed = set(schema.get("required", ()))
            parts = {name: fitting(part, document) for name, part in schema["properties"].items()}
            return st.fixed_dictionaries(
                {name: part for name, part in parts.items() if name in needed},
                optional={name: part for name, part in parts.items() if name not in needed},
            )
    return ANY_JSON


@pytest.fixture
def opened(room: Open) -> tuple[TestClient, dict[str, str], dict[str, Any]]:
    visitor = room.visitor()
    document: dict[str, Any] = visitor.get("/api/openapi.json").json()
    client = TestClient(room.app, base_url="http://127.0.0.1:8000", raise_server_exceptions=False)
    client.cookies = visitor.client.cookies
    return client, {"X-CSRF-Token": visitor.session["csrf"]}, document


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [(path, method, what) for path, item in document["paths"].items() for method, what in item.items()]


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_operation_keeps_to_the_document(
    opened: tuple[TestClient, dict[str, str], dict[str, Any]], data: st.DataObject
) -> None:
    client, headers, document = opened
    path, method, what = data.draw(st.sampled_from(operations(document)))
    if path == "/api/session" and method != "get":
        return  # signs this very client out
    for parameter in what.get("parameters", ()):
        if parameter["in"] != "path":
            continue
        wild = NAMES if parameter["name"] in ("name", "mark") else NUMBERS
        value = data.draw(st.one_of(wild, fitting(parameter["schema"], document)))
        path = path.replace("{" + parameter["name"] + "}", quote(str(value), safe="") or "-")
    body = None
    if "requestBody" in what:
        schemas = [content["schema"] for content in what["requestBody"]["content"].values()]
        body = data.draw(st.one_of(fitting(schemas[0], document), ANY_JSON))
    answer = client.request(method.upper(), path, json=body, headers=headers)
    assert answer.status_code != 500, (method, path, body, answer.text)
    said = {str(answer.status_code)} & (set(what["responses"]) | {"404", "405"})
    assert said, (method, path, body, answer.status_code)
    if answer.headers.get("content-type") == "application/json" and answer.content:
        json.loads(answer.content)


def test_the_document_names_every_part_of_the_room(
    opened: tuple[TestClient, dict[str, str], dict[str, Any]],
) -> None:
    paths = set(opened[2]["paths"])
    assert {"/api/slides", "/api/slides/{name}", "/api/slides/{name}/tiles/{level}/{column}/{row}"} <= paths
    assert "Research use only" in opened[2]["info"]["description"]
