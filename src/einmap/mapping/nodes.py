"""The nodes of a LoopTree. A closed set; the tree itself is in `mapping`."""

from __future__ import annotations

import re
from dataclasses import dataclass

from einmap.visible import brief

type LoopNode = Temporal | Spatial
type LeafNode = Temporal | Spatial | Storage | Toll | Compute
type Node = LeafNode | Split
type Address = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PerEinsum[T]:
    """One value for all Einsums below a loop, or one for each: `{EinsumA: m, EinsumB: p}`."""

    default: T | None = None
    by_einsum: tuple[tuple[str, T], ...] = ()

    def of(self, einsum: str) -> T | None:
        """The value for `einsum`; None when it has none."""
        for name, value in self.by_einsum:
            if name == einsum:
                return value
        return self.default

    def __str__(self) -> str:
        if not self.by_einsum:
            return str(self.default)
        return "{" + ", ".join(f"{name}: {value}" for name, value in self.by_einsum) + "}"


@dataclass(frozen=True, slots=True)
class Temporal:
    """A sequential loop: each iteration handles `tile_shape` consecutive values of the rank variable.

    With `initial_tile_shape` the first tile has that many values and later ones `tile_shape`.
    """

    __repr__ = brief

    rank_variable: PerEinsum[str]
    tile_shape: PerEinsum[int]
    initial_tile_shape: PerEinsum[int] = PerEinsum()


@dataclass(frozen=True, slots=True)
class Spatial:
    """A parallel loop over the dimension `name` of `component`."""

    __repr__ = brief

    rank_variable: PerEinsum[str]
    tile_shape: PerEinsum[int]
    component: str
    name: str


@dataclass(frozen=True, slots=True)
class Storage:
    """From here downwards the current tile of each tensor lives in `component` (a Memory).

    `sliding_window`: whether a visit keeps what the visit before held; None: as the model option says.
    """

    __repr__ = brief

    tensors: tuple[str, ...]
    component: str
    persistent: bool = False
    sliding_window: bool | None = None


@dataclass(frozen=True, slots=True)
class Toll:
    """The tensors pass through `component` (a Toll) here."""

    __repr__ = brief

    tensors: tuple[str, ...]
    component: str


@dataclass(frozen=True, slots=True)
class Compute:
    """The innermost node: one operation of `einsum` on `component`."""

    __repr__ = brief

    einsum: str
    component: str


@dataclass(frozen=True, slots=True)
class Split:
    """A node with several branches: `Sequential` or `Pipeline`. Data go from earlier branches to later ones."""

    __repr__ = brief

    branches: tuple[tuple[Node, ...], ...]


@dataclass(frozen=True, slots=True)
class Sequential(Split):
    """A split: the branches run one after another, in written order."""

    __repr__ = brief


@dataclass(frozen=True, slots=True)
class Pipeline(Split):
    """A split: each branch is a stage on hardware of its own, and works on the tile that the one before has done.

    `component`, `name`: the fanout of which each stage takes lanes of its own; None where stages have Computes of
    their own.
    """

    __repr__ = brief

    component: str | None = None
    name: str | None = None


def format_address(address: Address) -> str:
    """`nodes[3].nodes[0]`: positions from the root; below a split the branch, then the node in it."""
    return ".".join(f"nodes[{step}]" for step in address)


def parse_address(text: str) -> Address:
    """The inverse of `format_address`. Raises ValueError."""
    steps = [_STEP.fullmatch(part) for part in text.split(".")] if text else []
    if not all(steps):
        raise ValueError(f"{text!r} is not a node address; write for example nodes[3].nodes[0]")
    return tuple(int(step[1]) for step in steps if step)


_STEP = re.compile(r"nodes\[([0-9]{1,9})\]")
