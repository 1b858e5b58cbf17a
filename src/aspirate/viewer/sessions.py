"""Who is asking: signed cookies, the token of a start, and the sign against forged writes.

Secrets are made anew at each start, so that a stopped server leaves nothing that opens the next one.
"""

import hmac
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

from itsdangerous import BadSignature, URLSafeTimedSerializer

from aspirate.viewer.accounts import Account, signed_in
from aspirate.viewer.messages import Mode, Role

LIFETIME_S = 12 * 3600
DEFAULT_READER = "reader"
TRIES, TRIES_S = 10, 60.0
"""So many wrong passwords for one name within so many seconds, then none is looked at."""


@dataclass(frozen=True, slots=True)
class Session:
    id: str
    reader: str
    role: Role
    mode: Mode


class Sessions:
    """`blind` lets also admins begin in reading mode, so that no result is shown before they ask."""

    def __init__(self, accounts: Mapping[str, Account], blind: bool = False) -> None:
        self.accounts = accounts
        self._first_mode: Mode = "reading" if blind else "review"
        self.token = secrets.token_urlsafe(24)
        self._key = secrets.token_bytes(32)
        self._signer = URLSafeTimedSerializer(self._key, salt="session")
        self._wrong: dict[str, list[float]] = {}
        self._lock = Lock()

    def by_token(self, token: str) -> Session | None:
        """Where readers have no passwords, the token of the printed address opens the room."""
        if self.accounts or not hmac.compare_digest(token.encode(), self.token.encode()):
            return None
        return Session(secrets.token_urlsafe(12), DEFAULT_READER, "admin", self._first_mode)

    def by_password(self, name: str, password: str) -> Session | None:
        with self._lock:
            recent = [at for at in self._wrong.get(name, ()) if time.monotonic() - at < TRIES_S]
            if len(recent) >= TRIES:
                return None
        account = signed_in(self.accounts, name, password)
        if account is None:
            with self._lock:
                if name in self.accounts:  # a bound on what strangers can fill
                    self._wrong[name] = [*recent, time.monotonic()]
            return None
        mode: Mode = self._first_mode if account.role == "admin" else "reading"
        return Session(secrets.token_urlsafe(12), account.name, account.role, mode)

    def changed(self, session: Session, reader: str | None, mode: Mode | None) -> Session:
        """A name is free where there are no accounts; only an admin may look without having read."""
        if reader is not None and self.accounts and reader != session.reader:
            raise PermissionError("the name is that of the account")
        if mode == "review" and session.role != "admin":
            raise PermissionError("readers give their own category before they see the algorithm's")
        return replace(session, reader=reader or session.reader, mode=mode or session.mode)

    def cookie(self, session: Session) -> str:
        return str(self._signer.dumps([session.id, session.reader, session.role, session.mode]))

    def of_cookie(self, cookie: str) -> Session | None:
        try:
            values: Any = self._signer.loads(cookie, max_age=LIFETIME_S)
        except BadSignature:
            return None
        return Session(*values)

    def csrf(self, session: Session) -> str:
        return hmac.new(self._key, f"csrf {session.id}".encode(), "sha256").hexdigest()
