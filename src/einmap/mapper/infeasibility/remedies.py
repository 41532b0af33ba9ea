"""All single changes of an architecture path that might leave a mapping: capacities, fanouts, constraints."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Any

from einmap.arch.component import Compute, Holder, Leaf, Memory, SpatialDimension, Toll
from einmap.arch.constraint import Comparison, DeferredSet, Names, Placement
from einmap.arch.tree import Architecture, outermost_memory
from einmap.einsum.einsum import Einsum
from einmap.errors import EinmapError, ExpressionError
from einmap.mapper.infeasibility.remedy_steps import (
    DROPPED,
    MOST_TRIED,
    Candidate,
    Edit,
    Ladder,
    RelaxationStep,
    Settings,
    Size,
)
from einmap.numbers import divisors
from einmap.spec.binding.symbols import union_text
from einmap.spec.raw import Path, format_path
from einmap.spec.spec import Spec

MOST_PRODUCTS = 4096
"""Products of divisors that are looked at."""
WIDEST = 64
"""Fanouts are enlarged up to this factor."""

type Edited[T] = Callable[[T], T]


@dataclass(frozen=True)
class Candidates:
    """The changes on the path to one compute of `arch`, as the specification has it."""

    spec: Spec
    einsum: Einsum
    arch: Architecture
    compute: str
    force_hierarchy_order: bool = True

    def all(self) -> Iterator[Candidate]:
        """The ones that are answered fast come first."""
        leaves = self.arch.path(self.compute)
        outer = outermost_memory(leaves)
        for leaf in leaves:
            if isinstance(leaf, Memory) and leaf.enabled and math.isfinite(leaf.size_bits):
                yield Size(self.name(leaf, "size"), leaf.name, leaf is outer)
        if self.force_hierarchy_order and sum(isinstance(leaf, Memory) for leaf in leaves) > 2:
            yield self.any_order(leaves)
        # `enabled` of a compute is not asked where the Einsum names its computes
        chosen = self.einsum.computes
        for leaf in leaves:
            if isinstance(leaf, Memory | Compute) and not leaf.enabled and not (chosen and isinstance(leaf, Compute)):
                yield self.enabling(leaf)
            if isinstance(leaf, Memory | Toll) and leaf.enabled:
                yield from self.placements(leaf)
        for leaf in leaves:
            for position in range(len(leaf.spatial)):
                yield from self.dimension(leaf, position)
        # more lanes make for more work: these questions take longest
        for leaf in leaves:
            for position in range(len(leaf.spatial)):
                yield self.fanout(leaf, position)

    # places

    def path(self, leaf: Leaf) -> Path:
        """Where a component is written."""
        return next(
            leaf_inputs.path for leaf_inputs in self.spec.arch_inputs.leaves if leaf_inputs.given.name == leaf.name
        )

    def name(self, leaf: Leaf, *field: str | int) -> str:
        """Path of a field as `Spec.set` takes it."""
        return format_path((*self.path(leaf), *field))

    def written(self, path: str) -> Any:
        """Value written there, None if nothing is."""
        try:
            return self.spec.get(path)
        except EinmapError:
            return None

    def enabling(self, leaf: Memory | Compute) -> Candidate:
        """A component that is not enabled for the Einsum."""
        name = self.name(leaf, "enabled")
        step = RelaxationStep(
            _editing(leaf.name, lambda old: replace(old, enabled=True)), DROPPED, "true", ((name, True),)
        )
        return Ladder(name, (step,), step.edit, rising=True)

    def any_order(self, leaves: Sequence[Leaf]) -> Candidate:
        """Storage nodes may stand against the hierarchy."""
        name = "mapper.force_memory_hierarchy_order"

        def edit(arch: Architecture) -> Architecture:
            for leaf in leaves:
                if isinstance(leaf, Memory):
                    arch = arch.with_leaf(_place(arch.find(leaf.name), force_hierarchy_order=False))
            return arch

        return Ladder(name, (RelaxationStep(edit, DROPPED, "false", ((name, False),)),), edit, rising=True)

    # what holders keep

    def placements(self, leaf: Holder) -> Iterator[Candidate]:
        """Constraints under `tensors`."""
        assert leaf.placement is not None
        if isinstance(leaf, Memory) and leaf.placement.order_options:
            yield self.dropping(leaf, "tensor_order_options", [], lambda old: replace(old, order_options=()))
        yield from self.tensor_sets(leaf, leaf.placement)
        for position, limit in enumerate(leaf.placement.tile_shape):
            yield self.limit(
                limit, (leaf, "tensors", "tile_shape", position), lambda old, limits: _place(old, tile_shape=limits)
            )

    def dropping(self, leaf: Holder, field: str, value: object, edited: Edited[Placement]) -> Candidate:
        """One constraint that may be left out."""
        name = self.name(leaf, "tensors", field)
        edit = _placing(leaf.name, edited)
        step = RelaxationStep(edit, DROPPED, "left out", ((name, value),))
        return Ladder(name, (step,), edit, rising=True)

    def tensor_sets(self, leaf: Holder, placement: Placement) -> Iterator[Candidate]:
        """Tensors that might be let go, held, or fetched again."""
        fields: list[tuple[str, DeferredSet]] = [("keep", placement.keep)]
        if isinstance(leaf, Memory):
            fields.append(("back", placement.back))
        fields.append(("no_refetch_from_above", placement.no_refetch_from_above))
        fields.append(("no_resend_to_below", placement.no_resend_to_below))
        for field, tensors in fields:
            some = self.members(leaf, tensors)[0]
            if some:
                yield self.tensors(leaf, field, some, _relaxed(field, some))
        if isinstance(leaf, Memory):
            held = self.members(leaf, placement.keep)[1] | self.members(leaf, placement.may_keep)[1]
            if missing := self.einsum.tensors - held:
                relaxed = partial(_adjust, field="may_keep", more=missing)
                yield self.tensors(leaf, "may_keep", missing, relaxed, more=True)

    def members(self, leaf: Holder, tensors: DeferredSet) -> tuple[Names, Names]:
        """The Einsum's tensors that may be in a set, and those that always are, whatever is held above."""
        path = self.arch.path(self.compute)
        above = [holder.name for holder in path[: path.index(leaf)] if isinstance(holder, Memory | Toll)]
        some, always = frozenset[str](), self.einsum.tensors
        for held in (frozenset[str](), self.einsum.tensors):
            try:
                members = tensors.given(dict.fromkeys(above, held)) & self.einsum.tensors
            except ExpressionError:
                return self.einsum.tensors, frozenset()
            some, always = some | members, always & members
        return some, always

    def tensors(
        self, leaf: Holder, field: str, some: Names, relaxed: Edited[Placement], *, more: bool = False
    ) -> Candidate:
        """One tensor less in a field (or more), or two, and so on."""
        name = self.name(leaf, "tensors", field)
        source = self.written(name)
        if source is None:
            keep = self.written(self.name(leaf, "tensors", "keep"))
            source = "All" if field == "may_keep" and keep is None else "Nothing"
        steps = []
        for chosen in _subsets([a.tensor for a in self.einsum.accesses if a.tensor in some]):
            nothing = frozenset[str]()
            less_more = (nothing, chosen) if more else (chosen, nothing)
            change = partial(_adjust, field=field, less=less_more[0], more=less_more[1])
            steps.append(_tensor_step(_placing(leaf.name, change), chosen, name, source, more))
        return Ladder(name, tuple(steps), _placing(leaf.name, relaxed), rising=False)

    # limits

    def limit(
        self, limit: Comparison, place: tuple[Any, ...], edited: Callable[[Any, tuple[Comparison, ...]], Any]
    ) -> Candidate:
        """A comparison with another value, or left out. `place`: leaf, fields of the list, position in it."""
        leaf, *fields, position = place
        name, whole = self.name(leaf, *fields, position), self.name(leaf, *fields)
        listed = list(self.written(whole) or ())
        limits = _limits_of(leaf, fields)

        def edit(*instead: Comparison) -> Edit:
            changed = (*limits[:position], *instead, *limits[position + 1 :])
            return _editing(leaf.name, lambda old: edited(old, changed))

        values, rising = self.values_for(limit)
        steps = [
            RelaxationStep(
                edit(replace(limit, value=value, values=(*limit.values, value) if limit.values else ())),
                _ratio(value, limit.value),
                f"{limit.operator} {[*limit.values, value] if limit.values else value} instead of {limit.text}",
                ((f"{name}.value", [*limit.values, value] if limit.values else value),),
            )
            for value in values
        ]
        rest: Settings = ((whole, [*listed[:position], *listed[position + 1 :]]),)
        steps.append(RelaxationStep(edit(), DROPPED, f"without {limit.text}", rest))
        return Ladder(name, tuple(steps), edit(), rising)

    def values_for(self, limit: Comparison) -> tuple[list[int], bool]:
        """Values that make a difference, nearest first, and whether each admits what the ones before it admit."""
        bounds = [b for v, b in self.einsum.bounds if v in limit.variables]
        reached = products(bounds) if limit.is_product else sorted({d for b in bounds for d in divisors(b)})
        match limit.comparison:
            case "<=":
                return [v for v in reached if v > limit.value], True
            case "<":
                return [v + 1 for v in reached if v + 1 > limit.value], True
            case ">=":
                return [v for v in reversed(reached) if v < limit.value], True
            case ">":
                return [v - 1 for v in reversed(reached) if v - 1 < limit.value], True
            case _:
                known = limit.values or (limit.value,)
                others = sorted((v for v in reached if v not in known), key=lambda v: (_ratio(v, limit.value), v))
                return others[: MOST_TRIED - 1], False

    # fanouts

    def dimension(self, leaf: Leaf, position: int) -> Iterator[Candidate]:
        """Constraints of one fanout dimension."""
        d = leaf.spatial[position]
        place = ("spatial", position)
        for i, limit in enumerate(d.loop_bounds):
            yield self.limit(
                limit,
                (leaf, *place, "loop_bounds", i),
                lambda old, limits: _with_dimension(old, position, loop_bounds=limits),
            )
        if reused := d.reuse & self.einsum.tensors:
            yield self.reuse(leaf, position, reused)
        reached = products([b for _, b in self.einsum.bounds])
        if d.min_usage > 0:
            usages = [n / d.fanout * d.usage_scale for n in reversed(reached) if n <= d.fanout]
            least = [*(u for u in usages if u < d.min_usage), 0.0]
            yield self.numbers(leaf, position, "min_usage", d.min_usage, least)
        if d.usage_scale > 1:
            scales = [_at_most(d.fanout / n, n, d.fanout) for n in reached if n <= d.fanout]
            yield self.numbers(leaf, position, "usage_scale", d.usage_scale, [s for s in scales if s < d.usage_scale])

    def numbers(self, leaf: Leaf, position: int, field: str, present: float, values: Sequence[float]) -> Ladder:
        """A number of a dimension with other values, nearest first."""
        name = self.name(leaf, "spatial", position, field)
        steps = tuple(
            RelaxationStep(
                _editing(leaf.name, partial(_with_dimension, position=position, **{field: value})),
                _ratio(value, present),
                f"{value:g} instead of {present:g}",
                ((name, value),),
            )
            for value in values
        )
        # with a least usage a change may rule out what it admitted before
        rising = field == "min_usage" or leaf.spatial[position].min_usage == 0
        return Ladder(name, steps, steps[-1].edit if steps and rising else None, rising)

    def fanout(self, leaf: Leaf, position: int) -> Candidate:
        """A larger fanout: as many lanes as products of divisors can use."""
        d = leaf.spatial[position]
        reached = products([b for _, b in self.einsum.bounds])
        sizes = sorted({max(n, math.ceil(n * d.usage_scale)) for n in reached})
        return self.numbers(leaf, position, "fanout", d.fanout, [n for n in sizes if d.fanout < n <= d.fanout * WIDEST])

    def reuse(self, leaf: Leaf, position: int, reused: Names) -> Candidate:
        """Tensors that lanes need not have in common."""
        name = self.name(leaf, "spatial", position, "reuse")
        source = self.written(name)

        def edit(less: Names) -> Edit:
            return _editing(
                leaf.name, lambda old: _with_dimension(old, position, reuse=old.spatial[position].reuse - less)
            )

        subsets = _subsets([a.tensor for a in self.einsum.accesses if a.tensor in reused])
        steps = tuple(_tensor_step(edit(chosen), chosen, name, source, False) for chosen in subsets)
        return Ladder(name, steps, edit(reused), rising=False)


def products(bounds: Sequence[int]) -> list[int]:
    """All products of divisors of some numbers, sorted; the smallest ones where there are very many."""
    reached = {1}
    for bound in bounds:
        reached = set(sorted({a * d for a in reached for d in divisors(bound)})[:MOST_PRODUCTS])
    return sorted(reached)


def _editing(name: str, edited: Callable[[Any], Any]) -> Edit:
    """A change of one component of whatever architecture it is applied to."""
    return lambda arch: arch.with_leaf(edited(arch.find(name)))


def _placing(name: str, edited: Edited[Placement]) -> Edit:
    """A change of what one memory or toll keeps."""
    return _editing(name, lambda old: replace(old, placement=edited(old.placement)))


def _with_dimension(leaf: Any, position: int, **changes: Any) -> Any:
    spatial: tuple[SpatialDimension, ...] = leaf.spatial
    changed = replace(spatial[position], **changes)
    return replace(leaf, spatial=(*spatial[:position], changed, *spatial[position + 1 :]))


def _place(leaf: Any, **changes: Any) -> Any:
    return replace(leaf, placement=replace(leaf.placement, **changes))


def _adjust(placement: Placement, field: str, less: Names = frozenset(), more: Names = frozenset()) -> Placement:
    changes: dict[str, Any] = {field: getattr(placement, field).adjusted(less, more)}
    return replace(placement, **changes)


def _relaxed(field: str, some: Names) -> Edited[Placement]:
    """Constraint that admits most: tensors that need not be held may be."""
    if field in ("keep", "back"):
        return lambda old: _adjust(_adjust(old, field, less=some), "may_keep", more=some)
    return partial(_adjust, field=field, less=some)


def _limits_of(leaf: Leaf, fields: Sequence[Any]) -> tuple[Comparison, ...]:
    if fields[0] == "spatial":
        dimension: SpatialDimension = leaf.spatial[fields[1]]
        return dimension.loop_bounds
    assert isinstance(leaf, Memory | Toll)
    assert leaf.placement is not None
    return leaf.placement.tile_shape


def _subsets(tensors: Sequence[str]) -> Iterator[Names]:
    for n in range(1, len(tensors) + 1):
        for chosen in combinations(tensors, n):
            yield frozenset(chosen)


def _tensor_step(edit: Edit, chosen: Names, name: str, source: object, more: bool) -> RelaxationStep:
    """Some tensors less or more in a set."""
    old = union_text(source)
    names = " | ".join(sorted(chosen))
    value = f"({old}) | {names}" if more else f"({old}) - ({names})"
    shown = " and ".join(sorted(chosen))
    return RelaxationStep(edit, 1.0 + len(chosen), f"{'with' if more else 'without'} {shown}", ((name, value),))


def _ratio(a: float, b: float) -> float:
    """How far two numbers are apart; with 0 as far as a constraint from none."""
    low, high = sorted((a, b))
    return high / low if low > 0 else DROPPED


def _at_most(scale: float, lanes: int, fanout: int) -> float:
    """The largest scale with which so many lanes are a usage of 1 at most."""
    while lanes / fanout * scale > 1:
        scale = math.nextafter(scale, 0)
    return scale
