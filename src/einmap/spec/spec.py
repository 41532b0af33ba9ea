"""Spec: a specification as users hold it; raw inside, bound values on demand."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.einsum.workload import Workload
from einmap.errors import At, EinmapError, Note, SpecError, did_you_mean, raise_all
from einmap.expressions.scope import Scope, lazy_layer
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Address
from einmap.spec.bind_arch import ArchInputs, bind_arch, read_arch
from einmap.spec.bind_workload import BoundWorkload, bind_workload
from einmap.spec.dialect import Dialect, dialect_of
from einmap.spec.loop_tree import path_of_node, read_mapping, write_mapping
from einmap.spec.raw import (
    Raw,
    RawMap,
    content_hash,
    from_python,
    get_value,
    parse_path,
    place,
    set_value,
    to_python,
)
from einmap.spec.schema.base import Input, check
from einmap.spec.schema.workload import ConfigInput, MapperInput, ModelInput

TOP_LEVEL = ("arch", "workload", "renames", "mapping", "variables", "mapper", "model", "config")
"""The top-level keys of a specification."""


@dataclass(frozen=True, slots=True)
class Bound:
    """What one Einsum and its architecture are once every expression is evaluated for that Einsum."""

    einsum: Einsum
    arch: Architecture
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, eq=False)
class Spec:
    """A specification: workload, architecture and perhaps a mapping. Immutable.

    The raw tree is what was written; `workload`, `arch(einsum)` and `mapping` are evaluated from it at
    first use. `set` and `with_mapping` return new specifications. Two are equal when their raw content is.
    """

    raw: RawMap
    load_notes: tuple[Note, ...] = field(default=())

    @staticmethod
    def from_dict(value: MappingOf[str, Any]) -> Spec:
        """A specification from plain dictionaries; `{"type": "Memory", ...}` stands for a tagged node."""
        if not isinstance(value, MappingOf):
            raise SpecError(f"a specification is a dictionary, found {value!r}", hint=f"keys: {', '.join(TOP_LEVEL)}")
        return Spec(_checked(from_python(dict(value))))

    def __reduce__(self) -> tuple[Any, ...]:
        # What is evaluated from the raw tree is left out: it is evaluated again, and parts of it cannot be pickled.
        return Spec, (self.raw, self.load_notes)

    def __eq__(self, other: object) -> bool:
        return self.raw == other.raw if isinstance(other, Spec) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.content_hash)

    @cached_property
    def content_hash(self) -> str:
        """16 hexadecimal digits; equal for equal content, wherever and however it was written."""
        return content_hash(self.raw)

    def get(self, path: str) -> Any:
        """What was written at `path`, as plain Python: `spec.get("arch.nodes.MAC.area")`."""
        return to_python(get_value(self.raw, parse_path(path)))

    def set(self, path: str, value: Any) -> Spec:
        """A new specification with `value` at `path`; list elements by position or by name.

        spec.set("arch.nodes.GlobalBuffer.size", "64*1024*8")
        """
        return Spec(_checked(set_value(self.raw, parse_path(path), value)), self.load_notes)

    def with_mapping(self, mapping: Mapping) -> Spec:
        """A new specification with this LoopTree under `mapping`."""
        changed = set_value(self.raw, ("mapping",), write_mapping(mapping))
        assert isinstance(changed, RawMap)
        return Spec(changed, self.load_notes)

    def provenance(self, path: str) -> At:
        """The file and line where `path`, or the nearest part of it that exists, was written."""
        return place(self.raw, parse_path(path))

    def place_of_node(self, address: Address) -> At:
        """Where a node of the mapping was written."""
        return place(self.raw, path_of_node(self.raw, address))

    @cached_property
    def variables(self) -> Scope:
        """The scope of the top-level `variables`."""
        raw = self.raw.get("variables")
        if raw is None:
            return Scope()
        if not isinstance(raw, RawMap):
            raise SpecError("variables must be a dictionary", at=place(self.raw, ("variables",)))
        texts = {name: to_python(value) for name, value in raw.items}
        layer = lazy_layer(texts, Scope(), lambda name: place(self.raw, ("variables", name)))
        return layer.layer({"variables": {name: layer.lookup(name) for name in texts}})

    @cached_property
    def bound_workload(self) -> BoundWorkload:
        """The workload with the symbols of each Einsum. Raises SpecError."""
        return bind_workload(self.raw, self.variables)

    @property
    def workload(self) -> Workload:
        """The frozen workload. Raises SpecError (several problems together)."""
        return self.bound_workload.workload

    @cached_property
    def arch_inputs(self) -> ArchInputs:
        """The architecture as written, its shape checked."""
        return read_arch(self.raw)

    @cached_property
    def bound(self) -> MappingOf[str, Bound]:
        """Each Einsum with the architecture as it is for that Einsum. Raises SpecError."""
        dialect = self.dialect
        found: dict[str, Bound] = {}
        problems: list[EinmapError] = []
        for einsum in self.workload.einsums:
            table = self.bound_workload.symbols[einsum.name]
            try:
                arch, notes = bind_arch(self.arch_inputs, self.raw, self.variables, table, einsum.name, dialect)
            except EinmapError as problem:
                problems.append(problem)
                # what is wrong for one Einsum is mostly wrong for all: one report is enough
                break
            found[einsum.name] = Bound(einsum, arch, notes)
        raise_all(problems)
        return found

    def arch(self, einsum: str | None = None) -> Architecture:
        """The architecture bound for `einsum` (default: the first one). Raises SpecError for unknown Einsums."""
        name = self.workload.einsums[0].name if einsum is None else einsum
        if name not in self.workload.by_name:
            hint = did_you_mean(str(name), self.workload.by_name, listing="Einsums")
            raise SpecError(f"the workload has no Einsum {name!r}", hint=hint)
        return self.bound[name].arch

    @cached_property
    def mapping(self) -> Mapping | None:
        """The LoopTree under `mapping`, None when there is none. Raises MappingError."""
        einsums = self.workload.by_name if self.raw.get("workload") is not None else None
        return read_mapping(self.raw, einsums=einsums)

    def _options[M: Input](self, model: type[M], key: str) -> M:
        raw = self.raw.get(key)
        if raw is None:
            return model()
        problems: list[EinmapError] = []
        given = check(model, raw, self.raw, (key,), problems)
        raise_all(problems)
        assert given is not None
        return given

    @cached_property
    def model_options(self) -> ModelInput:
        """The key `model`. Raises SpecError."""
        return self._options(ModelInput, "model")

    @cached_property
    def mapper_options(self) -> MapperInput:
        """The key `mapper`. Raises SpecError."""
        return self._options(MapperInput, "mapper")

    @cached_property
    def dialect(self) -> Dialect:
        """The dialect that the architecture is written in (`config.dialect`, or detected)."""
        config = self._options(ConfigInput, "config")
        for name in ("expression_custom_functions", "component_models"):
            if getattr(config, name):
                raise SpecError(
                    f"config.{name} names code files, which a specification may not bring along",
                    at=self.provenance(f"config.{name}"),
                )
        return dialect_of(self.raw.get("arch"), config.dialect)

    @property
    def notes(self) -> tuple[Note, ...]:
        """Warnings of loading and binding, each once."""
        bound = [note for b in self.bound.values() for note in b.notes]
        return tuple(dict.fromkeys((*self.load_notes, *self.bound_workload.notes, *bound)))


def _checked(raw: Raw) -> RawMap:
    """The top level of a specification. Raises SpecError for anything else and for unknown keys."""
    if not isinstance(raw, RawMap) or raw.tag:
        raise SpecError("a specification is a dictionary", hint=f"keys: {', '.join(TOP_LEVEL)}")
    for key in raw.keys():  # noqa: SIM118 - not a dict
        if key not in TOP_LEVEL:
            raise SpecError(f"unknown top-level key {key!r}", hint=did_you_mean(key, TOP_LEVEL, listing="valid keys"))
    return raw
