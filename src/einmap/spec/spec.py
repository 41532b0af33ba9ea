"""Spec: a specification as users hold it; raw inside, bound values on demand."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any

from einmap.arch.renamed import renamed_arch
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.einsum.isomorphism import Renaming
from einmap.einsum.workload import Workload
from einmap.errors import At, EinmapError, Note, SpecError, attempt, did_you_mean, raise_all
from einmap.expressions.custom import custom_functions
from einmap.expressions.scope import Scope, lazy_layer
from einmap.expressions.sets import NameSet
from einmap.gc_pause import set_aside
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Address
from einmap.spec.binding.bind_arch import ArchInputs, bind_arch, read_arch
from einmap.spec.binding.bind_workload import BoundWorkload, bind_workload
from einmap.spec.binding.cost_origin import CostOrigin
from einmap.spec.binding.isomorphism import Likeness
from einmap.spec.binding.second_names_tree import with_second_names
from einmap.spec.dialects.dialect import Choice, Dialect, checked_dialect, choose_dialect
from einmap.spec.dialects.translate import translated
from einmap.spec.loop_tree import is_as_read, path_of_node, read_mapping, write_mapping
from einmap.spec.raw import (
    Raw,
    RawMap,
    content,
    content_hash,
    from_python,
    get_value,
    parse_path,
    place,
    set_value,
    to_python,
)
from einmap.spec.schema.base import Input, check
from einmap.spec.schema.options import ConfigInput, MapperInput, ModelInput
from einmap.spec.shared_inputs import expanded, names_copies, with_copies, without
from einmap.spec.write_workload import with_written
from einmap.visible import brief, short

TOP_LEVEL = ("arch", "workload", "renames", "mapping", "variables", "mapper", "model", "config", "distribution")
"""The top-level keys of a specification."""

_WITHOUT_MAPPING = ("variables", "bound_workload", "arch_inputs", "bound", "_dialect_choice", "model_options")
"""What is evaluated from the other parts of a specification."""

_ALLOW = "give the functions yourself: --allow-code FILE, load(..., allow_code=[...]) or load(..., functions={...})"


@dataclass(frozen=True)
class Bound:
    """What one Einsum and its architecture are once every expression is evaluated for that Einsum."""

    einsum: Einsum
    like: str
    """The first Einsum with which this one is the same but for names, its architecture included; perhaps itself."""
    notes: tuple[Note, ...]
    make: Callable[[], Architecture] = field(repr=False, compare=False)
    """Gives the architecture; most of those of Einsums that are like others are never asked for."""
    origins: MappingOf[str, CostOrigin] = field(default_factory=dict, repr=False, compare=False)
    """What the costs of each component came from, by name: estimates of models, and scales."""

    @cached_property
    def arch(self) -> Architecture:
        """The architecture as it is for the Einsum."""
        return self.make()


@dataclass(frozen=True, eq=False)
class Spec:
    """A specification: workload, architecture and perhaps a mapping. Immutable.

    The raw tree is what was written; `workload`, `arch(einsum)` and `mapping` are evaluated from it at
    first use. `set` and `with_mapping` return new specifications. Two are equal when their content is (see
    `spec.raw.content`: places, comments, and the spelling of numbers do not count), and their functions are the same.
    """

    __repr__ = brief

    raw: RawMap
    load_notes: tuple[Note, ...] = field(default=())
    functions: MappingOf[str, Callable[..., Any]] = field(default_factory=dict)
    """Functions that expressions may call beside the built-in ones, and in place of those of the same name."""
    allowed_code: frozenset[str] = frozenset()
    """The entries of `config.expression_custom_functions` that the user has allowed; `functions` has theirs."""

    @staticmethod
    def from_dict(
        value: MappingOf[str, Any] | None = None,
        functions: MappingOf[str, Callable[..., Any]] | None = None,
        **sections: Any,
    ) -> Spec:
        """A specification from plain dictionaries, lists, strings and numbers, as the YAML files hold them.

        `{"type": "Memory", ...}` stands for the tagged node `!Memory {...}`, a `LiteralString` for quoted text;
        under `mapping` a LoopTree may stand. The top-level keys may be given by name, too:

        Spec.from_dict(arch={"nodes": [...]}, workload={"einsums": ["Z[m, n] = A[m, k] * B[k, n]"], ...})

        `functions`: what expressions may call beside the built-in functions, by name.

        Raises SpecError for what is not a specification; problems inside are found at use, with their field paths.
        """
        given = {} if value is None else value
        if not isinstance(given, MappingOf):
            raise SpecError(
                f"a specification is a dictionary, found {short(value)}", hint=f"keys: {', '.join(TOP_LEVEL)}"
            )
        twice = sorted(given.keys() & sections.keys())
        if twice:
            raise SpecError(f"the section {twice[0]!r} is given twice", hint="in the dictionary or by name, not both")
        joined = {**given, **sections}
        if isinstance(joined.get("mapping"), Mapping):
            joined["mapping"] = write_mapping(joined["mapping"])
        return Spec(_checked(from_python(joined)), functions=dict(functions or {})).expanded()

    def __reduce__(self) -> tuple[Any, ...]:
        # What is evaluated from the raw tree is left out: it is evaluated again, and parts of it cannot be pickled.
        return Spec, (self.raw, self.load_notes, self.functions, self.allowed_code)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spec):
            return NotImplemented
        return self._content == other._content and self.functions == other.functions

    def __hash__(self) -> int:
        return hash(self.content_hash)

    @cached_property
    def _content(self) -> str:
        return content(self.raw)

    @cached_property
    def content_hash(self) -> str:
        """16 hexadecimal digits; equal for equal content, wherever and however it was written."""
        return content_hash(self.raw)

    def to_dict(self) -> dict[str, Any]:
        """The specification as plain dictionaries, lists and scalars: `Spec.from_dict(spec.to_dict()) == spec`.

        Tags are the key `type`; text that is never an expression is a `LiteralString`.
        """
        plain: dict[str, Any] = to_python(self.raw)
        return plain

    def get(self, path: str) -> Any:
        """What was written at `path`, as plain Python: `spec.get("arch.nodes.MAC.area")`."""
        return to_python(get_value(self.raw, parse_path(path)))

    def set(self, path: str, value: Any) -> Spec:
        """A new specification with `value` at `path`; list elements by position or by name.

        spec.set("arch.nodes.GlobalBuffer.size", "64*1024*8")
        """
        return replace(self, raw=_checked(set_value(self.raw, parse_path(path), value)))

    def with_mapping(self, mapping: Mapping) -> Spec:
        """A new specification with this LoopTree under `mapping`."""
        changed = set_value(self.raw, ("mapping",), write_mapping(mapping))
        assert isinstance(changed, RawMap)
        found = replace(self, raw=changed)
        # no expression sees the mapping: what is evaluated already stays as it is
        known = {name: self.__dict__[name] for name in _WITHOUT_MAPPING if name in self.__dict__}
        found.__dict__.update(known, _given_mapping=mapping)
        return found

    def with_workload(self, workload: Workload) -> Spec:
        """A new specification of this workload, made from that of this one: its tensors have the names they had.

        Renames of an Einsum go on to hold for the one of that name, or else for one that reads the same tensors. There
        is none, since the mapping that there was is for other rank variables.
        """
        names = self.bound_workload.written_names
        return replace(self, raw=without(with_written(self.raw, self.workload, names, workload), "mapping"))

    def with_shared_inputs(self, copies: MappingOf[str, str]) -> Spec:
        """A new specification in which a copy Einsum reads each of these graph inputs, and their users read the copy.

        `copies`: the name of the copy by that of the input (`spec.shared_inputs.shareable`). There is no mapping, since
        the one that there was is for other Einsums.
        """
        names = self.bound_workload.written_names
        found = replace(self, raw=without(with_copies(self.raw, self.workload, names, copies), "mapping"))
        found.__dict__["_original"] = self
        return found

    @property
    def _without_copies(self) -> Spec | None:
        """The specification that this one is but for copies of some inputs; what is the same is bound once."""
        found: Spec | None = self.__dict__.get("_original")
        return found

    def expanded(self) -> Spec:
        """The specification with the copies that its mapping names under `shared_inputs`. Raises SpecError."""
        if not names_copies(self.raw):
            return self
        return replace(self, raw=expanded(self.raw, self.workload, self.bound_workload.written_names))

    def provenance(self, path: str) -> At:
        """The file and line where `path`, or the nearest part of it that exists, was written."""
        return place(self.raw, parse_path(path))

    def place_of_node(self, address: Address) -> At:
        """Where a node of the mapping was written."""
        return place(self._raw_of_mapping, path_of_node(self._raw_of_mapping, address))

    def place_of_component(self, name: str) -> At:
        """Where a component of the architecture was written."""
        path = next((leaf.path for leaf in self.arch_inputs.leaves if leaf.given.name == name), ("arch",))
        return place(self.raw, path)

    @cached_property
    def variables(self) -> Scope:
        """The scope of the top-level `variables`, above the functions that the user gives."""
        functions = Scope().layer(custom_functions(self.functions))
        raw = self.raw.get("variables")
        if raw is None:
            return functions
        if not isinstance(raw, RawMap):
            raise SpecError("variables must be a dictionary", at=place(self.raw, ("variables",)))
        texts = {name: to_python(value) for name, value in raw.items}
        layer = lazy_layer(texts, functions, lambda name: place(self.raw, ("variables", name)))
        problems: list[EinmapError] = []
        values = {name: attempt(problems, partial(layer.lookup, name)) for name in texts}
        raise_all(problems)
        return layer.layer({"variables": values})

    @cached_property
    def bound_workload(self) -> BoundWorkload:
        """The workload with the symbols of each Einsum. Raises SpecError."""
        original = self._without_copies
        return bind_workload(self.raw, self.variables, original.bound_workload if original is not None else None)

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
        with set_aside():
            return self._all_bound()

    def _all_bound(self) -> MappingOf[str, Bound]:
        dialect = self._dialect_choice
        found: dict[str, Bound] = {}
        problems: list[EinmapError] = []
        variables = self._variables_and_spec()
        where = cache(partial(place, self.raw))
        same = self._without_copies.bound if self._without_copies is not None else {}
        likeness = Likeness(self.raw, self.functions)
        firsts: dict[Hashable, str] = {}
        likes: dict[str, str] = {}
        for einsum in self.workload.einsums:
            table = self.bound_workload.einsums[einsum.name].symbols
            known = same.get(einsum.name)
            unchanged = known is not None and known.einsum is einsum
            if known is not None and unchanged and known.like in likes:
                like = likes[known.like]
            else:
                like = firsts.setdefault(likeness.key(einsum, table), einsum.name)
            if known is not None and unchanged:
                likes[known.like] = like
                other = Bound(einsum, like, known.notes, partial(getattr, known, "arch"), known.origins)
                found[einsum.name] = known if known.like == like else other
                continue
            if like != einsum.name:
                first = found[like]
                found[einsum.name] = Bound(
                    einsum, like, first.notes, partial(_like, first, einsum, table["All"]), first.origins
                )
                continue
            try:
                arch, notes, origins = bind_arch(self.arch_inputs, where, variables, table, einsum.name, dialect)
            except EinmapError as problem:
                problems.append(problem)
                # what is wrong for one Einsum is mostly wrong for all: one report is enough
                break
            found[einsum.name] = Bound(einsum, like, notes, partial(_itself, arch), origins)
        raise_all(problems)
        return found

    @cached_property
    def archs(self) -> MappingOf[str, Architecture]:
        """The architecture as it is for each Einsum, made when it is asked for."""
        return _Archs(self.bound)

    def _variables_and_spec(self) -> Scope:
        """What expressions of the architecture see outside of it: `variables`, and the workload's sizes in `spec`."""
        scope = self.variables
        if "spec" in scope.names():
            return scope
        bound = self.bound_workload
        workload = {"rank_sizes": bound.rank_sizes, "n_instances": bound.workload.n_instances}
        return scope.layer({"spec": {"variables": scope.get("variables", {}), "workload": workload}})

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
        given: Mapping | None = self.__dict__.get("_given_mapping")
        if given is not None and self._raw_of_mapping is self.raw and is_as_read(given, einsums):
            return given
        return read_mapping(self._raw_of_mapping, einsums=einsums)

    @cached_property
    def _raw_of_mapping(self) -> RawMap:
        """What was written, the mapping with copies that were put into the workload where it does not map them."""
        if self.raw.get("workload") is None or self.raw.get("mapping") is None:
            return self.raw
        return with_second_names(self.raw, self.workload, self.bound_workload.second_names)

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

    @property
    def dialect(self) -> Dialect:
        """The dialect that the architecture is written in (`config.dialect`, or detected). Raises SpecError."""
        return self._dialect_choice.dialect

    @cached_property
    def _dialect_choice(self) -> Choice:
        config = self._options(ConfigInput, "config")
        for name in ("expression_custom_functions", "component_models"):
            if not self.allowed_code.issuperset(getattr(config, name)):
                raise SpecError(
                    f"config.{name} names code files, which a specification may not bring along",
                    at=self.provenance(f"config.{name}"),
                    hint=_ALLOW if name == "expression_custom_functions" else None,
                )
        return choose_dialect(self.raw.get("arch"), config.dialect, self.provenance("config.dialect"))

    def in_dialect(self, dialect: str) -> Spec:
        """This specification in the words of `older` or `newer`; what both dialects have is left as it is.

        !Fanout {...}, latency: 1 / (8 * 614e9) --> !Container {...}, throughput: 8 * 614e9

        Costs stay the same up to rounding. Raises SpecError (several problems together) naming place and
        construct for what the older dialect cannot express.
        """
        wanted = checked_dialect(dialect)
        return replace(self, raw=translated(self.raw, wanted, self.dialect, self.variables, self._symbols))

    def _symbols(self) -> MappingOf[str, MappingOf[str, NameSet]]:
        return self.bound_workload.symbols

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
            hint = did_you_mean(key, TOP_LEVEL, listing="valid keys")
            raise SpecError(f"unknown top-level key {key!r}", at=At(path=key or "''"), hint=hint)
    return raw


@dataclass(frozen=True)
class _Archs(MappingOf[str, Architecture]):
    bound: MappingOf[str, Bound]

    def __getitem__(self, einsum: str) -> Architecture:
        return self.bound[einsum].arch

    def __iter__(self) -> Iterator[str]:
        return iter(self.bound)

    def __len__(self) -> int:
        return len(self.bound)


def _itself(arch: Architecture) -> Architecture:
    return arch


def _like(first: Bound, einsum: Einsum, everything: NameSet) -> Architecture:
    """The architecture of an Einsum that is the same as another one but for names."""
    return renamed_arch(first.arch, Renaming(first.einsum, einsum), everything)
