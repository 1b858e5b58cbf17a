"""`aspirate serve` and `aspirate reader` as a person types them."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from aspirate.cli.app import app
from aspirate.core.errors import ConfigError
from aspirate.viewer import server
from aspirate.viewer.accounts import read_accounts, signed_in
from aspirate.viewer.server import Address, listen


def test_a_reader_is_added_by_a_password_typed_twice(tmp_path: Path) -> None:
    file = tmp_path / "accounts.csv"
    done = CliRunner().invoke(app, ["reader", str(file), "anna"], input="a long password\na long password\n")
    assert done.exit_code == 0, done.output
    (account,) = read_accounts(file).values()
    assert (account.name, account.role) == ("anna", "reader")
    assert signed_in(read_accounts(file), "anna", "a long password") == account


def test_another_host_without_readers_is_refused(cohort: Path) -> None:
    done = CliRunner().invoke(app, ["serve", str(cohort), "--host", "0.0.0.0"])
    assert isinstance(done.exception, ConfigError)
    assert "give --readers FILE" in str(done.exception)


def test_without_pages_it_says_what_is_missing(cohort: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "STATIC", tmp_path / "nowhere")
    done = CliRunner().invoke(app, ["serve", str(cohort)])
    assert isinstance(done.exception, ConfigError)
    assert "install Node 18 or newer with npm" in str(done.exception)


def test_a_port_that_is_taken_is_said_before_anything_else() -> None:
    with listen(Address(port=0)) as door, pytest.raises(ConfigError, match="choose another --port"):
        listen(Address(port=door.getsockname()[1]))
