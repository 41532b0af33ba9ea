"""Levels of Timeloop as an architecture: memories, fanouts and the compute unit, with classes of component models."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from einmap.components.base import AttributeValue
from einmap.errors import At, Note, SpecError, did_you_mean
from einmap.expressions.scope import Scope
from einmap.frontends.foreign import Report, a_flag, a_number, a_text, an_integer, named
from einmap.frontends.timeloop.components import (
    MODEL_ATTRIBUTES,
    TECHNOLOGY,
    Energies,
    Prices,
    energy_of,
    technology_of,
)
from einmap.frontends.timeloop.constraints import DATASPACE, KINDS, Directive, Kept, factors, kept, place
from einmap.frontends.timeloop.fanout_limits import KEYS as SPATIAL
from einmap.frontends.timeloop.fanout_limits import Limit, Spread
from einmap.frontends.timeloop.levels import Level
from einmap.frontends.timeloop.names import identifier
from einmap.frontends.timeloop.problem import Problem
from einmap.spec.raw import RawList, RawMap, RawScalar, from_python

CYCLE = 1e-9
"""Seconds of a cycle where no component says so."""
WIDTH = 8
"""Bits of a word where a component does not say."""
APART = ("no_multicast_no_reduction", "no_reuse")
"""Constraints of copies that share nothing: true, or a list of data spaces."""
_QUIET: Mapping[str, tuple[object, ...]] = {
    "cluster_size": (1,),
    "cluster-size": (1,),
    "reduction_supported": (True,),
    "multiple_buffering": (1,),
    "min_utilization": (0,),
    "allow_overbooking": (False,),
    "has_power_gating": (False,),
    "num_ports": (1, 2),
    "nports": (1, 2),
    "instances": (1,),
}
"""Attributes of which these values say nothing that is left out."""
_READ = frozenset(
    (
        *("width", "memory_width", "datawidth", "data_width", "word-bits", "word_bits", "block-size", "block_size"),
        *(
            "depth",
            "memory_depth",
            "data_storage_depth",
            "data_storage_width",
            "entries",
            "sizeKB",
            "meshX",
            "meshY",
            "name",
            "version",
            "type",
        ),
        *("read_bandwidth", "write_bandwidth", "read-bandwidth", "write-bandwidth", "bandwidth"),
        *("technology", "global_cycle_seconds", "cycle_time", "n_banks", "power_gated_at"),
        *("multiplier_width", "adder_width"),
        *("metadata_datawidth", "metadata_storage_width"),
    )
)


TOTAL_LATENCY = "max(a.n_calls / a.throughput for a in actions)"
"""The time of a memory of Timeloop's, whose reads and writes go on at one time."""


@dataclass(frozen=True, slots=True)
class Machine:
    """An architecture and what mappings need to know of it.

    `components`: names here by level; `kept`: data spaces that a level keeps by its constraints; `levels` in order.
    """

    raw: RawMap
    levels: tuple[Level, ...]
    components: Mapping[str, str]
    kept: Mapping[str, Kept]
    bits: int
    packs: bool = False
    """Whether zeros leave lanes free for others, so that a mapping may name more lanes than there are."""

    @property
    def compute(self) -> str:
        """The compute unit."""
        return self.components[self.levels[-1].name]


@dataclass(frozen=True, slots=True)
class Design:
    """Parts of an architecture: levels, classes of components, constraints, and the values of variables."""

    levels: tuple[Level, ...]
    prices: Prices
    constraints: Sequence[Directive]
    scope: Scope
    energies: Energies = field(default_factory=dict)


def machine_of(design: Design, problem: Problem | None, report: Report) -> Machine:
    """The architecture of a design. Raises SpecError with the place of what is wrong."""
    return _Builder(design, problem, report).machine(design.constraints)


def level_of(levels: Sequence[Level], target: str, kind: str) -> Level | None:
    """The level that a directive is about: a fanout for `spatial`, else a memory; None where there is none."""
    wanted = [level for level in levels if (level.kind == "fanout") == (kind == "spatial")]
    return next((level for level in wanted if target in level.targets), None)


class _Builder:
    def __init__(self, design: Design, problem: Problem | None, report: Report) -> None:
        self._levels = levels = design.levels
        self._prices = design.prices
        self._problem = problem
        self._report = report
        self._scope = design.scope
        self._energies = design.energies
        self._memories = [level for level in levels if level.kind == "memory"]
        self._components = _component_names(levels, () if problem is None else problem.tensors.values())
        self._bits = self._word(self._memories[0])

    def machine(self, constraints: Sequence[Directive]) -> Machine:
        for directive in constraints:
            self._check_known(directive)
        kept_by = self._kept(constraints)
        spatial = self._spatial(constraints)
        apart = self._apart(constraints)
        nodes: list[dict[str, object]] = []
        for level in self._levels:
            match level.kind:
                case "fanout":
                    nodes.append(self._container(level, spatial.get(level.name, {}), apart.get(level.name)))
                case "memory":
                    nodes.append(self._memory(level, kept_by.get(level.name)))
                case "compute":
                    nodes.append(self._compute(level))
        raw = from_python({"arch": {"nodes": nodes}})
        assert isinstance(raw, RawMap)
        return Machine(raw, self._levels, self._components, kept_by, self._bits)

    # constraints

    def _kept(self, constraints: Sequence[Directive]) -> dict[str, Kept]:
        spaces = self._spaces(constraints)
        found: dict[str, Kept] = {}
        for directive in constraints:
            if directive.kind != "dataspace":
                continue
            level = level_of(self._levels, directive.target, directive.kind)
            if level is None or level.kind == "compute":
                continue
            own = kept(directive, spaces)
            old = found.get(level.name, Kept(frozenset(), frozenset()))
            found[level.name] = both = Kept(old.keep | own.keep, old.bypass | own.bypass)
            if contradiction := sorted(both.keep & both.bypass):
                text = f"constraints both keep and bypass {contradiction[0]} in {level.name}"
                raise SpecError(text, at=place(directive, "type"), hint="leave one out")
        return found

    def _spaces(self, constraints: Sequence[Directive]) -> Collection[str]:
        if self._problem is not None:
            return self._problem.tensors
        names: set[str] = set()
        for directive in constraints:
            for key in ("keep", "bypass"):
                value = directive.fields.get(key)
                names |= {a_text(item, key) for item in getattr(value, "items", ())} if value is not None else set()
        return names

    def _tensor(self, space: str) -> str:
        return identifier(space) if self._problem is None else self._problem.tensors.get(space, identifier(space))

    def _spatial(self, constraints: Sequence[Directive]) -> dict[str, dict[str, list[Limit]]]:
        """Limits on loops by fanout and dimension. Raises SpecError for constraints that contradict each other."""
        spreads: dict[str, Spread] = {}
        for directive in constraints:
            level = level_of(self._levels, directive.target, "spatial") if directive.kind == "spatial" else None
            if level is None:
                continue
            for key, _ in directive.fields.items:
                if key not in ("type", "target", "name", *SPATIAL, *APART):
                    self._report.leave(place(directive, key), key, "this spatial constraint has no counterpart")
                elif self._problem is None and key in SPATIAL:
                    self._report.leave(place(directive, key), key, "no file has the problem that names its dimensions")
            if self._problem is not None:
                spread = spreads.setdefault(level.name, Spread(level))
                spread.read(directive, self._problem, self._scope, self._report)
        problem = self._problem
        return {} if problem is None else {name: s.limits(problem, self._report) for name, s in spreads.items()}

    def _apart(self, constraints: Sequence[Directive]) -> dict[str, str]:
        """By fanout what its copies may share, where constraints say that they share nothing, or not some tensors."""
        found: dict[str, dict[str, None]] = {}
        for directive in constraints:
            level = level_of(self._levels, directive.target, "spatial") if directive.kind == "spatial" else None
            if level is None:
                continue
            for key in APART:
                raw = directive.fields.get(key)
                if isinstance(raw, RawList):
                    names = (self._named(a_text(item, key), place(directive, key)) for item in raw.items)
                    found.setdefault(level.name, {}).update(dict.fromkeys(names))
                elif raw is not None and a_flag(raw, key):
                    found.setdefault(level.name, {})["All"] = None
        return {
            name: "Nothing" if "All" in tensors else " - ".join(["All", *tensors]) for name, tensors in found.items()
        }

    def _named(self, space: str, at: At) -> str:
        """The tensor of a data space. Raises SpecError for one that the problem does not have."""
        if self._problem is not None and space not in self._problem.tensors:
            hint = did_you_mean(space, self._problem.tensors, listing="data spaces")
            raise SpecError(f"{space!r} is not a data space of the problem", at=at, hint=hint)
        return self._tensor(space)

    def _check_known(self, directive: Directive) -> None:
        """Leave what no level is there for, what is of an unknown kind, and all limits on loops in time."""
        kind, target, leave = directive.kind, directive.target, self._report.leave
        names = {name for level in self._levels for name in level.targets}
        level = level_of(self._levels, target, kind)
        if kind not in KINDS:
            leave(place(directive, "type"), f"{target}: {kind}", "this kind of constraint has no counterpart")
        elif target not in names and not (target.startswith("inter_") and target.endswith("_spatial")):
            leave(place(directive, "target"), f"{target}: {kind}", "the architecture has no level of this name")
        elif level is None:
            self._check_nothing_said(directive)
        elif kind == "temporal":
            for key, _ in directive.fields.items:
                if key not in ("type", "target", "name"):
                    reason = "an architecture limits no temporal loops here; a part of a mapping does (docs/mapper.md)"
                    leave(place(directive, key), f"{target}: temporal {key}", reason)
        elif kind == "dataspace":
            self._report.leave_others(directive.fields, DATASPACE, "this constraint has no counterpart")

    def _check_nothing_said(self, directive: Directive) -> None:
        """Leave what a level is to do that it cannot. Raises SpecError for lanes where there are no copies."""
        kind, target = directive.kind, directive.target
        sizes = {} if self._problem is None else self._problem.sizes
        dimensions = () if self._problem is None else self._problem.dimensions
        raw = directive.fields.get("factors") if dimensions and kind != "dataspace" else None
        asked = [
            factor
            for factor in factors(raw, f"{target}.factors", dimensions, self._scope)
            if factor.value > 1 and factor.operator != "<="
        ]
        if kind == "spatial" and (spread := [f for f in asked if f.value <= sizes.get(f.dimension, 1)]):
            first = spread[0]
            text = f"{target} has no copies, over which {first.dimension}{first.written}{first.value} could be spread"
            raise SpecError(text, at=place(directive, "factors"), hint="a factor of 1 says that there are none")
        if asked or (kind == "dataspace" and directive.fields.get("keep") is not None):
            what = {"spatial": "copies", "temporal": "loops in time"}.get(kind, "tensors")
            self._report.leave(place(directive, "target"), f"{target}: {kind}", f"this level has no {what}")

    # nodes

    def _container(self, level: Level, limits: Mapping[str, list[Limit]], may_reuse: str | None) -> dict[str, object]:
        spatial: list[dict[str, object]] = []
        for dimension in axes(level):
            entry: dict[str, object] = {"name": dimension, "fanout": level.fanout["XY".index(dimension)]}
            if limits.get(dimension):
                entry["loop_bounds"] = _bounds(limits[dimension])
            if may_reuse is not None:
                entry["may_reuse"] = may_reuse
            spatial.append(entry)
        return {"type": "Container", "name": self._components[level.name], "spatial": spatial}

    def _memory(self, level: Level, own: Kept | None) -> dict[str, object]:
        word = self._word(level)
        row = max(self._optional_integer(level, "width", "memory_width", "data_storage_width") or word, word)
        node: dict[str, object] = {"type": "Memory", "name": self._components[level.name]}
        size = self._size(level, word, row)
        extra = self._model_attributes(level) | {"width": row}
        known: dict[str, AttributeValue] = {"bits_per_action": row}
        if not math.isinf(size):
            known["size"] = size
        node |= self._priced(level, extra, known, ("read", "write"))
        node["size"] = "inf" if math.isinf(size) else size
        node["bits_per_action"] = row
        if word != self._bits:
            node["bits_per_value"] = {"All": word}
        if (tensors := self._tensors(level, own)) is not None:
            node["tensors"] = tensors
        clock = _clock(self._cycle(level))
        actions: list[dict[str, object]] = []
        for action in ("read", "write"):
            words = self._optional_number(level, f"{action}_bandwidth", f"{action}-bandwidth")
            both = self._optional_number(level, "bandwidth")
            if words is None and both is not None:  # Timeloop gives either half
                words = both / 2
            rate: object = "inf" if words is None or math.isinf(words) else words * word / row * clock
            if words == 0:
                raise self._refused(level, f"{action}_bandwidth", "a bandwidth of 0 words a cycle moves nothing")
            actions.append(self._action(level, action, rate))
        node["total_latency"] = TOTAL_LATENCY
        node["actions"] = actions
        self._leave_attributes(level)
        return node

    def _compute(self, level: Level) -> dict[str, object]:
        word = self._optional_integer(level, "datawidth", "word-bits", "word_bits", "multiplier_width") or self._bits
        extra = self._model_attributes(level) | {"width": word}
        node: dict[str, object] = {"type": "Compute", "name": self._components[level.name]}
        node |= self._priced(level, extra, {}, ("compute",))
        node["actions"] = [self._action(level, "compute", _clock(self._cycle(level)))]
        self._leave_attributes(level)
        return node

    def _priced(
        self,
        level: Level,
        extra: Mapping[str, AttributeValue],
        known: Mapping[str, AttributeValue],
        actions: Sequence[str],
    ) -> dict[str, object]:
        """Component class and attributes: those of a level whose energies a table gives cost nothing else."""
        if level.name in self._energies:
            return {"component_class": "Dummy"}
        return self._prices.fields(level, extra, known, actions, self._report)

    def _action(self, level: Level, name: str, rate: object) -> dict[str, object]:
        action = {"name": name, "throughput": rate}
        if level.name in self._energies:
            action["energy"] = energy_of(self._energies[level.name], name)
        return action

    def _model_attributes(self, level: Level) -> dict[str, AttributeValue]:
        technology = technology_of(level)
        if technology is None:
            text = f"not every component says its technology: costs of the others are those of {TECHNOLOGY}"
            if not any(note.text == text for note in self._report.notes):
                self._report.notes.append(Note(text))
        extra: dict[str, AttributeValue] = {"tech_node": technology or TECHNOLOGY}
        for key in MODEL_ATTRIBUTES:
            value = level.attributes.get(key)
            if isinstance(value, RawScalar) and value.value is not None:
                is_text = key == "type"
                extra[key] = a_text(value, key) if is_text else an_integer(value, f"{level.name}.{key}", self._scope)
        return extra

    def _tensors(self, level: Level, own: Kept | None) -> dict[str, object] | None:
        if level is self._memories[0]:
            bypass = sorted(self._tensor(space) for space in own.bypass) if own else []
            return {"keep": f"All - {' - '.join(bypass)}" if bypass else "All"}
        if own is None:
            return None
        keep = [self._tensor(space) for space in sorted(own.keep)]
        bypass = [self._tensor(space) for space in sorted(own.bypass)]
        if self._problem is not None and set(keep) | set(bypass) == set(self._problem.tensors.values()):
            return {"keep": " | ".join(keep) or "Nothing", "may_keep": "Nothing"}
        return {"keep": " | ".join(keep) or "Nothing", "may_keep": "All" + "".join(f" - {name}" for name in bypass)}

    # attributes

    def _word(self, level: Level) -> int:
        given = self._optional_integer(level, "datawidth", "word-bits", "word_bits", "data_width")
        if given is None and (row := self._optional_integer(level, "width", "memory_width", "data_storage_width")):
            words = (self._optional_integer(level, key) or 1 for key in ("block-size", "cluster-size"))
            many = math.prod(words) * (self._optional_integer(level, "block_size") or 1)
            given = row // many if many > 1 and row % many == 0 else None
        return given or WIDTH

    def _cycle(self, level: Level) -> float:
        value = self._optional_number(level, "global_cycle_seconds", "cycle_time")
        if value is None:
            return CYCLE
        if not 0 < value < math.inf:
            raise self._refused(level, "global_cycle_seconds", f"{value} is not the time of a cycle")
        return value

    def _size(self, level: Level, word: int, row: int) -> float:
        depth = self._optional_integer(level, "depth", "memory_depth", "data_storage_depth")
        entries = self._optional_integer(level, "entries")
        kilobytes = self._optional_number(level, "sizeKB")
        size: float = math.inf
        if depth is not None:
            size = depth * row
        elif entries is not None:
            size = entries * word
        elif kilobytes is not None:
            size = int(kilobytes * 1024 * 8)
        buffers = self._optional_number(level, "multiple_buffering")
        if buffers is not None and buffers > 1 and not math.isinf(size):
            reason = f"the size is divided by {buffers:g}; time is counted as if all transfers overlapped"
            self._report.leave(level.attributes["multiple_buffering"].at, "multiple_buffering", reason)
            size = int(size / buffers)
        return size

    def _optional_integer(self, level: Level, *keys: str) -> int | None:
        for key in keys:
            if self._is_given(level, key):
                return an_integer(level.attributes[key], f"{level.name}.{key}", self._scope)
        return None

    def _optional_number(self, level: Level, *keys: str) -> float | None:
        for key in keys:
            if self._is_given(level, key):
                return a_number(level.attributes[key], f"{level.name}.{key}", self._scope)
        return None

    def _is_given(self, level: Level, key: str) -> bool:
        value = level.attributes.get(key)
        return value is not None and not (isinstance(value, RawScalar) and value.value in (None, "must_specify"))

    def _refused(self, level: Level, key: str, text: str) -> SpecError:
        return SpecError(text, at=named(level.attributes[key].at if key in level.attributes else level.at, key))

    def _leave_attributes(self, level: Level) -> None:
        for key, value in level.attributes.items():
            is_quiet = isinstance(value, RawScalar) and value.value in _QUIET.get(key, ())
            if key not in _READ and not is_quiet and key != "multiple_buffering":
                self._report.leave(value.at, f"{level.name}.{key}", "this attribute has no counterpart")


def _bounds(limits: Sequence[Limit]) -> list[dict[str, object]]:
    """Limits with one operator and value as one, in the order of the first of them."""
    variables: dict[tuple[str, int], list[str]] = {}
    for limit in limits:
        variables.setdefault((limit.operator, limit.value), []).append(limit.variable)
    return [
        {"expression": " | ".join(names), "operator": operator, "value": value}
        for (operator, value), names in variables.items()
    ]


def _clock(cycle: float) -> float:
    """Cycles in a second; a whole number where it is one but for rounding."""
    clock = 1 / cycle
    return round(clock) if abs(clock - round(clock)) < clock * 1e-12 else clock


def axes(level: Level) -> tuple[str, ...]:
    """The dimensions of a fanout that has copies along them."""
    return tuple(name for name, copies in zip("XY", level.fanout, strict=True) if copies > 1) or ("X",)


def _component_names(levels: Sequence[Level], tensors: Iterable[str]) -> dict[str, str]:
    names: dict[str, str] = {}
    for level in levels:
        names[level.name] = identifier(level.name, {*names.values(), *tensors})
    return names
