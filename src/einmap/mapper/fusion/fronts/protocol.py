"""Interface of all fronts to the search of a cascade: the chains of one Einsum, by fusion signature."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass, field
from typing import Protocol

from einmap.arch.tree import Architecture
from einmap.arrays import Floats, Ints
from einmap.einsum.einsum import Einsum
from einmap.mapper.fusion.fronts.nests.met_loops import MetLoops
from einmap.mapper.fusion.fronts.nests.nest_keys import NestKeys
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature, SignatureClass
from einmap.mapper.problem.request import Remainder, Request
from einmap.mapping import nodes as tree


@dataclass(frozen=True)
class FrontMemories:
    """Memories that are looked at when Einsums are put together; `by_tree`: what lives on is seen from the tree."""

    memories: tuple[str, ...] = ()
    by_tree: bool = True


@dataclass(frozen=True)
class FusedFront:
    """The best chains of a signature. Columns of `values`: costs, then for each memory of the space the bits in use,
    then for each memory those that stay while other Einsums run below the first, the first two, ... fused loops.
    """

    values: Floats
    paths: Ints


@dataclass(frozen=True)
class FrontStatistics:
    """How much there is to search: mappings, dataplacements, uses of the fanouts, and outer nests that are listed."""

    mapspace_size: float
    templates: int = 0
    lanes: int = 0
    outer_nests: int = 0


EVERYTHING: Mapping[SignatureClass, MetLoops] = {}
"""Of no signature class it is known which keys others can meet."""


@dataclass(frozen=True)
class Surveyed:
    """Signature classes that had to be listed anew, and those that are as before, since they have too many chains.

    With these come bounds of some of the chains, a row for each.
    """

    anew: Set[SignatureClass] = frozenset()
    postponed: Mapping[SignatureClass, Floats] = field(default_factory=dict)


class Fronts(Protocol):
    """The chains of one Einsum. Fronts are told by their identity."""

    def __hash__(self) -> int:
        """The hash of the identity."""

    einsum: Einsum
    arch: Architecture
    request: Request
    complete: bool
    """Whether nothing was left out of what this kind of fronts lists."""

    # what there is

    @property
    def signatures(self) -> Collection[FusionSignature]:
        """Fusion signatures of the chains that are listed, which other Einsums see."""

    @property
    def signature_classes(self) -> Mapping[SignatureClass, Floats]:
        """Signature classes whose chains are listed when they are asked for, with what each costs at least.

        Empty where all chains are listed from the beginning.
        """

    @property
    def covers_mapspace(self) -> bool:
        """Whether the chains are all that the mapspace of the Einsum has."""

    @property
    def why_brute_force(self) -> str | None:
        """Why the Einsum is searched by brute force, None where it is not."""

    @property
    def omissions(self) -> tuple[str, ...]:
        """Mappings that were not searched, in words."""

    @property
    def is_cut(self) -> bool:
        """Whether there was no time to list all dataplacements."""

    @property
    def tables_of(self) -> Fronts:
        """The fronts whose tables these use: others, or themselves."""

    @property
    def statistics(self) -> FrontStatistics:
        """How much there is to search."""

    def may_stand_below_loops(self, memory: str) -> bool:
        """Whether fused loops may stand above the outermost node of a shared tensor in a memory."""

    def is_absent(self, signature: FusionSignature) -> bool:
        """Whether the Einsum is left out with this signature: a copy that nothing needs."""

    # bounds

    def least(self, weights: Floats) -> Floats:
        """For each row of weights what every chain costs at least; infinite where there is none."""

    def bounds(self, signature: FusionSignature) -> Floats:
        """Costs that no chain of a signature is below, a row for each outer nest or chain."""

    def outer_nest_rows(self, signature: FusionSignature) -> Floats | None:
        """Rows as of a front that every chain of a signature has one of: none of them is below its outer nest's.

        None where fronts are known without being searched.
        """

    # space

    def backed(self, signature: FusionSignature) -> Mapping[int, tuple[str, float]]:
        """For each shared tensor (by its position) the memory that backs it, and the bits that its tile takes there."""

    def sizes(self) -> dict[str, float]:
        """Bits of each memory that is not boundless."""

    def whole(self, t: int) -> Mapping[str, float]:
        """Bits that the whole of a tensor (by its position) takes in each memory that may back it."""

    def kept_in(self) -> set[str]:
        """Memories in which something may stay while other Einsums run."""

    def persistent(self) -> dict[str, float]:
        """Bits of each memory that persistent tensors take (one instance)."""

    # the search

    def select(self, space: FrontMemories, crossed: frozenset[str]) -> None:
        """Say which memories have columns in fronts.

        `crossed`: those that may keep the whole of a shared tensor while the Einsum runs that does not use it.
        """

    def begin_again(self, most: float, apart: int = 1, uses: float = math.inf) -> None:
        """Forget what is listed, and look at chains with so many fused loops from here on.

        `apart`: see NestRules; `uses`: of the fanouts that are looked at, of each kind of dataplacements those that
        seem best.
        """

    def put_aside(self) -> Callable[[], None]:
        """Begin again later: what is listed so far is there again, and nothing else, once the result is called."""

    def survey(
        self,
        limits: Mapping[SignatureClass, Remainder | None],
        met: Mapping[SignatureClass, MetLoops] = EVERYTHING,
        most: float = math.inf,
    ) -> Surveyed:
        """List what of some signature classes can be a part of something good; not where that is more than `most`.

        `met`: the keys that others can meet, where these are known. Raises StoppedError.
        """

    def keys(self, of: SignatureClass, remainder: Remainder | None, met: MetLoops, most: int) -> NestKeys | None:
        """Loops above shared tensors in what of a signature class can be a part of something good.

        None where that is more than `most` outer nests. Raises StoppedError.
        """

    def complete_outer_nests(
        self, limits: Mapping[FusionSignature, Remainder | None]
    ) -> Mapping[FusionSignature, FusedFront]:
        """The fronts of some signatures, as far as their chains can be a part of something good."""

    def nodes_of(self, signature: FusionSignature, front: FusedFront, row: int) -> tuple[list[tree.Node], int]:
        """A chain from the outside in, each storage node with one tensor; how many are in the outermost memory."""
