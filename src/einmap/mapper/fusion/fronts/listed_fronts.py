"""Fronts of which all chains are listed when they are made: of copies, and of Einsums that fuse nothing."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Self

from einmap.arrays import Floats
from einmap.mapper.fusion.fronts.nests.met_loops import MetLoops
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature, SignatureClass
from einmap.mapper.fusion.fronts.protocol import EVERYTHING, FrontMemories, FrontStatistics, FusedFront, Surveyed
from einmap.mapper.problem.request import Remainder


class ListedFronts(ABC):
    """Base of fronts that are listed. `signatures`: those of the chains, which other Einsums see, with these.

    `space`: the memories of the columns of fronts, once they are known.
    """

    signatures: Mapping[FusionSignature, object]
    space: FrontMemories

    @abstractmethod
    def backed(self, signature: FusionSignature) -> Mapping[int, tuple[str, float]]:
        """For each shared tensor (by its position) the memory that backs it, and the bits that its tile takes there."""

    @abstractmethod
    def front(self, signature: FusionSignature, space: FrontMemories) -> FusedFront:
        """All chains of a signature: costs, bits in use, bits that stay."""

    @property
    def signature_classes(self) -> dict[SignatureClass, Floats]:
        """No classes: all chains are listed from the beginning."""
        return {}

    @property
    def is_cut(self) -> bool:
        """Whether there was no time to list all dataplacements: they are few."""
        return False

    @property
    def tables_of(self) -> Self:
        """The fronts whose tables these use: there are none, and so nothing to share."""
        return self

    @property
    def statistics(self) -> FrontStatistics:
        """How much there is to search: what is listed."""
        n = len(self.signatures)
        return FrontStatistics(float(n), outer_nests=n)

    def is_absent(self, signature: FusionSignature) -> bool:
        """Whether the Einsum is left out with this signature: never."""
        del signature
        return False

    def outer_nest_rows(self, signature: FusionSignature) -> None:
        """Nothing: fronts are known without being searched."""
        del signature

    def whole(self, t: int) -> dict[str, float]:
        """Bits that the whole of a tensor (by its position) takes in each memory that may back it."""
        bits: dict[str, float] = {}
        for signature in self.signatures:
            if any(u == t and not key.loops for u, key in signature.keys):
                memory, taken = self.backed(signature)[t]
                bits[memory] = min(taken, bits.get(memory, math.inf))
        return bits

    def select(self, space: FrontMemories, crossed: frozenset[str]) -> None:
        """Say which memories have columns in fronts."""
        del crossed
        self.space = space

    def begin_again(  # noqa: B027 - what is listed stays listed
        self, most: float, apart: int = 1, uses: float = math.inf
    ) -> None:
        """Nothing: what is listed stays listed."""

    def put_aside(self) -> Callable[[], None]:
        """Nothing: what is listed stays listed."""
        return lambda: None

    def survey(
        self,
        limits: Mapping[SignatureClass, Remainder | None],
        met: Mapping[SignatureClass, MetLoops] = EVERYTHING,
        most: float = math.inf,
    ) -> Surveyed:
        """Nothing: all chains are listed already."""
        del limits, met, most
        return Surveyed()

    def keys(self, of: SignatureClass, remainder: Remainder | None, met: MetLoops, most: int) -> None:
        """None: all chains are listed already."""
        del of, remainder, met, most

    def complete_outer_nests(
        self, limits: Mapping[FusionSignature, Remainder | None]
    ) -> dict[FusionSignature, FusedFront]:
        """The fronts of some signatures."""
        return {signature: self.front(signature, self.space) for signature in limits}
