"""One-time codes: how strangers are let in, and how the owner shows that they are the owner.

A code is eight characters that nobody mistakes for each other, told once and kept only
as a salted digest that is slow to compute. Codes for the owner can be made while
nothing runs: they wait in `claims.json` in the data folder until a running process
takes them into its journal.
"""

import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

import structlog

from actors.clock import Clock, WallClock
from messages.access import ClaimMade

log = structlog.get_logger(__name__)

ALPHABET: Final = "ABCDEFGHJKMNPQRSTVWXYZ23456789"
"""Without I, L, O, U, 0 and 1: nobody has to guess what is meant, and no words come about."""

LENGTH: Final = 8

_DECORATION: Final = " -.`'\"\u2010\u2011\u2012\u2013\u2014"
"""What people and their programs put into a code: spaces, dashes of all sorts, quotes."""

PAIRING_LIFE: Final = timedelta(hours=1)
CLAIM_LIFE: Final = timedelta(hours=24)

MOST_CLAIMS: Final = 10
"""Claims that wait at the same time; the oldest is void then."""

FILE: Final = "claims.json"
_BEING_READ: Final = "claims.read.json"

_COST: Final = 2**12
"""Of scrypt: about ten milliseconds and 4 MB a guess, so that a digest gives its code away to nobody."""


def new_code(choose: Callable[[str], str] = secrets.choice) -> str:
    """Return a fresh code, as people are shown it: `ABCD-EFGH`."""
    code = "".join(choose(ALPHABET) for _ in range(LENGTH))
    return f"{code[:4]}-{code[4:]}"


def normal(code: str) -> str:
    """Return a code as it is digested, however somebody typed it; empty for what can be no code."""
    plain = "".join(char for char in code[:100] if char not in _DECORATION)
    known = plain.isascii() and len(plain) == LENGTH and set(plain.upper()) <= set(ALPHABET)
    return plain.upper() if known else ""


def new_salt() -> str:
    return secrets.token_hex(16)


def digest(code: str, salt: str) -> str:
    """Return what is kept of a code. Takes about ten milliseconds."""
    plain = normal(code).encode()
    return hashlib.scrypt(plain, salt=bytes.fromhex(salt), n=_COST, r=8, p=1, dklen=32).hex()


def matches(code: str, salt: str, kept: str) -> bool:
    """Whether a code is the one that was kept."""
    return bool(normal(code)) and hmac.compare_digest(digest(code, salt), kept)


# ------------------------------------------------------------------ claims


@dataclass(frozen=True, slots=True)
class NewClaim:
    """A claim that was just made, with the code that is told once."""

    code: str
    fact: ClaimMade


def make_claim(account: str, by: str, now: datetime) -> NewClaim:
    """Make a code for the owner. An empty account: it is good on any."""
    code, salt = new_code(), new_salt()
    fact = ClaimMade(
        account=account, salt=salt, digest=digest(code, salt), expires_at=now + CLAIM_LIFE, by=by, at=now
    )
    return NewClaim(code, fact)


def new_claim(home: Path, account: str = "", *, clock: Clock | None = None) -> str:
    """Make a code for the owner and leave its digest in the data folder, whether or not Callboard runs.

    Whoever says `/claim CODE` to us in a direct message within a day is the owner of
    that account, once. Raises OSError when the file cannot be written.
    """
    claim = make_claim(account, "the command line", (clock or WallClock()).now())
    kept = [fact.model_dump(mode="json") for fact in _read(home / FILE)][-(MOST_CLAIMS - 1) :]
    kept.append(claim.fact.model_dump(mode="json"))
    _write(home / FILE, json.dumps(kept))
    return claim.code


class ClaimFile:
    """The claims that were made while nobody listened. `take`, make them durable, then `taken`."""

    def __init__(self, home: Path) -> None:
        self._file = home / FILE
        self._being_read = home / _BEING_READ

    def take(self) -> tuple[ClaimMade, ...]:
        """Return what waits there; it is forgotten with `taken` only."""
        left = _read(self._being_read)
        try:
            self._file.replace(self._being_read)
        except FileNotFoundError:
            return left
        except OSError as error:
            log.warning("the file of claims cannot be read", error=str(error))
            return left
        found = (*left, *_read(self._being_read))
        if left:
            try:
                _write(self._being_read, json.dumps([fact.model_dump(mode="json") for fact in found]))
            except OSError as error:
                log.warning("the file of claims cannot be written", error=str(error))
        return found

    def taken(self) -> None:
        """They are in the journal."""
        self._being_read.unlink(missing_ok=True)


def _read(path: Path) -> tuple[ClaimMade, ...]:
    """Return the claims in a file. One that makes no sense is empty."""
    try:
        if path.stat().st_mode & 0o077:
            log.warning("a file of claims that others can read or write is not used", file=path.name)
            return ()
        lines = json.loads(path.read_text("utf-8"))
        claims = tuple(ClaimMade.model_validate_json(json.dumps(line)) for line in lines)
    except FileNotFoundError:
        return ()
    except (OSError, ValueError, TypeError) as error:
        log.warning("the file of claims makes no sense", error=str(error))
        return ()
    return claims


def _write(path: Path, text: str) -> None:
    new = path.with_name(f"{path.name}.{os.getpid()}.new")
    handle = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)
