"""A password that a command prints: a token that ends soon, as the clouds' identities give (RDS, Cloud SQL, Azure).

Purpose: each connection is opened with a password that is valid then, in whichever process and on whichever machine it
is opened.

Invariants, and why they hold:

- No shell reads the command: it is a list, and is executed as it is. `{host}`, `{port}` and `{user}` in an argument are
  replaced by those of the server that is being connected to, which cannot make two arguments of one.
- Nothing of what the command prints is ever shown, on either stream: errors name the program and its exit code alone.
- A password that was kept for some seconds may have ended, or been replaced. `Password.renewed` is for a server that
  refuses such a one: it asks the command again. A password that was refused is not tried a second time.
- A command that hangs is ended with all that it started: they are a process group.

Guards: tests/mysql/test_password_command.py.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field

from lakehouse_cdc.errors import codes

MOST_BYTES = 64 << 10  # tokens of the clouds have some kilobytes
WAIT_SECONDS = 60.0  # a command that signs in at a cloud may take some seconds
_PLACE = re.compile(r"\{(host|port|user)\}")
_HINT = "execute it by hand as the user of this process, with its environment, and look at the exit code"


@dataclass(frozen=True)
class Password:
    """What a command has printed; `fresh`: for this very request."""

    text: str = field(repr=False)
    fresh: bool


@dataclass(frozen=True)
class PasswordCommand:
    """The program and its arguments; its output is used for connections of the next `seconds`."""

    arguments: tuple[str, ...]
    seconds: float = 60.0

    @property
    def program(self) -> str:
        """Its name, which is all of it that is shown."""
        return self.arguments[0]

    def password(self, host: str, port: int, user: str, *, renewed: bool = False) -> Password:
        """The password for that server now; `renewed`: from the command in any case.

        Raises ConfigError where there is no such program, DefiniteError for an output that is no password, and
        TransientError where the command fails or does not end.
        """
        arguments = self._filled(host, port, user)
        with _KEPT.lock:  # one process asks once, however many threads connect
            text, until = _KEPT.passwords.get(arguments, ("", 0.0))
            if not renewed and time.monotonic() < until:
                return Password(text, fresh=False)
            text = self._output(arguments)
            _KEPT.passwords[arguments] = text, time.monotonic() + self.seconds
            return Password(text, fresh=True)

    def forget(self, host: str, port: int, user: str) -> None:
        """Use what was printed for that server no more: it was refused."""
        with _KEPT.lock:
            _KEPT.passwords.pop(self._filled(host, port, user), None)

    def _filled(self, host: str, port: int, user: str) -> tuple[str, ...]:
        values = {"host": host, "port": str(port), "user": user}
        return tuple(_PLACE.sub(lambda place: values[place[1]], one) for one in self.arguments)

    def _output(self, arguments: tuple[str, ...]) -> str:
        where = f"source.password_command: {self.program}"
        try:
            process = subprocess.Popen(
                arguments,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "an argument holds a zero byte"
            raise codes.PASSWORD_COMMAND_MISSING.error(
                f"the command of the password cannot be executed: {reason}", where=where
            ) from None
        try:
            out, _ = process.communicate(timeout=WAIT_SECONDS)
        except subprocess.TimeoutExpired:
            raise codes.PASSWORD_COMMAND_FAILED.error(
                f"the command of the password has not ended after {WAIT_SECONDS:g} s", where=where, hint=_HINT
            ) from None  # the exception holds what was printed so far
        finally:
            _end(process)
        if process.returncode:
            raise codes.PASSWORD_COMMAND_FAILED.error(
                f"the command of the password ended with exit code {process.returncode}", where=where, hint=_HINT
            )
        return _password(out, where)


def _password(out: bytes, where: str) -> str:
    """The only line of an output."""
    try:
        text = out.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        text = "\n"  # no password either
    if not text or len(out) > MOST_BYTES or not text.isprintable():
        raise codes.PASSWORD_COMMAND_OUTPUT.error(
            "the command of the password printed " + ("nothing" if not out.strip() else "more than one line of text"),
            where=where,
        )
    return text


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the command, if it has not ended, and what it started and left running."""
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    if process.stdout is not None:
        process.stdout.close()
    process.wait()


class _Kept:
    """The passwords that this process has, with the moment until which each is used."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.passwords: dict[tuple[str, ...], tuple[str, float]] = {}


_KEPT = _Kept()
# a fork may happen while another thread holds the lock, and that thread is not in the child
os.register_at_fork(after_in_child=lambda: _KEPT.__init__())  # type: ignore[misc]
