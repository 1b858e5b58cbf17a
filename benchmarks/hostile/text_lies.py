"""Text that is not what its reader hopes for: GeoJSON, XML, CSV and TOML."""

import json
from random import Random
from typing import Any

from benchmarks.hostile.damage import Mutate

DEEP = 100_000
ODD_VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1e308, 10**400, float("nan"), float("inf"), "", "x" * 100_000, "\0", "\ud800", [], {}, [[[[]]]],
    {"name": {"name": []}}, [1, "a", None],
)  # fmt: skip


def _places(value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
    """Every container of a JSON value with every key of it."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found.append((value, key))
        _places(inner, found)
    return found


def _as_json(value: Any) -> bytes:
    return json.dumps(value).encode()


def odd_value(data: bytes, rng: Random) -> bytes:
    """One value of the right kind becomes one of another."""
    value = json.loads(data)
    container, key = rng.choice(_places(value, []))
    container[key] = rng.choice(ODD_VALUES)
    return _as_json(value)


def missing_value(data: bytes, rng: Random) -> bytes:
    value = json.loads(data)
    container, key = rng.choice(_places(value, []))
    del container[key]
    return _as_json(value)


def deep_json(data: bytes, rng: Random) -> bytes:
    opening = rng.choice((b"[", b'{"features":', b'{"type":"FeatureCollection","features":['))
    return opening * DEEP


def deep_value(data: bytes, rng: Random) -> bytes:
    """Sound but for one value, which is nested as deep as it may be without being refused as JSON."""
    depth = rng.choice((50, 400, 900, 5000))
    text = data.decode().replace("[", "[" * depth, 1).replace("]", "]" * depth, 1)
    return text.encode()


def many_numbers(data: bytes, rng: Random) -> bytes:
    """A polygon of some hundred thousand corners, none of which encloses anything or all of which cross."""
    corners = [[rng.uniform(0, 1000), rng.uniform(0, 1000)] for _ in range(rng.choice((3000, 20_000)))]
    shape = {"type": "Polygon", "coordinates": [[*corners, corners[0]]]}
    return _as_json({"type": "FeatureCollection", "features": [{"type": "Feature", "geometry": shape}]})


def other_encoding(data: bytes, rng: Random) -> bytes:
    return data.decode().encode(rng.choice(("utf-16", "utf-32", "utf-7", "cp500", "utf-16-le")))


JSON_LIES: dict[str, Mutate] = {
    "odd_value": odd_value, "missing_value": missing_value, "deep": deep_json, "deep_value": deep_value,
    "other_encoding": other_encoding,
}  # fmt: skip
GEOJSON_LIES = JSON_LIES | {"many_corners": many_numbers}


def _before_root(declaration: str, use: str) -> Mutate:
    def mutate(data: bytes, rng: Random) -> bytes:
        head, root = data.decode().split("?>", 1)
        return (head + "?>" + declaration + root.replace('Name="malignant"', f'Name="{use}"')).encode()

    return mutate


_LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 12))


def deep_xml(data: bytes, rng: Random) -> bytes:
    return b"<Annotations>" + b"<Annotation>" * rng.choice((1000, DEEP))


def wide_xml(data: bytes, rng: Random) -> bytes:
    """Many regions, or one with very many attributes."""
    if rng.random() < 0.5:
        return data.replace(b'Type="4"', b" ".join(b'a%d="1"' % i for i in range(50_000)))
    region = data[data.index(b"<Region ") : data.index(b"</Region>") + len(b"</Region>")]
    return data.replace(region, region * 5000)


def odd_xml_value(data: bytes, rng: Random) -> bytes:
    at = rng.choice([i for i in range(len(data)) if data[i : i + 2] == b'="'])
    end = data.index(b'"', at + 2)
    odd = rng.choice((b"", b"nan", b"inf", b"1e309", b"-1", b"9" * 5000, "²".encode(), b"&#0;", b"&lt;script&gt;"))
    return data[: at + 2] + odd + data[end:]


XML_LIES: dict[str, Mutate] = {
    "entity_bomb": _before_root(f'<!DOCTYPE a [<!ENTITY l0 "ha">{_LAUGHS}]>', "&l11;"),
    "quadratic_entity": _before_root(f'<!DOCTYPE a [<!ENTITY l "{"x" * 50_000}">]>', "&l;" * 5000),
    "external_entity": _before_root('<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]>', "&x;"),
    "external_dtd": _before_root('<!DOCTYPE a SYSTEM "http://127.0.0.1:9/a.dtd">', "malignant"),
    "parameter_entity": _before_root('<!DOCTYPE a [<!ENTITY % p SYSTEM "file:///etc/passwd">%p;]>', "malignant"),
    "deep": deep_xml,
    "wide": wide_xml,
    "odd_value": odd_xml_value,
    "other_encoding": other_encoding,
}


def wide_row(data: bytes, rng: Random) -> bytes:
    return data + b"," * rng.choice((100, 1_000_000)) + b"\n"


def wide_header(data: bytes, rng: Random) -> bytes:
    first, rest = data.split(b"\n", 1)
    names = b",".join(b"reader_%d" % i for i in range(rng.choice((1000, 50_000))))
    return first + b"," + names + b"\n" + rest


def long_cell(data: bytes, rng: Random) -> bytes:
    lines = data.splitlines(keepends=True)
    lines.insert(rng.randrange(len(lines) + 1), b"s9," + rng.choice((b"x", b'"", ')) * 200_000 + b"\n")
    return b"".join(lines)


def nul(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + b"\0" * rng.choice((1, 5000)) + data[at:]


def unbalanced_quote(data: bytes, rng: Random) -> bytes:
    at = rng.randrange(len(data))
    return data[:at] + rng.choice((b'"', b'""', b'"""')) + data[at:]


def odd_cell(data: bytes, rng: Random) -> bytes:
    rows = [line.split(b",") for line in data.splitlines()]
    row = rng.choice(rows)
    row[rng.randrange(len(row))] = rng.choice(
        (b"", b"../../../x", b"/dev/zero", b"=cmd|'/C calc'!A0", b"1e999", b"nan", b"9" * 5000, "²".encode(),
         "\u202e".encode(), b"\xff\xfe", b"x" * 5000, b"-0", "\ufeff".encode(), b"\x1b[2J", b".0", b"CON")
    )  # fmt: skip
    return b"\n".join(b",".join(row) for row in rows)


def other_lines(data: bytes, rng: Random) -> bytes:
    return data.replace(b"\n", rng.choice((b"\r", b"\r\n", b"\x0b", b"\x85", "\u2028".encode(), b"\n\n\n")))


CSV_LIES: dict[str, Mutate] = {
    "wide_row": wide_row, "wide_header": wide_header, "long_cell": long_cell, "nul": nul,
    "unbalanced_quote": unbalanced_quote, "odd_cell": odd_cell, "other_lines": other_lines,
    "other_encoding": other_encoding,
}  # fmt: skip


def odd_toml_value(data: bytes, rng: Random) -> bytes:
    lines = data.decode().splitlines()
    at = rng.choice([i for i, line in enumerate(lines) if "=" in line])
    odd = rng.choice(
        ("nan", "inf", "-1", "0", "1e400", "9" * 6000, '"\\u0000"', "[]", "{}", "1979-05-27T07:32:00Z", "true", '"x"',
         "0.5", str(10**18), "[" * 5000 + "]" * 5000)
    )  # fmt: skip
    lines[at] = f"{lines[at].split('=')[0]}= {odd}"
    return "\n".join(lines).encode()


def deep_toml(data: bytes, rng: Random) -> bytes:
    depth = rng.choice((2000, DEEP))
    return rng.choice((f"a = {'[' * depth}", f"a = {'{a=' * depth}", f"[{'.'.join(['a'] * depth)}]\nb = 1")).encode()


def unknown_key(data: bytes, rng: Random) -> bytes:
    return data + rng.choice((b"colour = 1\n", b"[malignancy.x]\n", b"[selection]\ntiles = 3\n", b"__class__ = 1\n"))


TOML_LIES: dict[str, Mutate] = {
    "odd_value": odd_toml_value, "deep": deep_toml, "unknown_key": unknown_key, "other_encoding": other_encoding,
    "nul": nul, "unbalanced_quote": unbalanced_quote,
}  # fmt: skip
