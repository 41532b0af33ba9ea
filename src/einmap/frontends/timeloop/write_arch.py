"""An architecture as Timeloop's (version 0.4): the nodes on the way to one compute unit."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from einmap.arch.component import Compute, Container, Leaf, Memory, SpatialDimension
from einmap.arch.constraint import Comparison
from einmap.arch.ports import Ports
from einmap.errors import At, EinmapError, NotSupportedError, SpecError
from einmap.frontends.foreign import Report
from einmap.frontends.timeloop.architecture import TOTAL_LATENCY
from einmap.frontends.timeloop.components import MODEL_ATTRIBUTES, TECHNOLOGY
from einmap.spec.raw import Raw, RawList, RawMap, from_python
from einmap.spec.schema.arch import ComponentInput, HolderInput
from einmap.spec.spec import Spec

VERSION = 0.4
"""Timeloop's version of the files that are written."""

NO_BEGINNING = "Timeloop brings in no sums that begin"
WORD = 8
"""Bits of a word where values have no whole number of bits."""


_SEPARATE = Ports(1, 1, 0)
_TOTAL = "Timeloop's time follows from bandwidths, reads beside writes"
_NO_LIMIT = "Timeloop's constraints have no such limit"
_LIMITS = ("back", "tile_shape", "no_refetch_from_above", "no_resend_to_below", "tensor_order_options")


@dataclass(frozen=True, slots=True)
class WrittenArch:
    """The section `architecture`, and the axis of each dimension of a fanout by component and name."""

    raw: Raw
    axes: Mapping[tuple[str, str], str]


def write_arch(spec: Spec, compute: str, dimensions: Mapping[str, str], report: Report) -> WrittenArch:
    """The architecture on the way to the compute unit `compute`; `dimensions`: of the problem, by rank variable.

    Raises SpecError for what Timeloop's architectures cannot have.
    """
    return _Writer(spec, compute, dimensions, report).written()


class _Writer:
    def __init__(self, spec: Spec, compute: str, dimensions: Mapping[str, str], report: Report) -> None:
        self._spec = spec
        self._einsum = spec.workload.einsums[0]
        self._arch = spec.arch(self._einsum.name)
        self._path = self._arch.path(compute)
        self._dimensions = dimensions
        self._report = report
        self._inputs = {leaf.given.name: leaf.given for leaf in spec.arch_inputs.leaves}
        unit = self._path[-1]
        assert isinstance(unit, Compute)
        rate = unit.action("compute").throughput
        self._cycle = 1e-9 if math.isinf(rate) else 1 / rate
        self._axes: dict[tuple[str, str], str] = {}

    def written(self) -> WrittenArch:
        """All nodes, below a container with the technology and the time of a cycle."""
        names = {leaf.name for leaf in self._path}
        for name in [name for name in self._arch.leaves if name not in names]:
            self._report.leave(self._spec.place_of_component(name), name, "it is not on the way to the compute unit")
        attributes = {"technology": self._technology(), "global_cycle_seconds": self._cycle}
        system = "System" if "System" not in names else "System_top_level"
        nodes: list[Raw] = [_node("Container", {"name": system, "attributes": attributes})]
        for leaf in self._path:
            nodes += self._node(leaf)
        raw = RawMap((("version", from_python(VERSION)), ("nodes", RawList(tuple(nodes)))))
        return WrittenArch(raw, self._axes)

    def _node(self, leaf: Leaf) -> list[Raw]:
        at = self._spec.place_of_component(leaf.name)
        match leaf:
            case Container():
                return [_node("Container", {"name": leaf.name, **self._fanout(leaf, at)})]
            case Memory():
                return [self._memory(leaf, at)]
            case Compute():
                attributes = {"datawidth": self._word(None), **self._attributes(leaf.name)}
                kind = self._class(leaf.name, "intmac")
                self._leave(
                    leaf,
                    at,
                    {
                        "skip_initial_output_write": (not leaf.skip_initial_output_write, NO_BEGINNING),
                        "total_latency": (leaf.total_latency is not None, _TOTAL),
                        "pipeline_latency": (
                            leaf.action("compute").pipeline_latency > 0,
                            "a result of Timeloop's is there in the next cycle",
                        ),
                    },
                )
                fields = {"name": leaf.name, "class": kind, "attributes": attributes, **self._fanout(leaf, at)}
                return [_node("Component", fields)]
            case _:
                kind = type(leaf).__name__
                self._report.leave(at, leaf.name, f"Timeloop's levels have no !{kind}; what passes it is not charged")
                if any(dimension.fanout > 1 for dimension in leaf.spatial):
                    return [_node("Container", {"name": leaf.name, **self._fanout(leaf, at)})]
                return []

    def _memory(self, memory: Memory, at: At) -> Raw:
        if memory.is_spread:
            text = f"{memory.name} is {memory.number_of_units} units of an array: no level of Timeloop is spread so"
            raise NotSupportedError(text, at=at, hint="give each lane a memory of its own, or all of them one")
        word = self._word(memory)
        row = self._row(memory, word)
        attributes: dict[str, object] = {"width": row, "datawidth": word, **self._attributes(memory.name)}
        if not math.isinf(memory.size_bits):
            depth = int(memory.size_bits // row)
            if depth * row != memory.size_bits:
                reason = f"{memory.size_bits:g} bits are not whole rows of {row}: {depth} rows are written"
                self._report.leave(at, f"{memory.name}.size", reason)
            attributes = {"depth": max(depth, 1), **attributes}
        for action in ("read", "write"):
            rate = memory.action(action).throughput
            per_value = memory.action(action).actions_per_value[self._einsum.accesses[0].tensor]
            if not math.isinf(rate) and per_value:
                attributes[f"{action}_bandwidth"] = _plain(rate / per_value * self._cycle)
        self._leave_options(memory, at)
        if len(set(memory.bits.values())) > 1:
            reason = f"a level of Timeloop has words of one width: {word} bits for all tensors"
            self._report.leave(at, f"{memory.name}: bits of values", reason)
        kind = self._class(memory.name, "DRAM" if math.isinf(memory.size_bits) else "SRAM")
        fields = {"name": memory.name, "class": kind, "attributes": attributes, **self._fanout(memory, at)}
        constraints = dict(fields.pop("constraints", {}))  # type: ignore[call-overload]
        if (kept := self._kept(memory, at)) is not None:
            constraints["dataspace"] = kept
        return _node("Component", {**fields, **({"constraints": constraints} if constraints else {})})

    def _leave_options(self, memory: Memory, at: At) -> None:
        reasons = {
            "skip_initial_output_write": (
                not memory.skip_initial_output_write,
                NO_BEGINNING,
            ),
            "ports": (
                memory.ports not in (None, _SEPARATE),
                "Timeloop's memories have a bandwidth for reads and one for writes",
            ),
            "separate_read_write_ports": (
                memory.ports is None and memory.total_latency is None and _is_timed(memory),
                "reads and writes take turns here, and go on at one time in Timeloop",
            ),
            "total_latency": (
                memory.total_latency is not None and memory.total_latency.text != TOTAL_LATENCY and _is_timed(memory),
                _TOTAL,
            ),
            "buffering": (memory.buffering != "ideal", "Timeloop's transfers overlap with everything"),
            "wind_up": (memory.wind_up, "Timeloop's transfers overlap with everything"),
            "actions_scale": (memory.actions_scale != 1, "a value is read or written once in Timeloop"),
            "stalls": (memory.stalls != "average", "Timeloop counts transfers on average"),
            "layout": (bool(memory.layout), "Timeloop counts values, not lines"),
            "startup": (memory.starts, "Timeloop's transfers take no time to begin"),
        }
        self._leave(memory, at, reasons)
        given = self._inputs.get(memory.name)
        tensors = given.tensors if isinstance(given, HolderInput) else None
        if tensors is not None:
            given_limits = {f"tensors.{key}": (key in tensors.model_fields_set, _NO_LIMIT) for key in _LIMITS}
            self._leave(memory, at, given_limits)

    def _leave(self, leaf: Leaf, at: At, reasons: Mapping[str, tuple[bool, str]]) -> None:
        """Name the fields of a component that are there and mean something else in Timeloop."""
        for field, (is_there, reason) in reasons.items():
            if is_there:
                self._report.leave(at, f"{leaf.name}.{field}", reason)

    def _fanout(self, leaf: Leaf, at: At) -> dict[str, object]:
        """`spatial` and its constraints; the first dimension is X, the second Y."""
        wide = [dimension for dimension in leaf.spatial if dimension.fanout > 1]
        if len(wide) > 2:
            text = f"{leaf.name} has {len(wide)} dimensions, a fanout of Timeloop has two"
            raise SpecError(text, at=at, hint="join some of them")
        order = {"X": 0, "Y": 1}
        named = sorted(wide, key=lambda dimension: order.get(dimension.name, 2))
        axes = ("Y",) if len(named) == 1 and named[0].name == "Y" else ("X", "Y")
        spatial: dict[str, object] = {}
        factors: list[str] = []
        for axis, dimension in zip(axes, named, strict=False):
            self._axes[leaf.name, dimension.name] = axis
            spatial[f"mesh{axis}"] = dimension.fanout
            factors += self._factors(leaf, dimension, at, alone=len(named) == 1)
            options = {
                "skew": (dimension.skew != "none", "Timeloop's copies begin at one time"),
                "vector": (dimension.vector, "Timeloop does not say which values neighbours work on"),
                "reuse": (bool(dimension.reuse), _NO_LIMIT),
                "min_usage": (dimension.min_usage > 0, _NO_LIMIT),
                "usage_scale": (dimension.usage_scale != 1, _NO_LIMIT),
            }
            self._leave(leaf, at, {f"{dimension.name}.{key}": found for key, found in options.items()})
            missing = self._einsum.tensors - dimension.may_reuse
            if missing:
                reason = f"Timeloop's copies share what they have in common, {', '.join(sorted(missing))} too"
                self._report.leave(at, f"{leaf.name}.{dimension.name}.may_reuse", reason)
        fields: dict[str, object] = {"spatial": spatial} if spatial else {}
        return fields | ({"constraints": {"spatial": {"factors": factors}}} if factors else {})

    def _factors(self, leaf: Leaf, dimension: SpatialDimension, at: At, *, alone: bool) -> list[str]:
        found: list[str] = []
        for limit in dimension.loop_bounds:
            if alone and not limit.is_product and limit.comparison in ("==", "<="):
                found += self._factor(limit)
            else:
                key = f"{leaf.name}.{dimension.name}.loop_bounds"
                self._report.leave(at, key, f"a limit {limit.text or limit.operator} has no factor")
        return found

    def _factor(self, limit: Comparison) -> list[str]:
        sign = "=" if limit.comparison == "==" or limit.value == 1 else "<="
        return [f"{self._dimensions[v]}{sign}{limit.value}" for v in self._dimensions if v in limit.variables]

    def _kept(self, memory: Memory, at: At) -> dict[str, object] | None:
        if memory.placement is None:
            return None
        try:
            keep, may_keep = memory.placement.choices({})
        except EinmapError:
            reason = "which tensors it keeps depends on what other memories hold"
            self._report.leave(at, f"{memory.name}.tensors", reason)
            return None
        everything = self._einsum.tensors
        bypass = everything - keep - may_keep
        if not keep and not bypass:
            return None
        fields = {"keep": sorted(keep & everything), "bypass": sorted(bypass)}
        return {key: names for key, names in fields.items() if names}

    # attributes

    def _word(self, memory: Memory | None) -> int:
        """Bits of a value as a memory stores it, or as the workload has it: the widest one."""
        bits = max(memory.bits[a.tensor] if memory is not None else a.bits_per_value for a in self._einsum.accesses)
        return int(bits) if float(bits).is_integer() and bits > 0 else WORD

    def _row(self, memory: Memory, word: int) -> int:
        given = self._inputs.get(memory.name)
        if not isinstance(given, ComponentInput):
            return word
        widths = (given.extra_attributes_for_component_model.get("width"), getattr(given, "bits_per_action", None))
        rows = (width for width in widths if isinstance(width, int) and not isinstance(width, bool) and width >= word)
        return next(rows, word)

    def _attributes(self, name: str) -> dict[str, object]:
        """Attributes for the component's model that Timeloop calls alike."""
        extra = self._extra(name)
        found = {key: extra[key] for key in MODEL_ATTRIBUTES if isinstance(extra.get(key), int | float | str)}
        node = extra.get("tech_node")
        return found | ({"technology": node} if isinstance(node, str) and node != self._technology() else {})

    def _extra(self, name: str) -> Mapping[str, object]:
        given = self._inputs.get(name)
        return given.extra_attributes_for_component_model if isinstance(given, ComponentInput) else {}

    def _class(self, name: str, otherwise: str) -> str:
        given = self._inputs.get(name)
        kind = given.component_class if isinstance(given, ComponentInput) else None
        if kind == "Dummy" and otherwise != "intmac":
            return "dummy_storage"
        if kind is not None and kind != "Dummy":
            return kind
        reason = f"the class {otherwise} is written: energies come from Accelergy's estimators"
        self._report.leave(self._spec.place_of_component(name), f"{name}: energies", reason)
        return otherwise

    def _technology(self) -> str:
        nodes = (self._extra(name).get("tech_node") for name in self._inputs)
        return next((node for node in nodes if isinstance(node, str)), TECHNOLOGY)


def _is_timed(memory: Memory) -> bool:
    """Whether both reads and writes take time."""
    return not any(math.isinf(memory.action(action).throughput) for action in ("read", "write"))


def _plain(value: float) -> float:
    """A whole number where it is one but for rounding."""
    rounded = float(f"{value:.12g}")
    return int(rounded) if rounded.is_integer() else rounded


def _node(tag: str, fields: Mapping[str, object]) -> Raw:
    plain = from_python({key: value for key, value in fields.items() if value not in ({}, None)})
    assert isinstance(plain, RawMap)
    return RawMap(plain.items, tag=tag)
