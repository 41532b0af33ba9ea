"""Records of arrays that the kernels of shortest paths and label setting take: named tuples, which Numba compiles."""

from __future__ import annotations

from typing import NamedTuple

from einmap.arrays import Floats, Ints

PLAIN, UNEXPANDED, ABSENT = range(3)
"""Kinds of options: chains that are listed; chains that are not, which take no space; a copy that is left out."""


class PackedStages(NamedTuple):
    """The stages of a state graph one after the other.

    `edges`: (edges, 3) boundary state before, option, boundary state behind, each by its number in the stage.
    `first_edge`, `first_before`, `first_option`: (stages + 1) where the edges, the boundary states before, and the
    options of each stage begin, and where the last ones end. Of each boundary state before: `loops` that are open, and
    `passing`: (boundary states, memories) bits of shared tensors that live on though the Einsum does not use them.
    """

    edges: Ints
    first_edge: Ints
    first_before: Ints
    first_option: Ints
    loops: Ints
    passing: Floats


class PackedChains(NamedTuple):
    """The chains of options one after the other, a row for each.

    Of each option: its `kind` and its number of `fused` loops. `first_row`, `first_kept`, `first_shared`:
    (options + 1) where its rows, what they keep, and what shared tensors add begin, and where the last ones end.
    `costs`: (rows, costs), of shortest paths (rows, weights); `used`: (rows, memories) bits in use. Flat, in bits:
    `kept`: for each row (memories, fused loops) what stays while other Einsums run below the first, the first two, ...
    fused loops; `born`, `dying`: for each option (memories, fused loops) shared tensors that the Einsum is the first,
    and the last, to use.
    """

    kind: Ints
    fused: Ints
    first_row: Ints
    costs: Floats
    used: Floats
    first_kept: Ints
    kept: Floats
    first_shared: Ints
    born: Floats
    dying: Floats


class Labels(NamedTuple):
    """Choices of chains so far behind an Einsum, by boundary state: those of each from `first`.

    `costs`: (n, costs); `stay`, `peak`: (n, memories, loops) bits, of which as many loops matter as are open behind the
    boundary state; `back`: (n, 3) label before, option, row of its front.
    """

    first: Ints
    costs: Floats
    stay: Floats
    peak: Floats
    back: Ints


class JoinedEdges(NamedTuple):
    """The edges of a stage whose chains are joined: (n, 3), as of PackedStages.

    `loops`, `behind`: loops that are open at each boundary state before and behind it. `passing`: see PackedStages.
    `added`: for each edge whose copy is left out, in their order, the bits that its tensors take: (memories, loops).
    """

    edges: Ints
    loops: Ints
    behind: Ints
    passing: Floats
    added: Floats


class Limits(NamedTuple):
    """Limits of whole cascades. `capacity`: bits of each memory.

    `corners`: for each boundary state behind an Einsum rows of Remainder, (boundary states, rows, costs), of which
    `n_corners` count. `most`: for each of them the cutoff, see Remainder.
    """

    capacity: Floats
    corners: Floats
    n_corners: Ints
    most: Floats


class Comparison(NamedTuple):
    """How labels are compared. `worth`: (sums, costs) weights; a label beats another if it does in all these sums.

    `tie`: sums that differ by less than this fraction count as equal.
    """

    worth: Floats
    tie: float


class Space(NamedTuple):
    """Bits that stay in use (`stay`) and were in use at most (`peak`): (memories, loops), see `label_setting`.

    Of many boundary states or labels an array of such tables.
    """

    stay: Floats
    peak: Floats


class Needs(NamedTuple):
    """Bits that what follows takes at least: `above` each open loop (memories, loops), and in all: `used` (memories).

    Of many boundary states an array of each.
    """

    above: Floats
    used: Floats


class ChainBits(NamedTuple):
    """Bits of one chain: `used` (memories), `kept` (memories, fused loops); see PackedChains."""

    used: Floats
    kept: Floats


class SharedBits(NamedTuple):
    """Bits of shared tensors at an option: `passing` (memories), see PackedStages; `born` and `dying` (memories, fused
    loops), see PackedChains.
    """

    passing: Floats
    born: Floats
    dying: Floats
