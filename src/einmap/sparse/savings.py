"""Savings of hardware: reads, writes and operations that zeros make useless, bound for one Einsum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from einmap.sparse.densities import Density
from einmap.sparse.formats import Format
from einmap.sparse.kept import Kept
from einmap.sparse.known import Known

type Saved = Literal["gate", "skip"]
type Fills = Literal["live", "lanes", "all"]
"""Fills of outputs that count: values from further out; also those of lanes that begin a sum again; also new sums."""

MOST_KEPT = 2**24
"""Bytes of what is kept for other evaluations of an Einsum, at most."""
STATES = ("actual", "gated", "skipped")
"""States of an action: done; idle, but in its time step; or left out with its time."""
ACTUAL, GATED, SKIPPED = 0, 1, 2


@dataclass(frozen=True)
class Saving:
    """A saving at a component.

    At a memory: what passes between it and the next holder inward of `tensor`, in a visit of that holder, is saved if
    one of the tensors `on` has zeros alone among the values that the visit uses. At a compute, where `tensor` is None:
    an operation is saved if one of the values that it takes of `on` is zero.
    """

    component: str
    kind: Saved
    tensor: str | None
    on: tuple[str, ...]

    @property
    def state(self) -> int:
        """Position in `STATES` of what is saved."""
        return GATED if self.kind == "gate" else SKIPPED


@dataclass(frozen=True)
class Sparsity:
    """Densities of tensors, formats by memory and tensor, savings, and energies of saved actions and of metadata.

    Tensors without density are dense. `energies`: J of `gated_read`, `skipped_write`, `metadata_read` and the like of a
    component, 0 where nothing is said; `own_metadata`: memories whose metadata lie in a store of their own, whose
    accesses take `energies` for each bit and no time. `ranks`: of each tensor with a density, in the order of its
    shape.
    """

    densities: Mapping[str, Density]
    formats: Mapping[tuple[str, str], Format] = field(default_factory=dict)
    savings: tuple[Saving, ...] = ()
    energies: Mapping[tuple[str, str], float] = field(default_factory=dict)
    own_metadata: frozenset[str] = frozenset()
    ranks: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    shares_metadata: bool = False
    """Whether a transfer brings its part of the metadata of the tile that the memory holds, not metadata of its own."""
    takes_slowest: bool = False
    """Whether a component takes as long as the busiest lane of each mask, on average; else as the largest mean."""

    fills: Fills = "live"
    reads_skipped: bool = False
    """Whether metadata of skipped transfers is read and written all the same, as what tells that they are skipped."""
    propagated: frozenset[str] = frozenset()
    """Tensors whose density is not given but that of what the Einsum that writes them makes of its inputs."""

    @property
    def saves(self) -> bool:
        """Whether zeros change anything: without formats and savings all is as with dense tensors."""
        return bool(self.savings or self.formats)

    @property
    def may_exceed(self) -> bool:
        """Whether the model counts more than the tables of the mapper, which then are bounds."""
        return self.takes_slowest or self.fills != "live" or self.reads_skipped

    @property
    def is_mean(self) -> bool:
        """Whether expected counts are means over several masks."""
        return any(not isinstance(d, Known) and 0 < d.part < 1 for d in self.densities.values())

    def at(self, component: str, tensor: str | None) -> tuple[Saving, ...]:
        """Savings of a tensor at a memory, or of a compute's operations (None)."""
        return self._by_place.get((component, tensor), ())

    @cached_property
    def _by_place(self) -> Mapping[tuple[str, str | None], tuple[Saving, ...]]:
        found: dict[tuple[str, str | None], tuple[Saving, ...]] = {}
        for saving in self.savings:
            key = saving.component, saving.tensor
            found[key] = (*found.get(key, ()), saving)
        return found

    @cached_property
    def kept(self) -> Kept:
        """Answers of evaluations on tiles and loops that others may have as well."""
        return Kept(MOST_KEPT)

    def compresses(self, memory: str, tensor: str) -> bool:
        """Whether a memory leaves out zeros of a tensor, all or those of empty blocks."""
        found = self.formats.get((memory, tensor))
        return found is not None and found.is_compressed
