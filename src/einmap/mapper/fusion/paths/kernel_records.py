"""Records of arrays that the kernels of stage edges, shortest paths and label setting take: named tuples, which Numba
compiles.
"""

from __future__ import annotations

from typing import NamedTuple

from einmap.arrays import Bools, Floats, Ints

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


class RowTable(NamedTuple):
    """Rows of whole numbers, each once. `rows`: (room, width), of which `size[0]` are there. `heads`: hash table of
    their numbers, a power of two of places, -1 where there is none.
    """

    rows: Ints
    heads: Ints
    size: Ints


class Parts(NamedTuple):
    """Facts of keys, cuts, held nodes and loops by their numbers, a row for each.

    `keys`: see MEMORY. `cut_prefixes`, `loop_prefixes`, `held_inside`: the first n cuts or loops, or the nodes above
    loop n, in column n; in the last column all of them. `cut_own`: whether some rank is not one of the tensor;
    `held_hidden`: whether some node has no name of a memory. `bits`: by number.
    """

    keys: Ints
    cut_lengths: Ints
    cut_own: Bools
    cut_prefixes: Ints
    held_hidden: Bools
    held_inside: Ints
    loop_lengths: Ints
    loop_prefixes: Ints
    bits: Floats


class Ahead(NamedTuple):
    """Keys ahead by slot, as of KeysAhead: those of slot t are from `first_next[t]` and `first_later[t]` on, rising.

    `is_next`: whether the next Einsum uses the slot; slots beyond it does not.
    """

    is_next: Bools
    first_next: Ints
    next_keys: Ints
    first_later: Ints
    later_keys: Ints
    stays: bool


class Layout(NamedTuple):
    """Columns of boundary states before and behind an Einsum.

    `used`, `own`: of each slot of the step, before and behind, -1 where there is none. `others`: of each other slot its
    column before, that behind, and whether it is still needed. `facts`: of each slot of the step, see NEEDED.
    """

    used: Ints
    own: Ints
    others: Ints
    facts: Ints


class Fitting(NamedTuple):
    """Options that fit behind boundary states that are alike in what the Einsum uses, and what these lead to.

    `group`: of each boundary state before, the groups by first appearance. Of each group: `first_pair` and
    `first_lead` (groups + 1), where its options and its targets begin. `options`, `leads`: of each pair the option and
    the lead. `targets`: of each lead a row: tensors of the step, state of those that pass by, loops, whether loops
    stand above some tensor, and whether it has nothing that later Einsums do not tell apart.
    """

    group: Ints
    first_pair: Ints
    first_lead: Ints
    options: Ints
    leads: Ints
    targets: Ints


class Reached(NamedTuple):
    """Boundary states behind an Einsum, by first appearance. `numbers`: of each of `afters` that among `told`, where
    only what later Einsums tell apart is left of it.
    """

    afters: RowTable
    numbers: Ints
    told: RowTable
