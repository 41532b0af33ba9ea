"""Fused Einsums that overlap: a component that several use is busy for all of them, and each hides what it can.

Below shared loops Einsums take turns tile by tile. What fills or empties a buffer that lives throughout, since it
stands above the shared loop, may be moved at any time while the loop runs; what belongs to a buffer inside of a branch,
and what the compute does, only while that branch does. So a split takes the longer of

    the sum over its branches of what each takes with what is its own, and
    for each component, all that the Einsums of the split keep it busy for.

The rule is that of AccelForge's repository after 1.0.467 (its tests/test_latency.py), read as a rule on splits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from einmap.arch.component import Compute, Leaf, Memory, is_carrying
from einmap.arch.tree import Architecture
from einmap.errors import NotSupportedError
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.nodes import Address
from einmap.model.cost import BALANCE, ROUNDING
from einmap.model.counting.semantics import Semantics
from einmap.model.timing.buffering import turns
from einmap.model.timing.latency import busy_time, memory_time
from einmap.model.timing.stalls import stalling
from einmap.model.timing.systolic import skew_seconds
from einmap.model.timing.ways import has_ways
from einmap.model.traffic.copies import copy_busiest
from einmap.model.traffic.einsum_traffic import EinsumTraffic
from einmap.model.traffic.tensor_traffic import Exchange

LEAF = 10**9
"""Deeper than any split: what only happens while its Einsum runs."""


def check_overlap(arch: Architecture, leaves: tuple[Leaf, ...], rules: Semantics) -> None:
    """Raise NotSupportedError for rules and machines with which Einsums cannot overlap yet."""
    if rules.lifetimes != "tree":
        raise NotSupportedError(
            f"overlap_einsums: the preset {rules.name!r} runs Einsums one after the other",
            hint="evaluate with semantics: exact, or leave overlap_einsums out",
        )
    for names, what in (
        ([name for name, unit in arch.components.items() if unit.constant_power], "which leaks or is refreshed"),
        ([leaf.name for leaf in leaves if is_carrying(leaf)], "a network"),
        ([leaves[level].name for level, _ in turns(leaves)], "which takes turns with what is below it"),
        ([leaf.name for leaf in leaves if has_ways([leaf])], "which has a pipeline_latency"),
        ([leaves[level].name for level in stalling(leaves)], "whose stalls are counted tile by tile"),
    ):
        if names:
            raise NotSupportedError(
                f"overlap_einsums with {names[0]!r}, {what}, is not supported yet",
                hint="leave out overlap_einsums",
                about=names[0],
            )


@dataclass(frozen=True)
class Busy:
    """Seconds of one component for some exchanges: those of reads and writes on one port, and everything else."""

    reads: float = 0.0
    writes: float = 0.0
    other: float = 0.0
    unit: Memory | None = None

    def __add__(self, more: Busy) -> Busy:
        unit = self.unit if self.unit is not None else more.unit
        return Busy(self.reads + more.reads, self.writes + more.writes, self.other + more.other, unit)

    @property
    def seconds(self) -> float:
        """Seconds until the component is done."""
        if self.unit is None or self.unit.ports is None:
            return self.reads + self.writes + self.other
        return float(self.unit.ports.seconds(self.reads, self.writes)) + self.other


@dataclass(frozen=True)
class Overlap:
    """The Einsums of a tree, in order, with what each moves. `instances`: how often each of them runs.

    `late`: a component that is slower than it is, for as much as it may be less busy and be in balance with others.
    """

    loop_tree: LoopTree
    traffic: Mapping[str, EinsumTraffic]
    instances: Mapping[str, int]
    late: str | None = None

    def limited_by(self) -> tuple[str, ...]:
        """The components that would make the whole take longer if they were slower."""
        names = dict.fromkeys(name for traffic in self.traffic.values() for name in traffic.path.arch.components)
        seconds = self.latency() * (1 + ROUNDING)
        return tuple(name for name in names if replace(self, late=name).latency() > seconds)

    def latency(self) -> float:
        """Seconds of the whole tree.

        Raises NotSupportedError where a component leaks, is a network or takes turns with what is below it.
        """
        for traffic in self.traffic.values():
            check_overlap(traffic.path.arch, traffic.path.leaves, traffic.semantics)
        return self._of(tuple(self.traffic), 0)

    def _of(self, einsums: tuple[str, ...], depth: int) -> float:
        """Seconds of Einsums that share `depth` splits, with what may happen at any time within the last of these."""
        groups: dict[Address, dict[Address, list[str]]] = {}
        alone: list[str] = []
        for name in einsums:
            splits = self._splits(name)
            if len(splits) > depth:
                position, branch = splits[depth]
                groups.setdefault(position, {}).setdefault(branch, []).append(name)
            else:
                alone.append(name)
        total = math.fsum(self._busiest(((name, LEAF),)) for name in alone)
        for branches in groups.values():
            inside = math.fsum(self._of(tuple(names), depth + 1) for names in branches.values())
            every = tuple((name, depth) for names in branches.values() for name in names)
            total += max(inside, self._busiest(every))
        return total

    def _splits(self, einsum: str) -> tuple[tuple[Address, Address], ...]:
        """The splits above an Einsum from the outside in: address of the split, and of the branch that is taken."""
        end = self.loop_tree.path_of[einsum][-1].address
        splits = (placed.address for placed in self.loop_tree.path_of[einsum] if isinstance(placed.node, tree.Split))
        return tuple((address, end[: len(address) + 1]) for address in splits)

    def _busiest(self, einsums: tuple[tuple[str, int], ...]) -> float:
        """Seconds of the component that is busy longest with what is no freer than within a split at a depth."""
        busy: dict[str, Busy] = {}
        for name, depth in einsums:
            for component, own in self._busy(name, depth).items():
                busy[component] = busy.get(component, Busy()) + own
        seconds = {name: own.seconds for name, own in busy.items()}
        return max((s / BALANCE if name == self.late else s for name, s in seconds.items()), default=0.0)

    def _busy(self, einsum: str, depth: int) -> dict[str, Busy]:
        """Times for which an Einsum keeps components busy, by what it moves within a split at `depth` or further in."""
        traffic, times = self.traffic[einsum], self.instances[einsum]
        path = traffic.path
        busy = {}
        # what a copy moves, it moves while it runs
        moved = copy_busiest(path) if path.einsum.is_copy else traffic.busiest(self._moves(einsum, depth))
        for name, done in moved.items():
            unit = path.arch.components[name]
            if isinstance(unit, Memory) and unit.total_latency is None:
                alone = replace(unit, ports=None)
                only_reads = replace(done, write=0, write_transfers=0, write_rounds=0)
                only_writes = replace(done, read=0, read_transfers=0, read_rounds=0)
                reads, writes = (float(memory_time(alone, part, einsum)) for part in (only_reads, only_writes))
                busy[name] = Busy(reads * times, writes * times, 0.0, unit)
            else:
                busy[name] = Busy(other=float(memory_time(unit, done, einsum)) * times)
        unit = path.compute.component
        if not path.einsum.is_copy:
            assert isinstance(unit, Compute)
            calls = {"compute": traffic.operations()[1] * unit.actions_scale}
            seconds = float(busy_time(unit, calls, einsum)) + float(skew_seconds(path, traffic))
            busy[unit.name] = Busy(other=seconds * times)
        return busy

    def _moves(self, einsum: str, depth: int) -> Callable[[str, Exchange], bool]:
        """Whether an exchange is no freer than within the split at `depth`: it cannot be moved in an outer one."""
        path = self.traffic[einsum].path
        placed = self.loop_tree.path_of[einsum]
        splits = [i for i, node in enumerate(placed) if isinstance(node.node, tree.Split)]

        def moves(tensor: str, exchange: Exchange) -> bool:
            del tensor
            position = exchange.child.position
            for number, split in enumerate(splits):
                loops = (loop for loop in path.loops if not loop.is_spatial and not loop.absent)
                if position < split and any(position < loop.position < split for loop in loops):
                    return number >= depth
            return True

        return moves
