"""Capabilities of searches: the features that are asked about, and the pairs that no search knows yet.

Whatever is neither in UNKNOWN nor in REFUSED_LATER is searched; docs/mapper.md shows both, and a test draws every pair
of features.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise

from einmap.arch.component import Component, Memory, is_carrying
from einmap.arch.tree import outermost_memory
from einmap.errors import At, NotSupportedError
from einmap.mapper.objective.metrics import OF_ENERGY_AND_LATENCY
from einmap.mapper.problem.options import units_of
from einmap.mapper.problem.problem import Problem
from einmap.mapper.problem.searchable import why_not_fused
from einmap.model.timing.buffering import turns
from einmap.model.timing.stalls import stalling
from einmap.model.timing.ways import has_ways
from einmap.sparse.known import Known
from einmap.spec.spec import Spec


def first(call: Problem, wanted: Callable[[Component], bool]) -> str | None:
    """The first component of a kind."""
    return next((name for name, unit in units_of(call.spec) if wanted(unit)), None)


@dataclass(frozen=True)
class Feature:
    """Something of a specification or a call that not every search knows.

    `words`: how a sentence names it. `of`: the component, Einsum or metric that has it, True for the whole of a call;
    None or False where the call does not have it. `field`: the one that says so, of a component or, as a whole path, of
    the specification.
    """

    words: str
    of: Callable[[Problem], str | bool | None]
    field: str = ""


@dataclass(frozen=True)
class Unknown:
    """Two features that no search knows together, and why. `hint`: what a user may do."""

    feature: str
    other: str
    why: str
    hint: str = "leave one of the two out"

    @property
    def sentence(self) -> str:
        """The sentence that a user reads, without names of components."""
        return f"the mapper does not know {FEATURES[self.feature].words} with {FEATURES[self.other].words} yet"


def refuse_unknown(call: Problem) -> None:
    """Raise NotSupportedError for the first pair of UNKNOWN that a call has both features of."""
    present: dict[str, str | bool | None] = {}

    def of(name: str) -> str | bool | None:
        if name not in present:
            present[name] = FEATURES[name].of(call)
        return present[name]

    for row in UNKNOWN:
        if of(row.feature) and of(row.other):
            named = {feature: name for feature in (row.feature, row.other) if isinstance(name := of(feature), str)}
            names = f" ({', '.join(map(repr, dict.fromkeys(named.values())))})" if named else ""
            places = [_place(call.spec, of(feature), FEATURES[feature].field) for feature in (row.feature, row.other)]
            stage = (
                call.given_stage.at
                if call.given_stage is not None and "pipelines" in (row.feature, row.other)
                else None
            )
            at = next((place for place in places if place is not None), stage)
            raise NotSupportedError(f"{row.sentence}{names}: {row.why}", at=at, hint=row.hint)


def _place(spec: Spec, name: str | bool | None, field: str) -> At | None:
    """Where an Einsum or a component, or a field of it or of the specification, is written; None for other names."""
    if not isinstance(name, str):
        return spec.provenance(field) if field else None
    if name in spec.workload.by_name:
        return spec.place_of_einsum(name)
    is_component = any(leaf.given.name == name for leaf in spec.arch_inputs.leaves)
    return spec.place_of_component(name, field) if is_component else None


def _recurrence(call: Problem) -> str | None:
    return next((found.einsums[0] for found in call.spec.workload.recurrences), None)


def _is_gated(call: Problem) -> bool:
    """Whether components that leak may be switched off."""
    archs = [call.spec.arch(einsum.name) for einsum in call.spec.workload.einsums]
    gated = any(d.power_gateable for arch in archs for leaf in arch.leaves.values() for d in leaf.spatial)
    gated |= any(fork.forked_power_gateable or fork.non_forked_power_gateable for arch in archs for fork in arch.forks)
    return gated and any(unit.leak_power for arch in archs for unit in arch.components.values())


def _common_network(call: Problem) -> str | None:
    """A network that all stages of a Pipeline would cross."""
    # Here, not above: it is part of a search that few calls ask for
    from einmap.mapper.pipelined.placements import placements

    archs = {einsum.name: call.spec.arch(einsum.name) for einsum in call.spec.workload.einsums}
    if any(any(placements(((a,), (b,)), archs)) for a, b in pairwise(call.spec.workload.einsums)):
        return None
    return first(call, is_carrying)


def _by_trying(call: Problem) -> str | None:
    """An Einsum of which tables do not know what it costs."""
    einsums = call.spec.workload.einsums
    return next(
        (e.name for e in einsums if why_not_fused(e, call.spec.arch(e.name), ("energy", "latency")) is not None), None
    )


def _too_small(call: Problem) -> bool:
    """Whether the outermost memory has no room for all tensors at a time."""
    bits: dict[str, float] = {}
    sizes: dict[str, float] = {}
    for einsum in call.spec.workload.einsums:
        arch = call.spec.arch(einsum.name)
        for unit in arch.computes:
            memory = outermost_memory(arch.path(unit.name)) if unit.enabled else None
            if isinstance(memory, Memory):
                sizes[memory.name] = memory.size_bits
                for access in einsum.accesses:
                    needed = access.footprint(dict(einsum.bounds)) * memory.bits[access.tensor]
                    bits[access.tensor] = max(bits.get(access.tensor, 0.0), needed)
    return math.fsum(bits.values()) > min(sizes.values(), default=math.inf)


def _outermost_units(call: Problem) -> str | None:
    """A memory of several units with nothing above it."""
    for einsum in call.spec.workload.einsums:
        arch = call.spec.arch(einsum.name)
        for unit in arch.computes:
            memory = outermost_memory(arch.path(unit.name))
            if isinstance(memory, Memory) and memory.is_spread:
                return memory.name
    return None


def _known_zeros(call: Problem) -> bool:
    """Whether zeros that change costs are known by their places."""
    zeros = [sparsity for sparsity in call.spec.sparsity.values() if sparsity.saves]
    return any(isinstance(density, Known) for sparsity in zeros for density in sparsity.densities.values())


def _no_sums(call: Problem) -> str | None:
    """A metric that is not made of energy and latency."""
    return next((goal for goal in call.options.goals if goal not in OF_ENERGY_AND_LATENCY), None)


FEATURES: Mapping[str, Feature] = {
    "accelforge": Feature("the preset accelforge", lambda call: call.options.rules.lifetimes != "tree"),
    "imperfect": Feature("imperfect factors", lambda call: call.options.uneven_loops or call.options.uneven_lanes),
    "given": Feature("a given mapping", lambda call: bool(call.given)),
    "unfused": Feature("fusion switched off", lambda call: not call.fuse),
    "brute force": Feature("brute force", lambda call: call.options.brute_force),
    "pipelines": Feature(
        "Pipelines (max_pipeline_stages)", lambda call: call.options.most_stages > 1 or call.given_stage is not None
    ),
    "recurrence": Feature("a recurrence", _recurrence),
    "network": Feature("a network", lambda call: first(call, is_carrying)),
    "common network": Feature("a network that all stages cross", _common_network),
    "units": Feature(
        "a memory of several units", lambda call: first(call, lambda unit: isinstance(unit, Memory) and unit.is_spread)
    ),
    "outermost units": Feature("an outermost memory of several units", _outermost_units),
    "stalls": Feature(
        "stalls: tile_by_tile",
        lambda call: first(call, lambda unit: isinstance(unit, Memory) and bool(stalling((unit,)))),
        "stalls",
    ),
    "turns": Feature(
        "a memory that takes turns (single, wind_up)",
        lambda call: first(call, lambda unit: isinstance(unit, Memory) and bool(turns((unit,)))),
    ),
    "wind_up": Feature("wind_up", lambda call: first(call, lambda unit: isinstance(unit, Memory) and unit.wind_up)),
    "ways": Feature("a pipeline_latency", lambda call: first(call, lambda unit: has_ways((unit,)))),
    "overlap": Feature(
        "overlap_einsums", lambda call: call.spec.model_options.overlap_einsums, "model.overlap_einsums"
    ),
    "sliding window": Feature(
        "sliding_window", lambda call: call.spec.model_options.sliding_window, "model.sliding_window"
    ),
    "resource_usage": Feature("the metric resource_usage", lambda call: "resource_usage" in call.options.goals),
    "no sums": Feature("a metric other than energy, latency and their product", _no_sums),
    "several": Feature("several Einsums", lambda call: len(call.spec.workload.einsums) > 1),
    "gathers": Feature(
        "rows that are looked up", lambda call: next((e.name for e in call.spec.workload.einsums if e.gathers), None)
    ),
    "persistent": Feature(
        "persistent tensors",
        lambda call: any(a.persistent for e in call.spec.workload.einsums for a in e.accesses),
    ),
    "gated": Feature("leakage that is gated", _is_gated),
    "by trying": Feature("an Einsum that is searched mapping by mapping", _by_trying),
    "too small": Feature("an outermost memory that is too small for all tensors", _too_small),
    "layout": Feature(
        "a layout", lambda call: first(call, lambda unit: isinstance(unit, Memory) and bool(unit.layouts)), "layout"
    ),
    "startup": Feature(
        "a startup", lambda call: first(call, lambda unit: any(a.startup for a in getattr(unit, "actions", ())))
    ),
    "partial sums": Feature(
        "partial_bits_per_value", lambda call: any(e.partial_bits for e in call.spec.workload.einsums)
    ),
    "leaks": Feature("leakage or refresh", lambda call: first(call, lambda unit: bool(unit.constant_power))),
    "coarse": Feature("tiling_coarseness", lambda call: call.options.coarseness != 1),
    "search": Feature("a search", lambda _call: True),
    "zeros": Feature("zeros of tensors", lambda call: call.has_zeros, "sparsity"),
    "zeros of several": Feature(
        "zeros of tensors in a cascade", lambda call: call.has_zeros and len(call.spec.workload.einsums) > 1, "sparsity"
    ),
    "known zeros": Feature("zeros that are known position by position", _known_zeros, "sparsity.densities"),
}
"""By a short name."""

_EVALUATE = "map without it, then evaluate the mapping found with it"
_DENSE = "leave out the key sparsity, or map each Einsum by itself"
_STAGES = "leave out max_pipeline_stages, and Pipelines that are given"
UNKNOWN: tuple[Unknown, ...] = (
    Unknown("search", "sliding window", "what a window keeps depends on the loops above it", _EVALUATE),
    Unknown(
        "resource_usage",
        "several",
        "it is not a sum over Einsums",
        "map a workload of one Einsum, or leave resource_usage out",
    ),
    Unknown("network", "accelforge", "that preset counts hops of each tensor on its own", _EVALUATE),
    Unknown("stalls", "imperfect", "turns of ragged tiles are not alike", _EVALUATE),
    Unknown("stalls", "brute force", "turns are counted for the orders of loops that tables list", _EVALUATE),
    Unknown("stalls", "pipelines", "stages have no turns of their own", _EVALUATE),
    Unknown("stalls", "ways", "a turn would begin before the last one's values are there", _EVALUATE),
    Unknown("stalls", "given", "turns are counted for the orders of loops that tables list", _EVALUATE),
    Unknown("units", "accelforge", "that preset has one unit for each memory", "map without it"),
    Unknown("units", "imperfect", "units that are partly idle are not told apart", "map without it"),
    Unknown("outermost units", "several", "each Einsum might look for it in other units", "map without it"),
    Unknown("given", "imperfect", "places for loops are filled with factors that divide"),
    Unknown("pipelines", "accelforge", "that preset runs Einsums one after the other", _STAGES),
    Unknown("pipelines", "imperfect", "tiles of stages must be alike", _STAGES),
    Unknown("pipelines", "brute force", "divisions of the hardware have tables only", _STAGES),
    Unknown("pipelines", "no sums", "fronts of stages hold energy and latency", _STAGES),
    Unknown("pipelines", "common network", "it would be busy with several stages at a time", _STAGES),
    Unknown("pipelines", "units", "stages might look for a tile in other units", _STAGES),
    Unknown("pipelines", "turns", "who waits for whom is known within one stage only", _STAGES),
    Unknown("pipelines", "gated", "what one stage switches off another one may need", _STAGES),
    Unknown("pipelines", "by trying", "fronts of stages are made by tables", _STAGES),
    Unknown("pipelines", "gathers", "rows come in an order that only values tell", _STAGES),
    Unknown("pipelines", "persistent", "stages exchange through the outermost memory", _STAGES),
    Unknown("pipelines", "too small", "stages exchange through it", _STAGES),
    Unknown("recurrence", "accelforge", "that preset keeps no state from one step to the next"),
    Unknown("recurrence", "brute force", "its Einsums run below one loop over the steps"),
    Unknown("recurrence", "resource_usage", "it is not a sum over Einsums"),
    Unknown("recurrence", "pipelines", "a step waits for the one before"),
    Unknown("recurrence", "ways", "a step waits for values that are on their way"),
    Unknown("recurrence", "stalls", "Einsums that share loops have no turns of their own"),
    Unknown("search", "known zeros", "a tile costs what is at its place", "give densities without seed, band and file"),
    Unknown("zeros of several", "brute force", "savings of one Einsum are tried, not of a cascade", _DENSE),
    Unknown("zeros of several", "overlap", "latencies of Einsums are added up", _DENSE),
    Unknown("zeros of several", "ways", "latencies of Einsums are added up", _DENSE),
    Unknown("zeros", "recurrence", "what a step has of zeros depends on the steps before it", _DENSE),
    Unknown("zeros", "accelforge", "that preset counts values as dense"),
    Unknown("zeros", "imperfect", "tiles that are not alike have other zeros"),
    Unknown("zeros", "coarse", "all tile shapes are looked at"),
    Unknown("zeros", "given", "every mapping is looked at, without places for what is open"),
    Unknown("zeros", "pipelines", "stages are searched by tables, which do not know them", _STAGES),
    Unknown("zeros", "no sums", "it counts energy and latency"),
    Unknown("zeros", "stalls", "turns are of dense tiles"),
)
"""In the order in which they are looked for."""
REFUSED_LATER: tuple[Unknown, ...] = (
    Unknown("stalls", "accelforge", "turns are those of the preset exact"),
    Unknown("overlap", "accelforge", "that preset runs Einsums one after the other"),
    Unknown("layout", "accelforge", "that preset moves single values"),
    Unknown("partial sums", "accelforge", "that preset has one width for each tensor"),
    Unknown("network", "overlap", "several Einsums would share its links"),
    Unknown("network", "partial sums", "a network has one width for each tensor"),
    Unknown("units", "stalls", "turns are known for one unit only"),
    Unknown("units", "turns", "turns are known for one unit only"),
    Unknown("units", "startup", "accesses of several units are counted together"),
    Unknown("units", "partial sums", "units have one width for each tensor"),
    Unknown("stalls", "turns", "each tells in its own way who waits"),
    Unknown("stalls", "overlap", "Einsums that overlap have no turns of their own"),
    Unknown("stalls", "layout", "a turn has no lines of its own"),
    Unknown("stalls", "startup", "a turn has no transfers of its own"),
    Unknown("turns", "overlap", "Einsums that overlap have no turns of their own"),
    Unknown("wind_up", "partial sums", "what winds up has one width for each tensor"),
    Unknown("ways", "overlap", "what is on its way would belong to several Einsums"),
    Unknown("overlap", "leaks", "it belongs to one Einsum at a time"),
    Unknown("recurrence", "overlap", "a step waits for the one before"),
    Unknown("layout", "partial sums", "lines have one width for each tensor"),
    Unknown("given", "brute force", "every mapping is tried, without places for what is open"),
    Unknown("given", "units", "units are searched without places for what is open"),
    Unknown("given", "by trying", "every mapping is tried, without places for what is open"),
    Unknown("brute force", "imperfect", "it tries factors that divide"),
    Unknown("brute force", "coarse", "it tries all factors that divide"),
    Unknown("brute force", "no sums", "it counts energy and latency"),
    Unknown("recurrence", "units", "fused Einsums would look for a tile in other units"),
    Unknown("recurrence", "by trying", "its Einsums are searched by tables"),
    Unknown("stalls", "by trying", "turns are counted for the orders of loops that tables list"),
    Unknown("resource_usage", "by trying", "it counts energy and latency"),
    *(
        Unknown("zeros", other, "the model does not know it beside zeros")
        for other in ("network", "units", "turns", "layout", "startup", "partial sums", "gathers")
    ),
)
"""Those that the model, or the search of an Einsum, refuses by itself, in its own words."""
