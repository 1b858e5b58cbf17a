"""Readers with passwords, in a table of `name,role,password`; of a password only its argon2 hash is kept."""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from io import StringIO
from pathlib import Path
from typing import get_args

from argon2 import PasswordHasher
from argon2.exceptions import Argon2Error, InvalidHashError

from aspirate.core.errors import ConfigError, TableError
from aspirate.core.store import write_text
from aspirate.viewer.messages import Role

COLUMNS = ("name", "role", "password")
SHORTEST_PASSWORD = 10
_HASHER = PasswordHasher()


@dataclass(frozen=True, slots=True)
class Account:
    name: str
    role: Role
    password_hash: str


def read_accounts(path: Path) -> dict[str, Account]:
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TableError(str(path), [f"cannot be read ({error}); make it with: aspirate reader FILE NAME"]) from error
    accounts: dict[str, Account] = {}
    problems = []
    for number, row in enumerate(rows, start=2):
        name, role, password_hash = (str(row.get(column) or "").strip() for column in COLUMNS)
        if not name or name in accounts:
            problems.append(f"row {number}: name {name!r} is blank or taken; give each reader an own name")
        elif role not in get_args(Role):
            problems.append(f"row {number}: role {role!r}; expected {' or '.join(get_args(Role))}")
        elif not password_hash.startswith("$argon2"):
            problems.append(f"row {number}: no argon2 hash; set a password with: aspirate reader FILE {name}")
        else:
            accounts[name] = Account(name, "admin" if role == "admin" else "reader", password_hash)
    if problems or not accounts:
        raise TableError(str(path), problems or ["has no reader; add one with: aspirate reader FILE NAME"])
    return accounts


def set_account(path: Path, name: str, role: Role, password: str) -> None:
    """Add a reader, or change one's role and password."""
    if len(password) < SHORTEST_PASSWORD:
        raise ConfigError(f"a password of {len(password)} characters; give at least {SHORTEST_PASSWORD}")
    name = name.strip()
    if not name or not name.isprintable() or any(sign in name for sign in ',;"') or len(name) > 60:
        raise ConfigError(f"reader {name!r}: give a name of 1 to 60 letters, without commas, semicolons or quotes")
    accounts = read_accounts(path) if path.exists() else {}
    accounts[name] = Account(name, role, _HASHER.hash(password))
    text = StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    table.writerows((each.name, each.role, each.password_hash) for each in accounts.values())
    write_text(path, text.getvalue())
    path.chmod(0o600)


def signed_in(accounts: Mapping[str, Account], name: str, password: str) -> Account | None:
    """The account whose password this is; an unknown name takes as long as a wrong password."""
    account = accounts.get(name)
    try:
        _HASHER.verify(account.password_hash if account else _nobody(), password)
    except (Argon2Error, InvalidHashError):
        return None
    return account


@lru_cache(1)
def _nobody() -> str:
    return _HASHER.hash("nobody has this password")
