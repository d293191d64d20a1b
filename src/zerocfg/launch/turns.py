"""Whose turn it is to take devices, among all launchers of a user: first come, first served, by the job at the head of each.

A launcher that waits has a numbered ticket, a file that it keeps locked and that says which devices it may use. Only the oldest
ticket of those that share a device may take any, so that two launchers never hold halves that both need; whoever has been served
goes to the end of the line. The kernel drops the lock of a launcher that was killed, and its ticket counts no longer.
"""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO


def lock(path: Path, mode: str = "ab") -> IO[bytes] | None:
    """The open file, locked until it is closed; None when another has it. Raises OSError where it cannot be opened."""
    file: IO[bytes] = path.open(mode)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        return None
    return file


class Line:
    """One launcher's place in the line for one kind of device."""

    def __init__(self, folder: Path, kind: str, identities: frozenset[str]) -> None:
        """identities: of the devices that this launcher may use, as all launchers name them."""
        self._folder, self._kind, self._identities = folder, kind, identities
        self._ticket: tuple[Path, IO[bytes]] | None = None

    @property
    def waits(self) -> bool:
        return self._ticket is not None

    def my_turn(self) -> bool:
        """Take a ticket if need be, and say whether no older one wants any of the same devices."""
        with self._alone():
            tickets = sorted(self._folder.glob(f"{self._kind}-*.ticket"))
            if self._ticket is None:
                number = int(tickets[-1].stem.rpartition("-")[2]) + 1 if tickets else 0
                path = self._folder / f"{self._kind}-{number:012d}.ticket"
                path.write_text("\n".join(sorted(self._identities)), encoding="utf-8")
                file = lock(path)
                assert file is not None  # nobody else looks at it yet
                self._ticket = (path, file)
            return not any(self._wants_the_same(ticket) for ticket in tickets if ticket < self._ticket[0])

    def leave(self) -> None:
        if self._ticket is not None:
            path, file = self._ticket
            path.unlink(missing_ok=True)
            file.close()
            self._ticket = None

    def _wants_the_same(self, ticket: Path) -> bool:
        with suppress(FileNotFoundError):  # left just now
            if (file := lock(ticket, "rb")) is not None:
                ticket.unlink()  # its launcher is gone
                file.close()
                return False
            return not self._identities.isdisjoint(ticket.read_text(encoding="utf-8").splitlines())
        return False

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """For the moment of a look."""
        with (self._folder / f"{self._kind}-line.lock").open("ab") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield
