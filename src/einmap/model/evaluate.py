"""evaluate(): from a specification with a mapping to its cost, step by step."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cache, cached_property

from einmap.arch.component import Component, Memory
from einmap.arch.tree import Architecture
from einmap.einsum.isomorphism import Renaming
from einmap.einsum.workload import Workload
from einmap.errors import EinmapError, MappingError, Note, NotSupportedError, SpecError, raise_all
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.nodes import Address
from einmap.mapping.pipelines import PlacedPipeline, refuse_sliding
from einmap.mapping.validate import validate
from einmap.model.checks.advice import notes_on
from einmap.model.checks.array_units import check_units
from einmap.model.checks.constraints import constraint_notes
from einmap.model.checks.gathers import check_gathers
from einmap.model.checks.half_reduced import check_parts, half_reduced
from einmap.model.checks.partial_sums import check_partial_sums
from einmap.model.checks.recurrences import check_recurrences_known
from einmap.model.cost import (
    ComponentRow,
    Cost,
    MemoryUsageRow,
    TensorUsageRow,
    TileRow,
)
from einmap.model.cost_rows import Rows, rows_of
from einmap.model.counting.path import EinsumPath, path_of
from einmap.model.counting.reuse import TensorCounts
from einmap.model.counting.semantics import Semantics, semantics_named
from einmap.model.counting.sliding import Slides, Windows, slides_on
from einmap.model.isomorphism import Nodes, alike, renamed_buffers, renamed_slides
from einmap.model.occupancy.lifetimes import Peak, live_by_shared_tensors, live_by_tree, peaks, without_aliases
from einmap.model.occupancy.occupancy import Buffer, buffers_of
from einmap.model.occupancy.overflow import overflow
from einmap.model.occupancy.sharing import (
    SharedNode,
    SharedTensors,
    Where,
    charges_of,
    check_fusion,
    shared_nodes,
)
from einmap.model.occupancy.stages import Turns, moments_of
from einmap.model.pipelines import Pipelining, known_pipelines
from einmap.model.sparsity.tiles import stored, tile_rows
from einmap.model.timing.overlap import Overlap
from einmap.model.timing.stalls import refuse_fused
from einmap.model.timing.ways import Way, has_ways, ways_of
from einmap.model.traffic.copies import aliases
from einmap.model.traffic.einsum_traffic import EinsumTraffic
from einmap.spec.forms.loop_tree import is_as_read
from einmap.spec.spec import Spec, checked_spec


def evaluate(
    spec: Spec,
    mapping: LoopTree | None = None,
    semantics: str | Semantics | None = None,
    strict: bool = False,
) -> Cost:
    """Cost of a mapping: energy (J), latency (s), area (m^2), accesses, usage.

    `mapping`: a LoopTree; default is the one of the specification. `semantics`: preset of counting rules,
    `exact` or `accelforge`; default is `model.semantics` of the specification. `strict`: violated
    architecture constraints are errors instead of notes on the result.

    Raises SpecError for a bad specification, MappingError when the mapping does not fit it (CapacityError and
    FanoutError where tiles or lanes do not), each with the place in the input; TypeError for anything but a Spec.
    """
    spec = checked_spec(spec, "evaluate")
    return _judged(spec, mapping, semantics_named(semantics or spec.model_options.semantics), strict)


def without_advice(spec: Spec, mapping: LoopTree) -> Cost:
    """Cost of a mapping as `evaluate` gives it, but for notes on what could be better: for who evaluates move by move.

    Where Einsums are equal but for names, each of them has such notes of its own, and they take longer than the cost.
    """
    return _judged(spec, mapping, semantics_named(spec.model_options.semantics), strict=False, advises=False)


def _judged(spec: Spec, mapping: LoopTree | None, rules: Semantics, strict: bool, advises: bool = True) -> Cost:
    check_partial_sums(spec, rules)
    check_recurrences_known(spec, rules)
    if mapping is None:
        return _cost(spec, _tree(spec), rules, strict, spec.place_of_node, advises)
    einsums = spec.workload.by_name
    if is_as_read(mapping, einsums) and mapping.path_of.keys() <= einsums.keys():
        return _cost(spec, mapping, rules, strict, _places(spec, mapping), advises)
    spec = spec.with_mapping(mapping)
    return _cost(spec, _tree(spec), rules, strict, spec.place_of_node, advises)


def _places(spec: Spec, mapping: LoopTree) -> Where:
    """Where each node would be written; the mapping is written only if something is said of one."""
    written = cache(lambda: spec.with_mapping(mapping))
    return lambda address: written().place_of_node(address)


def _cost(spec: Spec, tree: LoopTree, rules: Semantics, strict: bool, where: Where, advises: bool) -> Cost:
    """Evaluate one of several Einsums that are alike; each by itself where every one of them needs its own notes."""
    order = _order(spec.workload, tree, rules)
    if spec.sparsity:  # zeros tell Einsums apart
        with _located(spec):
            return _Evaluation(spec, tree, rules, strict, where, {name: name for name in order}).cost()
    same = alike(tree, spec.workload, {name: bound.like for name, bound in spec.bound.items()}, order)
    alone = {name: name for name in order}
    if same != alone and not (spec.model_options.overlap_einsums or any(map(has_ways, spec.distinct_components()))):
        evaluation = _Evaluation(spec, tree, rules, strict, where, same, advises=advises)
        with suppress(EinmapError):
            cost = evaluation.cost()
            if not evaluation.repeats_notes:
                return cost
    with _located(spec):
        return _Evaluation(spec, tree, rules, strict, where, alone, advises=advises).cost()


@contextmanager
def _located(spec: Spec) -> Iterator[None]:
    """Give what is not supported its place: that of the component that it is about, else that of the mapping."""
    try:
        yield
    except NotSupportedError as error:
        if error.at is None:
            error.at = spec.place_of_component(error.about, error.field) if error.about else spec.provenance("mapping")
        raise


def _order(workload: Workload, tree: LoopTree, rules: Semantics) -> tuple[str, ...]:
    """The Einsums that are mapped, in the order in which they run."""
    names = tree.path_of if rules.lifetimes == "tree" else workload.by_name
    return tuple(name for name in names if name in tree.path_of and name in workload.by_name)


@dataclass(frozen=True)
class Workings:
    """An evaluation with what its numbers come from; everything by Einsum but `peaks`, which is by memory.

    `order`: the Einsums in the order in which they run. `live`: the buffers that live while an Einsum runs; `peaks`:
    those of the fullest moment, where a copy and its source in one memory are one buffer. `slides`: the loops along
    which storage nodes slide. `turns`: what lives at one time in each Pipeline.
    """

    spec: Spec
    tree: LoopTree
    cost: Cost
    order: tuple[str, ...]
    paths: Mapping[str, EinsumPath]
    traffic: Mapping[str, EinsumTraffic]
    live: Mapping[str, tuple[Buffer, ...]]
    peaks: Mapping[str, Peak]
    shared: tuple[SharedNode, ...]
    slides: Slides
    turns: tuple[Turns, ...]


def workings_of(spec: Spec, tree: LoopTree | None = None, *, unlimited: bool = False) -> Workings:
    """Evaluate a mapping (default: that of the specification) under `exact`, with what its cost was computed from.

    `unlimited`: memories may overflow; usages above 1 say by how much. Raises as `evaluate` does.
    """
    tree, rules = tree or _tree(spec), semantics_named("exact")
    alone = {name: name for name in _order(spec.workload, tree, rules)}
    evaluation = _Evaluation(spec, tree, rules, False, spec.place_of_node, alone, unlimited=unlimited)
    with _located(spec):
        cost = evaluation.cost()
    return Workings(
        spec,
        evaluation.tree,
        cost,
        evaluation.order,
        evaluation.paths,
        evaluation.traffic,
        {name: tuple(buffers) for name, buffers in evaluation.live.items()},
        evaluation.peaks,
        evaluation.shared,
        evaluation.slides,
        evaluation.turns,
    )


def _tree(spec: Spec) -> LoopTree:
    if spec.mapping is None:
        raise MappingError("no mapping given; add `mapping:` to the specification or call the mapper (einmap map)")
    return spec.mapping


class _Evaluation:
    """The steps of one evaluation and what they share.

    `same`: for each Einsum, in the order in which they run, the one that is evaluated for it: one that is equal but for
    names (`alike`), or itself. `paths` and `traffic` are of those, and of others that use the same tensors.
    """

    def __init__(
        self,
        spec: Spec,
        tree: LoopTree,
        rules: Semantics,
        strict: bool,
        where: Where,
        same: Mapping[str, str],
        *,
        unlimited: bool = False,
        advises: bool = True,
    ) -> None:
        self.spec = spec
        self.tree = tree
        self.rules = rules
        self.strict = strict
        self.where = where
        self.unlimited = unlimited
        self.advises = advises
        self.workload = spec.workload
        self.archs: Mapping[str, Architecture] = spec.archs
        self.notes: list[Note] = [*spec.notes, *spec.bindings.sparsity_notes]
        self.same = same
        self.order = tuple(same)
        self.firsts = tuple(dict.fromkeys(same.values()))
        self.repeats_notes = False
        self.sparsity = spec.sparsity
        self.tiles: dict[str, tuple[TileRow, ...]] = {}

    def cost(self) -> Cost:
        where = self.where
        validate(self.tree, self.workload, self.archs, where, self.workload.by_name, self.firsts)
        order = tuple(self.paths)
        shared = SharedTensors(self.workload, self.tree, order, self.paths, self.shared, self.tensors)
        check_gathers(self.tree, self.workload, lambda: self.every_path, where)
        check_fusion(shared, self.rules, where, self.slides)
        check_parts(shared, self.rules, where)
        check_units(self.shared, self.traffic, self.pipelines, where)
        refuse_sliding(self.pipelines, [(node, loop) for (_, node), loop in self.slides.items()], where)
        self.constraints(order, self.tensors)
        could = self.windows.slides(possible=True) if self.rules.sliding_window and self.advises else {}
        for name in self.firsts:
            refuse_fused(self.tree.path_of[name], self.paths[name])
            if self.advises:
                possible = slides_on(self.paths[name], could)
                self.say(name, notes_on(self.traffic[name], self.rules, where, self.tree, self.workload, possible))
        self.check_capacity()
        return self.assemble(self.buffers, self.peaks)

    @cached_property
    def tensors(self) -> frozenset[str]:
        """Tensors of the Einsums that are looked at."""
        return frozenset(t for name in self.firsts for t in self.workload.by_name[name].tensors)

    @cached_property
    def paths(self) -> dict[str, EinsumPath]:
        """The paths of the Einsums that are looked at, and of others that use the same tensors, in order."""
        near = {*self.firsts, *(user for t in self.tensors for user in self.workload.users[t])}
        order = (name for name in self.order if name in near)
        return {n: path_of(self.tree, self.workload.by_name[n], self.archs[n]) for n in order}

    @cached_property
    def slides(self) -> Slides:
        """The loops along which storage nodes slide."""
        return self.windows.slides()

    @cached_property
    def shared(self) -> tuple[SharedNode, ...]:
        """Storage nodes that several Einsums use."""
        return shared_nodes(tuple(self.paths), self.paths, self.tensors)

    @cached_property
    def traffic(self) -> dict[str, EinsumTraffic]:
        """Traffic of each Einsum."""
        charges = charges_of(self.shared, self.paths, self.rules, self.where)
        inner = self.workload.intermediates
        return {
            n: EinsumTraffic(path, self.rules, charges[n], inner, slides_on(path, self.slides))
            for n, path in self.paths.items()
        }

    def say(self, name: str, notes: list[Note]) -> None:
        """Add notes on an Einsum that is looked at."""
        self.notes += notes
        self.repeats_notes |= bool(notes) and self.repeated[name] > 1

    @cached_property
    def repeated(self) -> Mapping[str, int]:
        """How many Einsums each one stands for that is looked at."""
        return Counter(self.same.values())

    @cached_property
    def renamings(self) -> Mapping[str, Renaming]:
        """From the Einsum that is looked at to each one that it stands for."""
        by_name = self.workload.by_name
        return {name: Renaming(by_name[first], by_name[name]) for name, first in self.same.items()}

    @cached_property
    def windows(self) -> Windows:
        """Storage nodes that keep what the next visit needs again. Raises SpecError where the preset has none."""
        everywhere = self.spec.model_options.sliding_window
        windows = Windows(self.tree, self.workload, self.paths, tuple(self.paths), everywhere)
        if windows.asked and not self.rules.sliding_window:
            raise NotSupportedError(
                f"sliding_window: the preset {self.rules.name!r} fetches every tile in full",
                at=self.spec.provenance("model.sliding_window") if everywhere else self.where(windows.asked[0]),
                hint="evaluate with semantics: exact, or leave sliding_window out",
            )
        return windows

    def constraints(self, order: tuple[str, ...], tensors: frozenset[str]) -> None:
        where, begin = self.where, len(self.notes)
        for name in self.firsts:
            self.say(name, constraint_notes(self.paths[name], self.workload, where))
        if self.rules.lifetimes == "tree":
            notes = half_reduced(self.workload, order, self.paths, where, tensors)
            self.notes += notes
            self.repeats_notes |= bool(notes)
        if self.strict:
            raise_all([MappingError(note.text, at=note.at) for note in self.notes[begin:]])

    @cached_property
    def buffers(self) -> dict[str, tuple[Buffer, ...]]:
        """The buffers of each Einsum."""
        buffers = {}
        for name, path in self.paths.items():
            counts: Mapping[str, TensorCounts] = {t.access.tensor: t.counts for t in self.traffic[name].tensors}
            instances = self.workload.n_instances * path.einsum.n_instances
            buffers[name] = buffers_of(path, self.rules, counts, instances, self.workload)
            if name in self.sparsity and self.sparsity[name].formats:
                rows = tile_rows(path, self.sparsity[name], counts)
                buffers[name] = stored(buffers[name], rows)
                self.tiles[name] = tuple(row for _, row in rows)
        if self.rules.buffer_above_split != "each Einsum":
            buffers = self.common(buffers)
        return {
            name: buffers[name] if first == name else renamed_buffers(buffers[first], self.renamings[name], *paths)
            for name, first, paths in self.standing_for()
        }

    def standing_for(self) -> Iterator[tuple[str, str, tuple[Nodes, Nodes]]]:
        """Each Einsum, the one that is looked at for it, and the nodes on the paths of that and of itself."""
        for name, first in self.same.items():
            yield name, first, (self.tree.path_of[first], self.tree.path_of[name])

    def common(self, buffers: dict[str, tuple[Buffer, ...]]) -> dict[str, tuple[Buffer, ...]]:
        """Buffers that several Einsums share have the size of the common tile."""
        ending = self.workload.ending
        largest = {
            (n.address, n.tensor): n.hull.largest(self.workload.steps_held(n.tensor) if n.tensor in ending else {})
            for n in self.shared
            if n.hull is not None
        }
        groups: dict[object, list[Buffer]] = {}
        for b in (b for group in buffers.values() for b in group):
            groups.setdefault((b.address, b.tensor), []).append(b)

        def widened(b: Buffer) -> Buffer:
            users = groups[b.address, b.tensor] if b.persistent else [b]
            factor = max(u.factor for u in users)
            bits_of_one = max(u.bits / u.factor for u in users) if factor > 1 else b.bits
            common = largest.get((b.address, b.tensor), 0) * b.memory.bits[b.tensor]
            return replace(b, bits=max(bits_of_one, common) * factor)

        return {name: tuple(widened(b) for b in group) for name, group in buffers.items()}

    @cached_property
    def live(self) -> dict[str, list[Buffer]]:
        """The buffers that live while each Einsum runs."""
        if self.rules.lifetimes == "tree":
            paths = {name: self.paths[first] for name, first in self.same.items()}
            slides: dict[tuple[str, Address], Address] = {}
            for name, _, nodes in self.standing_for() if self.slides else ():
                slides |= renamed_slides(self.slides, self.renamings[name], *nodes)
            depths = {p.address: {e: stage.depth for e, stage in p.stage_of.items()} for p in self.pipelines}
            return live_by_tree(self.tree, self.order, self.buffers, paths, slides, depths)
        return live_by_shared_tensors(self.workload, self.order, self.buffers)

    @cached_property
    def peaks(self) -> dict[str, Peak]:
        """The fullest moment of each memory."""
        same = aliases(self.paths.values())
        moments = list(self.live.items())
        if self.pipelines:
            moments = moments_of(self.turns, self.live)
        return peaks(without_aliases(moments, same) if same else moments)

    @cached_property
    def turns(self) -> tuple[Turns, ...]:
        """Buffers that live at one time in each Pipeline."""
        return tuple(Turns(pipeline, self.every_path, self.buffers, self.live) for pipeline in self.pipelines)

    @cached_property
    def pipelines(self) -> tuple[PlacedPipeline, ...]:
        """The Pipelines of the tree. Raises NotSupportedError where the preset, or an option, does not know them."""
        overlaps = self.spec.model_options.overlap_einsums
        return known_pipelines(self.tree, self.workload, self.rules, self.where, overlaps=overlaps)

    @cached_property
    def every_path(self) -> dict[str, EinsumPath]:
        """The paths of all Einsums that are mapped, also of those that are the same as others but for names."""
        return {name: path_of(self.tree, self.workload.by_name[name], self.archs[name]) for name in self.order}

    def check_capacity(self) -> None:
        """Raises CapacityError for the fullest memory that is too small."""
        usage = self.peaks
        over = [(name, peak) for name, peak in usage.items() if peak.bits > peak.memory.size_bits]
        if over and not self.unlimited:
            raise overflow(over, self.where)

    # numbers

    def assemble(self, buffers: Mapping[str, tuple[Buffer, ...]], usage: Mapping[str, Peak]) -> Cost:
        rows = self.rows()
        by_name = dict(zip(self.same, rows, strict=True))
        pipelines = tuple(self.pipelining.row(pipeline, by_name) for pipeline in self.pipelines)
        if pipelines:
            rows = list(self.pipelining.leaking(by_name).values())
        actions = [row for einsum_rows in rows for row in einsum_rows.actions]
        latencies = [row for einsum_rows in rows for row in einsum_rows.latencies]
        arch = self.archs[self.workload.einsums[0].name]
        return Cost(
            energy=math.fsum(row.energy for row in actions),
            latency=self.latency(rows),
            area=arch.total_area,
            actions=tuple(actions),
            latencies=tuple(latencies),
            memory_usage=tuple(
                MemoryUsageRow(name, _fraction(usage[name].bits, self.size_bits(name)) if name in usage else 0.0)
                for name, c in arch.components.items()
                if isinstance(c, Memory)
            ),
            memory_usage_by_tensor=_by_tensor(buffers),
            spatial_usage=tuple(row for einsum_rows in rows for row in einsum_rows.spatial),
            components=tuple(_component_row(name, c, arch) for name, c in arch.components.items()),
            semantics=self.rules.name,
            longer=tuple(row.longer for row in rows if row.longer is not None),
            together=() if pipelines or not self.overlaps else self.overlap.limited_by(),
            pipelines=pipelines,
            tiles=tuple(row for rows in self.tiles.values() for row in rows),
            notes=tuple(dict.fromkeys(self.notes)),
        )

    @cached_property
    def pipelining(self) -> Pipelining:
        """How long the Pipelines take."""
        return Pipelining(self.pipelines, self.every_path)

    def latency(self, rows: list[Rows]) -> float:
        """Seconds of all Einsums: one after the other, or fused ones as far as they overlap."""
        if self.pipelines:
            return self.pipelining.latency(dict(zip(self.same, rows, strict=True)))
        return self.overlap.latency() if self.overlaps else math.fsum([einsum_rows.latency for einsum_rows in rows])

    @property
    def overlaps(self) -> bool:
        """Whether fused Einsums overlap."""
        return self.spec.model_options.overlap_einsums

    @cached_property
    def overlap(self) -> Overlap:
        """How long fused Einsums take that overlap."""
        instances = {e.name: self.workload.n_instances * e.n_instances for e in self.workload.einsums}
        return Overlap(self.tree, {name: self.traffic[name] for name in self.order}, instances)

    def size_bits(self, name: str) -> float:
        """The largest size of a memory, whose expression may give another one for each Einsum."""
        archs = {name: bound.arch for name, bound in self.spec.bound.items() if bound.like == name}
        return max(m.size_bits for a in archs.values() if isinstance(m := a.components[name], Memory))

    def refuse(self, component: str, what: str, value: float) -> None:
        """Raise SpecError for an infinite or undefined number of a component."""
        raise SpecError(
            f"the {what} of {component!r} is {value}: its numbers are too large, too small or infinite",
            at=self.spec.place_of_component(component),
            hint="look at its energy, throughput, leak_power, scales and total_latency",
        )

    def rows(self) -> list[Rows]:
        """The rows of all Einsums."""
        looked_at = {name: self.counted(name) for name in self.firsts}
        values = [(row.component, "energy", row.energy) for rows in looked_at.values() for row in rows.actions]
        values += [(row.component, "latency", row.latency) for rows in looked_at.values() for row in rows.latencies]
        for component, what, value in values:
            if not math.isfinite(value):
                self.refuse(component, what, value)
        return [
            looked_at[name] if first == name else looked_at[first].renamed(self.renamings[name])
            for name, first in self.same.items()
        ]

    def counted(self, name: str) -> Rows:
        instances = self.workload.n_instances * self.workload.by_name[name].n_instances
        return rows_of(
            self.traffic[name],
            instances,
            self.spec.place_of_component,
            self.ways.get(name, Way()),
            self.sparsity.get(name),
        )

    @cached_property
    def ways(self) -> dict[str, Way]:
        """How long values of each Einsum are on their way, none where that takes no time."""
        return ways_of(self.tree, self.traffic, self.order, self.spec.bindings.waiting)


def _component_row(name: str, unit: Component, arch: Architecture) -> ComponentRow:
    instances = arch.instances[name]
    area = None if unit.area is None else unit.area * instances
    return ComponentRow(name, instances, area, unit.leak_power * instances)


def _fraction(bits: float, size: float) -> float:
    return 0.0 if math.isinf(size) or not bits else bits / size


def _by_tensor(buffers: Mapping[str, tuple[Buffer, ...]]) -> tuple[TensorUsageRow, ...]:
    usages: dict[tuple[str, str, str], float] = {}
    for group in buffers.values():
        for b in group:
            key = (b.einsum, b.memory.name, b.tensor)
            usages[key] = usages.get(key, 0.0) + _fraction(b.bits, b.memory.size_bits)
    return tuple(TensorUsageRow(*key, part) for key, part in usages.items() if part)
