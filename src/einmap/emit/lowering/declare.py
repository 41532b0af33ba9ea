"""Declarations of the code: tensors, buffers, counters, loop indices."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from einmap.arch.component import Memory
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.gather import index_sizes
from einmap.einsum.numeric import shapes
from einmap.einsum.operation import Reduction
from einmap.einsum.spaces.projection import Affine, Lookup, Relevance
from einmap.emit.language.identifiers import Names, as_identifier
from einmap.emit.language.program import ALWAYS, Action, BufferVariable, Condition, Counter, Role, TensorVariable
from einmap.emit.lowering.liveness import Liveness, covers_tiles, link_of, tiles_overlap
from einmap.emit.lowering.tile_boxes import applies_at, indices_at, lane_turns, largest_shape, leaves_some, memories
from einmap.errors import NotSupportedError
from einmap.mapping.nodes import Address
from einmap.schedule.place import NodeTensor, Place
from einmap.schedule.routes import Route, ranks_of
from einmap.schedule.schedule import Schedule
from einmap.schedule.spaces import reaches_of, space_mask


@dataclass
class Declared:
    """Declarations of one program. Raises NotSupportedError for what cannot be emitted."""

    schedule: Schedule
    names: Names
    index_of: Mapping[Address, str]
    variables: dict[str, str] = field(default_factory=dict)
    """The variable of each whole tensor."""
    buffers: dict[NodeTensor, BufferVariable] = field(default_factory=dict)
    counters: dict[tuple[str, str, Action], Counter] = field(default_factory=dict)
    flag_of: dict[str, str] = field(default_factory=dict)
    """The flags of each buffer that has some."""

    def __post_init__(self) -> None:
        self.sizes = shapes(self.schedule.workload)
        self.ranks = ranks_of(self.schedule.workload)
        reaches = reaches_of(self.schedule.workload, self.ranks)
        self.first = {tensor: tuple(low for low, _ in reach) for tensor, reach in reaches.items()}
        """Of each rank of a whole tensor the index of its first place: tiles may reach beyond both ends."""
        self.shapes = {tensor: tuple(high - low for low, high in reach) for tensor, reach in reaches.items()}
        for tensor in self.schedule.workload.tensors:
            self.variables[tensor] = self.names.identifier(tensor, what=tensor)
        for place in self.schedule.places.values():
            if self.is_buffer(place):
                self.buffers[place.key] = self._declare(place)

    # what a tensor is

    def producer(self, tensor: str) -> Route | None:
        """Who writes a tensor."""
        return self.schedule.routes.get(self.schedule.workload.producers.get(tensor, ""))

    def reduction_of(self, tensor: str) -> Reduction:
        """How results of a tensor are reduced."""
        producer = self.producer(tensor)
        return "sum" if producer is None else producer.einsum.operation.reduction

    def places_of(self, tensor: str) -> list[Place]:
        """The storage nodes of a tensor."""
        return [place for place in self.schedule.places.values() if place.hold.tensor == tensor]

    def has_flags(self, tensor: str) -> bool:
        """Whether it has to be kept for each element of an output if there is a result already."""
        return self._flags[tensor]

    @cached_property
    def _flags(self) -> dict[str, bool]:
        flags = {}
        for tensor in self.schedule.workload.tensors:
            producer = self.producer(tensor)
            if producer is None or producer.einsum.is_copy:
                flags[tensor] = False
                continue
            parts = any(leaves_some(place) for place in self.places_of(tensor) if not place.is_backing())
            flags[tensor] = parts or tiles_overlap(producer.einsum.by_tensor[tensor])
        return flags

    def is_simple(self, tensor: str) -> bool:
        """Whether a write-back may overwrite what is outside: nobody else holds results for it."""
        producer = self.producer(tensor)
        if producer is None or self.has_flags(tensor):
            return producer is None
        liveness = Liveness(producer, self.index_of)
        inner = memories(producer, tensor)[1:]
        alone = not any(liveness.lanes_take_turns(tensor, link_of(producer, tensor, hold)) for hold in inner)
        einsum = producer.einsum
        return alone and (einsum.operation.reduction == "sum" or covers_tiles(einsum, einsum.by_tensor[tensor]))

    def is_written_once(self, tensor: str) -> bool:
        """Whether each element has one value, so that nothing is reduced."""
        producer = self.producer(tensor)
        if producer is None or not self.is_simple(tensor):
            return False
        access = producer.einsum.by_tensor[tensor]
        kept = all(n == 1 or access.relevance(v) is Relevance.FULL for v, n in producer.einsum.bounds)
        return kept and covers_tiles(producer.einsum, access)

    def needs_clearing(self, place: Place) -> bool:
        """Whether a buffer of an output must hold neutral values before results come in."""
        tensor, producer = place.hold.tensor, place.producer
        if producer is None or self.buffer(place).whole:
            return False
        liveness, chain = Liveness(producer, self.index_of), memories(producer, tensor)
        is_innermost = place.holds[producer.einsum.name] == chain[-1]
        all_skip = all(liveness.skips(link_of(producer, tensor, hold)) for hold in (*chain[1:], None))
        whole_tiles = covers_tiles(producer.einsum, producer.einsum.by_tensor[tensor])
        return (is_innermost and not self.is_written_once(tensor)) or not (
            all_skip and whole_tiles and self.is_simple(tensor)
        )

    def refuse_overlap_of_copy(self, einsum: Einsum, access: TensorAccess) -> None:
        """Copies of overlapping windows move an element once, however often it is visited."""
        if tiles_overlap(access):
            raise NotSupportedError(
                f"the copy Einsum {einsum.name!r} indexes {access.tensor!r} by a sum of rank variables; "
                "code for that cannot be emitted yet"
            )

    def refuse_partial_visits(self, place: Place, producer_runs: Condition) -> None:
        """A producer that pauses in some visits of a common buffer."""
        if producer_runs != ALWAYS:
            raise NotSupportedError(
                f"{place.hold.tensor!r} in {place.hold.component.name!r}: in some visits nothing of it is produced; "
                "code for that cannot be emitted yet"
            )

    # buffers

    def is_buffer(self, place: Place) -> bool:
        """A copy passes by what stands between its ends."""
        return place.is_backing() or not all(route.einsum.is_copy for route in place.users)

    def buffer(self, place: Place) -> BufferVariable:
        """The buffer of a storage node."""
        return self.buffers[place.key]

    def _is_whole(self, place: Place) -> bool:
        """Whether the outermost holder is the tensor itself."""
        tensor, schedule = place.hold.tensor, self.schedule
        if not place.is_backing():
            return False
        if tensor not in schedule.workload.intermediates or tensor in schedule.several:
            self._refuse_lanes_of_outputs(place)
            return True
        if place.key in schedule.sliding:
            return True  # a state of a recurrence, handed from step to step
        return all(
            route.iterations[turn.address] == 1 or route.einsum.by_tensor[tensor].relevance(turn.variable) is
            Relevance.NONE
            for route in place.users
            for turn in route.turns
            if (turn.position < place.holds[route.einsum.name].position if turn.level is None
                else turn.level <= place.holds[route.einsum.name].level)
        ) and not lane_turns(place.users[0], place.hold.level)  # fmt: skip

    def _refuse_lanes_of_outputs(self, place: Place) -> None:
        producer, tensor = place.producer, place.hold.tensor
        if producer is None or producer.einsum.is_copy:
            return
        access = producer.einsum.by_tensor[tensor]
        for turn in lane_turns(producer, place.holds[producer.einsum.name].level):
            if access.relevance(turn.variable) is not Relevance.FULL or tiles_overlap(access):
                raise NotSupportedError(
                    f"{tensor!r} stays in {place.hold.component.name!r}, whose instances share its elements along "
                    f"{turn.variable!r}; code for that cannot be emitted yet",
                    hint=f"hold {tensor} in a memory above the fanout",
                )

    def _refuse_gaps(self, place: Place) -> None:
        """Refuse elements without a result, which are 0 to those who read them, and -inf where a maximum is made."""
        producer, tensor = place.producer, place.hold.tensor
        if producer is None or not place.is_backing() or producer.einsum.operation.reduction == "sum":
            return
        einsum, inside = producer.einsum, space_mask(producer.einsum)
        variables = einsum.by_tensor[tensor].variables
        if (
            inside is not None
            and not inside.any(axis=tuple(i for i, v in enumerate(einsum.rank_variables) if v not in variables)).all()
            and not self._read_as_written(producer.einsum, tensor)
        ):
            raise NotSupportedError(
                f"no point writes some elements of {tensor!r}, the {einsum.operation.reduction}imum of Einsum "
                f"{einsum.name!r}, which is kept tile by tile; code for that cannot be emitted yet",
                hint=f"hold {tensor} outside of all loops",
            )

    def _read_as_written(self, producer: Einsum, tensor: str) -> bool:
        """Whether the Einsums that read a tensor are known to read what its producer writes, and no more."""
        workload = self.schedule.workload
        written = _touched(producer, producer.by_tensor[tensor])
        readers = [workload.by_name[name] for name in workload.consumers[tensor]]
        read = [_touched(reader, reader.by_tensor[tensor]) for reader in readers]
        return written is not None and all(mask is not None and not (mask & ~written).any() for mask in read)

    def _declare(self, place: Place) -> BufferVariable:
        tensor, memory = place.hold.tensor, place.hold.component
        assert isinstance(memory, Memory)
        bits, capacity = memory.bits.get(tensor, 0.0), memory.size_bits
        ranks, flags = self.ranks[tensor], self.has_flags(tensor) and place.producer is not None
        if self._is_whole(place):
            shape, name = self.shapes[tensor], self.variables[tensor]
            at_a_time = largest_shape(place) if place.key in self.schedule.sliding else shape
            return BufferVariable(
                name, memory.name, tensor, ranks, (), shape, _use(place), True, self._flag(name) if flags else "",
                bits * math.prod(at_a_time), capacity, size_from=self._sizes_from(place, shape),
            )  # fmt: skip
        self._refuse_gaps(place)
        turns = lane_turns(place.users[0], place.hold.level)
        lanes = tuple(place.users[0].iterations[t.address] for t in turns)
        shape = largest_shape(place)
        name = self.names.identifier(f"{memory.name}_{self.variables[tensor]}")
        lane_names = tuple(self.index_of[t.address] for t in turns)
        return BufferVariable(
            name, memory.name, tensor, ranks, lanes, shape, _use(place), False, self._flag(name) if flags else "",
            bits * math.prod(shape), capacity, lane_names, self._sizes_from(place, shape),
        )  # fmt: skip

    def _sizes_from(self, place: Place, shape: tuple[int, ...]) -> tuple[str | tuple[str, int] | None, ...]:
        """Where the length of each rank comes from, as far as one rank variable makes it."""
        route = place.users[0]
        hold = place.holds[route.einsum.name]
        sources: list[str | tuple[str, int] | None] = []
        for index, size in zip(indices_at(place, route), shape, strict=True):
            sources.append(None)
            if isinstance(index, Lookup) or len(index.terms) != 1 or abs(index.terms[0][1]) != 1:
                continue
            variable = index.terms[0][0]
            cuts = [
                t
                for t in route.turns
                if t.variable == variable and route.iterations[t.address] > 1 and applies_at(hold)(t)
            ]
            if not cuts and size == route.einsum.extents[variable]:
                sources[-1] = variable, size
            elif cuts and size == cuts[-1].shape:
                sources[-1] = self.index_of[cuts[-1].address]
        return tuple(sources)

    def _flag(self, name: str) -> str:
        if name not in self.flag_of:
            self.flag_of[name] = self.names.identifier(f"{name}_live")
        return self.flag_of[name]

    def counter(self, memory: str, tensor: str, action: Action) -> Counter:
        """The counter of values read from or written to a memory."""
        key = memory, tensor, action
        if key not in self.counters:
            name = self.names.identifier(f"{memory}_{self.variables[tensor]}_{action}")
            self.counters[key] = Counter(name, memory, tensor, action)
        return self.counters[key]

    def sorted_counters(self) -> tuple[Counter, ...]:
        """Outer memories first, tensors in order of use."""
        order = [name for route in self.schedule.routes.values() for name in route.arch.leaves]
        tensors = list(self.schedule.workload.tensors)
        return tuple(
            sorted(self.counters.values(), key=lambda c: (order.index(c.memory), tensors.index(c.tensor), c.action))
        )

    def tensors(self) -> tuple[TensorVariable, ...]:
        """The whole tensors that the code has."""
        whole = {buffer.tensor for buffer in self.buffers.values() if buffer.whole}
        variables = []
        workload = self.schedule.workload
        n_rows = index_sizes(workload.einsums)
        for tensor in workload.tensors:
            if tensor not in whole:
                continue
            producer = self.producer(tensor)
            role: Role = "intermediate" if tensor in workload.intermediates else "output" if producer else "input"
            reduction = None if producer is None or producer.einsum.is_copy else producer.einsum.operation.reduction
            covered = producer is None or self._is_covered(producer.einsum, tensor)
            name, ranks, shape = self.variables[tensor], self.ranks[tensor], self.shapes[tensor]
            rows, size = n_rows.get(tensor, 0), self.sizes[tensor]
            room = size, self.first[tensor]
            variables.append(TensorVariable(name, tensor, ranks, shape, role, reduction, covered, rows, *room))
        return tuple(variables)

    def _is_covered(self, einsum: Einsum, tensor: str) -> bool:
        access = einsum.by_tensor[tensor]
        ranges = einsum.index_range(access)
        box = tuple(ranges[rank] for rank in self.ranks[tensor])
        filled = all(low == 0 and high == size - 1 for (low, high), size in zip(box, self.shapes[tensor], strict=True))
        return filled and covers_tiles(einsum, access)


def _use(place: Place) -> str:
    written = [r.einsum.name for r in place.users if place.hold.tensor in r.einsum.outputs]
    read = [r.einsum.name for r in place.users if place.hold.tensor in r.einsum.inputs]
    parts = []
    if written:
        parts.append(f"written by {', '.join(written)}")
    if read:
        parts.append(f"read by {', '.join(read)}")
    return ", ".join(parts)


def loop_names(routes: Iterable[Route], names: Names) -> dict[Address, str]:
    """An index for each loop: `k1`, `k0`, numbered as partitions are; loops that never meet and are alike share one."""
    routes = list(routes)
    wishes: dict[Address, tuple[str, int]] = {}
    users: dict[Address, set[str]] = {}
    kinds: dict[Address, object] = {}
    for route in routes:
        turns = [t for t in route.turns if route.iterations[t.address] > 1]
        for i, turn in enumerate(turns):
            inner = [t for t in turns[i + 1 :] if t.variable == turn.variable]
            variable, before = wishes.get(turn.address, (turn.variable, 0))
            wishes[turn.address] = variable, max(before, len(inner))
            users.setdefault(turn.address, set()).add(route.einsum.name)
            cuts = tuple((t.first, t.shape, route.iterations[t.address]) for t in (turn, *inner))
            kinds.setdefault(turn.address, (turn.variable, route.einsum.extents[turn.variable], cuts))
    index_names: dict[Address, str] = {}
    for address, (variable, place) in sorted(wishes.items()):
        stem = as_identifier(variable, names.language)
        wish = f"{stem}_{place}" if stem[-1].isdigit() or stem[-1] == "_" else f"{stem}{place}"
        rivals = {
            name
            for other, name in index_names.items()
            if users[other] & users[address] or kinds[other] != kinds[address]
        }  # fmt: skip
        candidate, n = wish, 2
        while candidate in rivals or (candidate in names.taken and candidate not in index_names.values()):
            candidate, n = f"{wish}_{n}", n + 1
        names.taken.setdefault(candidate, variable)
        if stem != variable:
            names.renamed[variable] = stem
        index_names[address] = candidate
    return index_names


def _touched(einsum: Einsum, access: TensorAccess) -> NDArray[np.bool_] | None:
    """Elements of a tensor that an Einsum touches, by its ranks, one place for a rank whose elements are alike.

    None where an index is anything but a rank variable that begins with 0.
    """
    begun = dict(einsum.first_values)
    found = [index.terms[0][0] for _, index in access.projection if index.terms]
    plain = all(i == Affine(((i.terms[0][0], 1),)) for _, i in access.projection if i.terms)
    if not plain or len(found) != len(access.projection) or len({*found}) < len(found) or begun.keys() & {*found}:
        return None
    inside = space_mask(einsum)
    if inside is None:
        return np.ones([1] * len(found), bool)
    others = tuple(i for i, v in enumerate(einsum.rank_variables) if v not in found)
    kept = [v for v in einsum.rank_variables if v in found]
    return np.transpose(inside.any(axis=others), [kept.index(v) for v in found])
