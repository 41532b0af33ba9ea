"""What AccelForge cannot say, collected while a specification is written."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from einmap.errors import At
from einmap.frontends.translation import LeftOut
from einmap.spec.raw import RawMap


@dataclass(slots=True)
class Report:
    """Fields that are left out, each once."""

    entries: dict[tuple[str, str, str], LeftOut] = field(default_factory=dict)

    def leave(self, at: At | None, key: str, reason: str) -> None:
        """Leave out what stands at `at`."""
        self.entries.setdefault((str(at), key, reason), LeftOut(at or At(), key, reason))

    def leave_key(self, raw: RawMap, path: str, key: str, reason: str) -> None:
        """Leave out a key of a dictionary."""
        self.leave(replace(raw.place_of(key) or At(), path=f"{path}.{key}"), key, reason)
