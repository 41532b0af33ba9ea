"""The section `arch` for AccelForge: costs as numbers, and only fields that it has."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from math import isinf

from einmap.arch.component import Compute, Leaf, Memory, Toll, Units
from einmap.arch.ports import Ports
from einmap.errors import At, NotSupportedError, SpecError
from einmap.frontends.foreign import Report
from einmap.spec.raw import Raw, RawList, RawMap, RawScalar, from_python, tag_of
from einmap.spec.schema.latency import ActionTimingInput
from einmap.spec.spec import Spec

_COSTS = frozenset(
    {
        "component_class", "component_model", "component_modeling_log", "area", "area_scale", "total_area",
        "leak_power", "leak_power_scale", "total_leak_power", "energy_scale", "throughput_scale", "latency_scale",
        "n_parallel_instances", "refresh_busy",
    }
)  # fmt: skip
"""Fields that are said by numbers of one instance, scales included."""
_SIMPLE = frozenset({"name", "enabled", "actions_scale", "extra_attributes_for_component_model", "total_latency"})
_HOLDER = frozenset({"bits_per_value", "bits_per_action", "values_per_action"})
_FIELDS: Mapping[str, frozenset[str]] = {
    "Memory": _SIMPLE | _HOLDER | {"skip_initial_output_write"},
    "Toll": _SIMPLE | _HOLDER | {"direction"},
    "Compute": _SIMPLE | {"skip_initial_output_write"},
    "Network": _SIMPLE | _COSTS | {"bits_per_value", "bits_per_action", "topology", "actions"},
    "Container": frozenset({"name"}),
    "Array": frozenset({"name"}),
    "Fork": frozenset({"forked_power_gateable", "non_forked_power_gateable"}),
    "Hierarchical": frozenset(),
}
"""Fields that are taken as they are written, by class; others are written by themselves, or have no counterpart."""
_TIMING = frozenset(ActionTimingInput.model_fields)
"""Fields of actions that AccelForge does not have."""
_SILENT: Mapping[str, tuple[object, ...]] = {
    "separate_read_write_ports": (False,),
    "buffering": ("ideal",),
    "wind_up": (False,),
    "skew": ("none",),
    "vector": (False,),
    "stalls": ("average",),
    "startup": (0,),
    "pipeline_latency": (0,),
    "replicate": ("Nothing",),
    "refresh_power": (0,),
}
"""Values of fields without counterpart that say nothing."""
_SPATIAL = frozenset({"name", "may_reuse", "reuse", "min_usage", "usage_scale", "power_gateable"})
_TENSORS = frozenset(
    {"keep", "may_keep", "back", "no_refetch_from_above", "no_resend_to_below", "force_memory_hierarchy_order"}
)
_OPERATORS = ("==", "<=", ">=", "<", ">")
_WORD = re.compile(r"[A-Za-z_]\w*")
_NO_FIELD = "AccelForge has no such field"
_NAMELESS = ("Fork", "Hierarchical")
_FOR_ALL = "extra_attributes_for_all_component_models"
_WRITTEN = frozenset({"spatial", "actions", "tensors", "size", "ports", "banks", "separate_read_write_ports"})
"""Fields that are written from what they mean."""


def write_arch(spec: Spec, report: Report) -> RawMap:
    """The architecture of a specification in the newer dialect. Raises SpecError for what would mean something else."""
    raw = spec.raw.get("arch")
    assert isinstance(raw, RawMap)
    return _Writer(spec, report).arch(raw)


class _Writer:
    def __init__(self, spec: Spec, report: Report) -> None:
        self._report = report
        archs = spec.archs.values() if spec.raw.get("workload") is not None else ()
        self._leaves: dict[str, list[Leaf]] = {}
        for arch in archs:
            for name, leaf in arch.leaves.items():
                self._leaves.setdefault(name, []).append(leaf)
        self._is_bound = bool(self._leaves)
        self._attributes: dict[str, Raw] = {}

    def arch(self, raw: RawMap) -> RawMap:
        attributes = raw.get(_FOR_ALL)
        self._attributes = dict(attributes.items) if isinstance(attributes, RawMap) else {}
        fields: dict[str, Raw] = {}
        for key, value in raw.items:
            if key == "variables" or (key == _FOR_ALL and not self._is_bound):
                fields[key] = value
            elif key not in ("nodes", _FOR_ALL):
                self._report.leave_key(raw, "arch", key, _NO_FIELD)
        return _dictionary({**fields, "nodes": self._nodes(raw.get("nodes"), "arch")})

    def _nodes(self, raw: Raw | None, path: str) -> RawList:
        items = raw.items if isinstance(raw, RawList) else ()
        return RawList(tuple(self._node(item, f"{path}.nodes[{number}]") for number, item in enumerate(items)))

    def _node(self, raw: Raw, path: str) -> RawMap:
        assert isinstance(raw, RawMap)
        tag = tag_of(raw) or ""
        if tag not in _FIELDS:
            raise NotSupportedError(f"!{tag} cannot be written for AccelForge", at=replace(raw.at or At(), path=path))
        name = raw.get("name")
        path = f'{path} "{name.value}"' if isinstance(name, RawScalar) else path
        if tag in _NAMELESS:
            fields = self._taken(raw, path, _FIELDS[tag], {"nodes", "name"})
            return _dictionary({**fields, "nodes": self._nodes(raw.get("nodes"), path)}, tag)
        leaves = self._leaves.get(str(name.value) if isinstance(name, RawScalar) else "", [])
        if tag == "Array":
            fields = self._taken(raw, path, _FIELDS[tag], {"nodes", "spatial"})
            fields["spatial"] = self._spatial(raw.get("spatial") or RawList(()), f"{path}.spatial", leaves)
            return _dictionary({**fields, "nodes": self._nodes(raw.get("nodes"), path)}, tag)
        topology = raw.get("topology")
        if _text(topology) not in (None, "mesh", "all_to_all"):
            text = f"a network of topology {_text(topology)} cannot be written for AccelForge"
            raise NotSupportedError(text, at=replace(raw.place_of("topology") or At(), path=path))
        if tag == "Network":
            self._report.leave(
                replace(raw.at or At(), path=path), tag, "the time on its links is counted otherwise there"
            )
        written = {*_WRITTEN, *_COSTS} - _FIELDS[tag]
        fields = self._taken(raw, path, _FIELDS[tag], written)
        if tag == "Network" and "actions" in fields:
            fields["actions"] = _with_hop(fields["actions"])
        if self._is_bound and tag != "Network":
            fields = self._with_attributes_in_use(raw, fields)
        fields |= self._costs(raw, path, tag, leaves)
        if tag == "Memory":
            fields |= self._memory(raw, path, leaves)
        if (tensors := raw.get("tensors")) is not None:
            fields["tensors"] = self._tensors(tensors, f"{path}.tensors")
        units = {leaf.units for leaf in leaves if isinstance(leaf, Memory) and leaf.array}
        if units:
            fields["spatial"] = self._units(raw, path, units)
            self._check_leakage(raw, path, leaves)
        elif (spatial := raw.get("spatial")) is not None:
            fields["spatial"] = self._spatial(spatial, f"{path}.spatial", leaves)
            self._check_leakage(raw, path, leaves)
        return _dictionary(fields, tag)

    def _taken(self, raw: RawMap, path: str, kept: Iterable[str], others: Iterable[str]) -> dict[str, Raw]:
        """Fields that are written as they are; those that are not written otherwise either are left out."""
        fields: dict[str, Raw] = {}
        for key, value in raw.items:
            if key in kept:
                fields[key] = _as_set(value) if key == "direction" else value
            elif key not in others and key != "type" and not _says_nothing(key, value):
                self._report.leave_key(raw, path, key, _NO_FIELD)
        return fields

    def _costs(self, raw: RawMap, path: str, tag: str, leaves: list[Leaf]) -> dict[str, Raw]:
        """Area, leakage and actions as numbers, where they are the same in all Einsums; else as they are written."""
        if tag in ("Container", "Network"):
            return {}
        if not self._is_bound:
            return {key: value for key, value in raw.items if key in _COSTS or key == "actions"}
        priced = [leaf for leaf in leaves if isinstance(leaf, Memory | Toll | Compute)]
        costs = {
            (leaf.area, leaf.leak_power, tuple((a.name, a.energy, a.throughput) for a in leaf.actions))
            for leaf in priced
        }
        if len(costs) != 1:
            text = "costs that differ from Einsum to Einsum cannot be written for AccelForge as numbers"
            raise NotSupportedError(
                text, at=replace(raw.at or At(), path=path), hint="write Einsums with equal costs by themselves"
            )
        leaf = priced[0]
        fields: dict[str, object] = {} if leaf.area is None else {"area": leaf.area}
        fields["leak_power"] = leaf.leak_power
        given = {str(_text(item.get("name"))): item for item in _maps(raw.get("actions"))}
        actions: list[dict[str, object]] = []
        for action in leaf.actions:
            entry: dict[str, object] = {"name": action.name, "energy": action.energy, "throughput": action.throughput}
            own = given.get(action.name)
            for key, value in own.items if own is not None else ():
                if key in ("bits_per_action", "values_per_action"):
                    entry[key] = value
                elif key in _TIMING and not _says_nothing(key, value) and own is not None:
                    self._report.leave_key(own, f"{path}.actions", key, _NO_FIELD)
            actions.append(entry)
        fields["actions"] = actions
        return {key: from_python(value) for key, value in fields.items()}

    def _with_attributes_in_use(self, raw: RawMap, fields: dict[str, Raw]) -> dict[str, Raw]:
        """Of the attributes for component models those that an expression names: costs themselves are numbers."""
        own = fields.pop("extra_attributes_for_component_model", None)
        attributes = {**self._attributes, **(dict(own.items) if isinstance(own, RawMap) else {})}
        actions = [value for item in _maps(raw.get("actions")) for key, value in item.items if key in _HOLDER]
        words = set(_WORD.findall(" ".join(_texts_in([*fields.values(), *actions]))))
        used = {key: value for key, value in attributes.items() if key in words}
        return {**fields, "extra_attributes_for_component_model": _dictionary(used)} if used else fields

    def _memory(self, raw: RawMap, path: str, leaves: list[Leaf]) -> dict[str, Raw]:
        memories = [leaf for leaf in leaves if isinstance(leaf, Memory)]
        sizes = {memory.size_bits * memory.parts for memory in memories}
        size = raw.get("size")
        fields: dict[str, Raw] = {}
        if len(sizes) == 1:
            fields["size"] = from_python(_number(sizes.pop()))
        elif size is not None:
            fields["size"] = size
        ports = {memory.ports for memory in memories} - {None}
        if len(ports) == 1 and (only := ports.pop()) is not None:
            fields["total_latency"] = from_python(_port_time(only))
        elif raw.get("ports") is not None and not self._is_bound:
            self._report.leave_key(raw, path, "ports", "ports need a workload to be evaluated")
        return fields

    def _tensors(self, raw: Raw, path: str) -> RawMap:
        assert isinstance(raw, RawMap)
        fields: dict[str, Raw] = {}
        for key, value in raw.items:
            if key in _TENSORS:
                fields[key] = _as_set(value)
            elif key == "tensor_order_options" and isinstance(value, RawList):
                options = [
                    RawList(tuple(map(_as_set, option.items))) for option in value.items if isinstance(option, RawList)
                ]
                fields[key] = RawList(tuple(options))
            elif key == "tile_shape":
                self._report.leave_key(raw, path, key, "AccelForge 1.0.467 reads such limits, and does not keep them")
            else:
                self._report.leave_key(raw, path, key, _NO_FIELD)
        return _dictionary(fields)

    def _spatial(self, raw: Raw, path: str, leaves: list[Leaf]) -> RawList:
        dimensions: list[Raw] = []
        for number, item in enumerate(_maps(raw)):
            here = f"{path}[{number}]"
            fields = self._taken(item, here, _SPATIAL, {"fanout", "loop_bounds"})
            fields = {key: _as_set(value) if key in ("may_reuse", "reuse") else value for key, value in fields.items()}
            fanouts = {leaf.spatial[number].fanout for leaf in leaves}
            given = item.get("fanout")
            if len(fanouts) > 1:
                raise SpecError(
                    "fanouts that differ from Einsum to Einsum cannot be written",
                    at=replace(item.at or At(), path=here),
                )
            if fanouts or given is not None:
                fields["fanout"] = from_python(fanouts.pop() if fanouts else given)
            limits = [limit for limit in _maps(item.get("loop_bounds")) if self._can_limit(limit, item, here)]
            if limits:
                fields["loop_bounds"] = RawList(tuple(limits))
            dimensions.append(_dictionary(fields))
        return RawList(tuple(dimensions))

    def _units(self, raw: RawMap, path: str, units: set[tuple[Units, ...]]) -> Raw:
        """How many units a memory of an array is along each dimension where it is several."""
        if len(units) > 1:
            text = "numbers of units that differ from Einsum to Einsum cannot be written"
            raise SpecError(text, at=replace(raw.at or At(), path=path))
        (only,) = units
        return from_python([{"name": along.name, "fanout": along.number} for along in only if along.number > 1])

    def _can_limit(self, limit: RawMap, dimension: RawMap, path: str) -> bool:
        operator = str(_text(limit.get("operator"))).removeprefix("product")
        if operator in _OPERATORS and set(limit.keys()) <= {"expression", "operator", "value"}:
            return True
        self._report.leave_key(dimension, path, "loop_bounds", f"AccelForge has no operator {operator}")
        return False

    def _check_leakage(self, raw: RawMap, path: str, leaves: list[Leaf]) -> None:
        for leaf in leaves:
            if isinstance(leaf, Memory | Toll | Compute) and leaf.leak_power:
                reason = "AccelForge 1.0.467 counts the leakage of a component once, not for each of its own copies"
                self._report.leave_key(raw, path, "spatial", reason)


def _texts_in(values: Iterable[Raw]) -> Iterator[str]:
    for value in values:
        match value:
            case RawScalar(value=text):
                yield str(text)
            case RawList(items=items):
                yield from _texts_in(items)
            case RawMap(items=pairs):
                yield from _texts_in([each for _, each in pairs])


def _with_hop(actions: Raw) -> Raw:
    """A network's actions, `hops` by its other name."""
    if not isinstance(actions, RawList):
        return actions
    hop = RawScalar("hop", "hop")
    return RawList(
        tuple(
            _dictionary({**dict(item.items), "name": hop}) if _text(item.get("name")) == "hops" else item
            for item in _maps(actions)
        )
    )


def _port_time(ports: Ports) -> str:
    """Seconds that ports are busy, as an expression: the largest of what each limit asks for."""
    read, write = (f"actions['{name}'].n_calls / actions['{name}'].throughput" for name in ("read", "write"))
    terms = []
    for share in ports.shares:
        both = [text for text, counts in ((read, share.reads), (write, share.writes)) if counts]
        terms.append(f"({' + '.join(both)}) / {_number(share.at_once)}")
    return f"max({', '.join(terms)})" if len(terms) > 1 else terms[0]


def _number(value: float) -> float | int:
    return value if isinf(value) or value != int(value) else int(value)


def _says_nothing(key: str, value: Raw) -> bool:
    return key in _SILENT and isinstance(value, RawScalar) and value.value in _SILENT[key]


def _as_set(value: Raw) -> Raw:
    """A list of names as the set that it stands for: AccelForge takes expressions alone."""
    if isinstance(value, RawList):
        texts = [str(item.value) for item in value.items if isinstance(item, RawScalar)]
        return from_python(" | ".join(texts) or "Nothing")
    return value


def _maps(raw: Raw | None) -> list[RawMap]:
    return [item for item in raw.items if isinstance(item, RawMap)] if isinstance(raw, RawList) else []


def _text(raw: Raw | None) -> object:
    return raw.value if isinstance(raw, RawScalar) else None


def _dictionary(fields: Mapping[str, Raw], tag: str | None = None) -> RawMap:
    return RawMap(tuple(fields.items()), tag=tag, key_at=(None,) * len(fields))
