"""Fusion signatures: what other Einsums see of a chain."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.fusion.fronts.nests.loops import TEMPORAL, Cut, Kind


class _KeyFields(NamedTuple):
    memory: str
    loops: tuple[Cut, ...]


class Key(_KeyFields):
    """How a shared tensor is backed: the memory, and the loops above it."""

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(self))

    def __hash__(self) -> int:
        """The hash of the fields, made once: keys are looked up again and again."""
        return self._hash


type SignatureClass = tuple[tuple[int, str], ...]
"""For each shared tensor (by its position in the Einsum) the memory that backs it."""


class _SignatureFields(NamedTuple):
    keys: tuple[tuple[int, Key], ...]
    loops: tuple[tuple[Kind, int], ...]
    held: tuple[tuple[int, int, str], ...]
    cuts: tuple[tuple[int, tuple[Cut, ...]], ...]


class FusionSignature(_SignatureFields):
    """View of a chain by other Einsums. Tensors by their position in the Einsum, ranks by that in the tensor.

    `keys`: of all shared tensors. `loops`: kind and iterations of the fused loops. `held`: nodes of shared tensors
    other than the backing ones that stand above some of these loops, as (tensor, loops above it, memory); without the
    memory's name no other Einsum may use them. `cuts`: how the fused loops below its backing node cut each tensor.
    """

    @cached_property
    def _hash(self) -> int:
        return hash(tuple(self))

    def __hash__(self) -> int:
        """The hash of the fields, made once."""
        return self._hash

    @cached_property
    def signature_class(self) -> SignatureClass:
        """The memories that back the shared tensors."""
        return tuple((t, key.memory) for t, key in self.keys)

    def alive(self, by_tree: bool) -> Floats:
        """[d, l]: 1 if what stands below d loops lives on while something else runs below the first l of them, else 0.

        By the tree only temporal loops part it in time.
        """
        return _alive(tuple(not by_tree or kind == TEMPORAL for kind, _ in self.loops))


@dataclass
class SignatureStore:
    """Signatures of one search, each made once.

    `by_plan`: for what outer nests have in common that have them, by what tells these apart. `keys`: all of them.
    """

    by_plan: dict[object, dict[bytes, FusionSignature]] = field(default_factory=dict)
    keys: dict[Key, Key] = field(default_factory=dict)


@lru_cache(maxsize=4096)
def _alive(parting: tuple[bool, ...]) -> Floats:
    n = len(parting) + 1
    alive = np.array([[float(any(parting[d:until])) for until in range(n)] for d in range(n)])
    alive.flags.writeable = False
    return alive
