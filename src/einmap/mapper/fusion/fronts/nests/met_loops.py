"""Loops above shared tensors that the other Einsums of a cascade can meet: an outer nest with others is of no use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from einmap.mapper.fusion.fronts.nests.loops import Cut

type KeyLoops = tuple[Cut, ...]
"""The loops above the outermost node of a shared tensor."""


@dataclass(frozen=True, eq=False)
class MetLoops:
    """For shared tensors of a signature class (by position) the loops that others can meet; for the rest they may."""

    keys: Mapping[int, frozenset[KeyLoops]] = field(default_factory=dict)

    @cached_property
    def cuts(self) -> dict[int, frozenset[Cut]]:
        """The loops of keys, one by one."""
        return {t: frozenset(cut for key in keys for cut in key) for t, keys in self.keys.items()}

    def is_within(self, other: MetLoops) -> bool:
        """Whether fewer nests are left than by another one, or not more."""
        return self is other or all(t in self.keys and self.keys[t] <= keys for t, keys in other.keys.items())

    def both(self, other: MetLoops) -> MetLoops:
        """The loops that are met by two accounts."""
        keys = {t: loops & other.keys.get(t, loops) for t, loops in self.keys.items()}
        return MetLoops({**other.keys, **keys}) if other.keys else self


ANYTHING = MetLoops()
