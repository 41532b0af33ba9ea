"""Ports and banks of a memory: how many accesses it serves at a time."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

type Conflicts = Literal["none", "random"]


@dataclass(frozen=True)
class Banks:
    """Equal parts of a memory, each of which serves one access at a time.

    `conflicts`: which banks the accesses of one moment fall on. `none`: different ones, as far as there are enough.
    `random`: each bank is equally likely for each access, whatever the others do.
    """

    number: int
    conflicts: Conflicts = "none"

    def served(self, accesses: int) -> float:
        """Accesses served at a time where so many are tried: banks that at least one of them falls on, on average.

        With random banks this is `b * (1 - (1 - 1/b)**n)` for n accesses of b banks (Hellerman, Digital Computer System
        Principles, 1967: interleaved memories; here without an order in which accesses must be served).
        """
        if self.conflicts == "none":
            return float(min(accesses, self.number))
        return self.number * (1 - (1 - 1 / self.number) ** accesses)


@dataclass(frozen=True, slots=True)
class Share:
    """A limit of what ports can do: they serve `at_once` accesses at a time of reads, of writes, or of both."""

    reads: bool
    writes: bool
    at_once: float


@dataclass(frozen=True)
class Ports:
    """Ports of one instance of a memory, each with the throughput of the memory's actions.

    `read` ports serve reads, `write` ports writes, `read_write` ports either. `banks`: None where all ports always find
    one.
    """

    read: int = 0
    write: int = 0
    read_write: int = 1
    banks: Banks | None = None

    @cached_property
    def shares(self) -> tuple[Share, ...]:
        """The limits that reads and writes have to keep.

        Reads and writes that may be split at will are served in a time T if and only if reads take at most T on the
        ports that read, writes on those that write, and both together on all of them (Hall's condition for two kinds).
        """
        reading, writing = self.read + self.read_write, self.write + self.read_write
        every = Share(True, True, self._served(self.read + self.write + self.read_write))
        alone = (Share(True, False, self._served(reading)), Share(False, True, self._served(writing)))
        return (*(share for share in alone if share.at_once < every.at_once), every)

    def seconds(self, reads: Any, writes: Any) -> Any:
        """Seconds until all ports are done; `reads`, `writes`: seconds that one port would need, numbers or arrays."""
        longest: Any = 0.0
        for share in self.shares:
            together = reads + writes if share.reads and share.writes else reads if share.reads else writes
            longest = np.maximum(longest, together / share.at_once)
        return longest

    def _served(self, accesses: int) -> float:
        return float(accesses) if self.banks is None else self.banks.served(accesses)
