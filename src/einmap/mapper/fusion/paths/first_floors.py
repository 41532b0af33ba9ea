"""Least costs of cascades with each option by one metric, where a search has found the least of all: a search of what
is as good by that metric need not look at the others.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from einmap.mapper.fusion.fronts.nests.met_loops import ANYTHING, KeyLoops, MetLoops
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature, SignatureClass
from einmap.mapper.fusion.paths.boundary_states import Option


@dataclass(frozen=True)
class FirstFloors:
    """Least costs of cascades with each option by one metric, where a search has found the least of all.

    `floors`: by the first Einsum that is alike, and by signature or signature class, of a class those of its chains
    that are not listed. `limit`: of what the whole may cost.
    """

    floors: Mapping[str, Mapping[FusionSignature | SignatureClass, float]]
    limit: float

    def allow(self, name: str, option: Option) -> bool:
        """Whether cascades within the limit may have an option of an Einsum."""
        of = self.floors.get(name)
        if of is None:
            return True
        if option.signature_class is None and of.get(option.signature, math.inf) <= self.limit:
            return True
        signature_class = option.signature_class or option.signature.signature_class
        if of.get(signature_class, math.inf) <= self.limit:
            return True
        return option.unexpanded and signature_class in self._listed[name]

    @cached_property
    def _listed(self) -> dict[str, dict[SignatureClass, list[FusionSignature]]]:
        """For each Einsum the signatures that may be within the limit, by class."""
        listed: dict[str, dict[SignatureClass, list[FusionSignature]]] = {}
        for name, floors in self.floors.items():
            of = listed.setdefault(name, {})
            for key, floor in floors.items():
                if isinstance(key, FusionSignature) and floor <= self.limit:
                    of.setdefault(key.signature_class, []).append(key)
        return listed

    def met(self, name: str, signature_class: SignatureClass) -> MetLoops:
        """Loops above the shared tensors of a signature class, as far as not all may be within the limit."""
        of = self.floors.get(name, {})
        if of.get(signature_class, -math.inf) <= self.limit:
            return ANYTHING
        keys: dict[int, set[KeyLoops]] = {t: set() for t, _ in signature_class}
        for signature in self._listed[name].get(signature_class, ()):
            for t, key in signature.keys:
                keys[t].add(key.loops)
        return MetLoops({t: frozenset(loops) for t, loops in keys.items()})
