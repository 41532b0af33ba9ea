"""Spec: a specification as users hold it; raw inside, bound values on demand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from collections.abc import Mapping as MappingOf
from dataclasses import InitVar, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from einmap.arch.component import Component
from einmap.arch.tree import Architecture
from einmap.einsum.spaces.recurrence import refuse_recurrences
from einmap.einsum.workload import Workload
from einmap.errors import At, Note, NotSupportedError, SpecError, did_you_mean
from einmap.expressions.scope import Scope
from einmap.expressions.sets import NameSet
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Address
from einmap.spec.binding.bind_arch import ArchInputs
from einmap.spec.binding.workload.bind_workload import BoundWorkload
from einmap.spec.binding.workload.second_names_tree import with_second_names
from einmap.spec.bindings import Bindings, Bound, InPlace
from einmap.spec.dialects.dialect import Dialect, checked_dialect
from einmap.spec.dialects.rewrite import translated
from einmap.spec.forms.chosen_formats import (
    ChosenFormats,
    chosen_formats,
    names_formats,
    with_chosen_formats,
    with_formats_of_mapping,
)
from einmap.spec.forms.chosen_layouts import (
    Chosen,
    Lies,
    chosen_layouts,
    names_layouts,
    with_chosen,
    with_layouts_of_mapping,
)
from einmap.spec.forms.loop_tree import is_as_read, path_of_node, read_mapping, write_mapping
from einmap.spec.forms.rewritten import expanded as with_rewrites
from einmap.spec.forms.rewritten import names_rewrites
from einmap.spec.forms.write_workload import with_written
from einmap.spec.models import Models, models_given, take_objects
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
from einmap.spec.schema.options import MapperInput, ModelInput
from einmap.spec.shared_inputs import expanded, names_copies, shareable, with_copies, without
from einmap.visible import brief, short

if TYPE_CHECKING:
    from einmap.sparse.savings import Sparsity

TOP_LEVEL = (
    *("arch", "workload", "renames", "sparsity", "mapping", "variables", "mapper", "model", "config"),
    *("distribution", "cluster"),
)
"""The top-level keys of a specification."""


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
    """Code files that `config` names and the user has allowed; `functions` and `models` have what is in them."""
    models: Models = field(default_factory=Models)
    """Component models that come with the specification, beside those that einmap has."""
    bindings: Bindings = field(init=False, repr=False)
    """Values evaluated from everything but the mapping."""
    _loop_tree: Mapping | None = field(init=False, repr=False)
    """The LoopTree that is written under `mapping`, where it is known."""
    # not kept as they are, so that `replace` with another raw tree does not hand them on
    _bindings: InitVar[Bindings | None] = None
    _tree: InitVar[Mapping | None] = None

    def __post_init__(self, _bindings: Bindings | None, _tree: Mapping | None) -> None:
        bindings = _bindings or Bindings(self.raw, self.functions, self.allowed_code, self.models)
        object.__setattr__(self, "bindings", bindings)
        object.__setattr__(self, "_loop_tree", _tree)

    @staticmethod
    def from_dict(
        value: MappingOf[str, Any] | None = None,
        functions: MappingOf[str, Callable[..., Any]] | None = None,
        component_models: Any = (),
        **sections: Any,
    ) -> Spec:
        """A specification from plain dictionaries, lists, strings and numbers, as the YAML files hold them.

        `{"type": "Memory", ...}` stands for the tagged node `!Memory {...}`, a `LiteralString` for quoted text;
        under `mapping` a LoopTree may stand. The top-level keys may be given by name, too:

        Spec.from_dict(arch={"nodes": [...]}, workload={"einsums": ["Z[m, n] = A[m, k] * B[k, n]"], ...})

        `functions`: what expressions may call beside the built-in functions, by name. `component_models`: Python
        classes or objects that `component_class` may name; one that stands under `component_model` is used there.

        Raises SpecError for what is not a specification; problems inside are found at use, with their field paths.
        """
        whole = {} if value is None else value
        if not isinstance(whole, MappingOf):
            raise SpecError(
                f"a specification is a dictionary, found {short(value)}", hint=f"keys: {', '.join(TOP_LEVEL)}"
            )
        twice = sorted(whole.keys() & sections.keys())
        if twice:
            raise SpecError(f"the section {twice[0]!r} is given twice", hint="in the dictionary or by name, not both")
        joined = {**whole, **sections}
        if isinstance(joined.get("mapping"), Mapping):
            joined["mapping"] = write_mapping(joined["mapping"])
        plain, objects = take_objects(joined)
        models = Models(models_given(component_models), objects)
        return Spec(_checked(from_python(plain)), functions=dict(functions or {}), models=models).expanded()

    def __reduce__(self) -> tuple[Any, ...]:
        # What is evaluated from the raw tree is left out: it is evaluated again, and parts of it cannot be pickled.
        return Spec, (self.raw, self.load_notes, self.functions, self.allowed_code, self.models)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spec):
            return NotImplemented
        same = self.functions == other.functions and self.models == other.models
        return same and self._content == other._content

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
        """The value written at `path`, as plain Python: `spec.get("arch.nodes.MAC.area")`."""
        return to_python(get_value(self.raw, parse_path(path)))

    def set(self, path: str, value: Any) -> Spec:
        """A new specification with `value` at `path`; list elements by position or by name.

        spec.set("arch.nodes.GlobalBuffer.size", "64*1024*8")
        """
        steps = parse_path(path)
        plain, objects = take_objects(value, self.models.objects, is_model=steps[-1:] == ("component_model",))
        raw = _checked(set_value(self.raw, steps, plain))
        if steps[:1] == ("arch",) and not objects:
            tree = self.__dict__.get("mapping", self._loop_tree)  # as far as it was read
            return replace(self, raw=raw, _bindings=self.bindings.with_arch(raw), _tree=tree)
        return replace(self, raw=raw, models=self.models.with_objects(objects))

    def with_mapping(self, mapping: Mapping) -> Spec:
        """A new specification with this LoopTree under `mapping`, and with the copies of inputs that it has Einsums of.

        A search may copy an input that several Einsums read, as `X_shared`; the specification that it began with has no
        such Einsum. Layouts and formats that a search chose are in `MapResult.spec` alone.
        """
        if self.raw.get("workload") is not None and (unknown := mapping.path_of.keys() - self.workload.by_name.keys()):
            copies = {tensor: name for tensor, name in shareable(self.workload).items() if name in unknown}
            if copies:
                return self.with_shared_inputs(copies).with_mapping(mapping)
        changed = set_value(self.raw, ("mapping",), write_mapping(mapping))
        return replace(self, raw=_checked(changed), _bindings=self.bindings, _tree=mapping)

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
        raw = without(with_copies(self.raw, self.workload, names, copies), "mapping")
        bindings = replace(self.bindings, raw=raw, original=self.bindings)
        return replace(self, raw=raw, _bindings=bindings)

    def with_altered_archs(self, altered: Callable[[Architecture], Architecture]) -> Spec:
        """A new specification without overlapping Einsums, whose architectures are altered once they are bound.

        That is not written anywhere: it is lost where the specification is changed or sent to another process.
        """
        raw = _checked(set_value(self.raw, parse_path("model.overlap_einsums"), False))
        return replace(self, raw=raw, _bindings=replace(self.bindings, raw=raw, original=None, altered=altered))

    def with_einsums(self, workload: Workload, altered: Callable[[str, Architecture], Architecture]) -> Spec:
        """A new specification in which Einsums have further tensors, and architectures are altered by Einsum.

        As `with_altered_archs` says, that is not written anywhere.
        """
        in_place = InPlace(workload, altered, self.bound)
        return replace(self, _bindings=replace(self.bindings, in_place=in_place))

    def with_waiting(self, seconds: float) -> Spec:
        """A new specification in which the first Einsum waits so long in each run, in place of what splits wait for.

        As `with_altered_archs` says, that is not written anywhere.
        """
        return replace(self, _bindings=replace(self.bindings, waiting=seconds))

    def with_layouts(self, chosen: Chosen) -> Spec:
        """A new specification in which some layouts that are left open are chosen, by memory and tensor."""
        return replace(self, raw=with_chosen(self.raw, self.arch_inputs, chosen))

    @property
    def layouts(self) -> dict[str, dict[str, Lies]]:
        """Layouts chosen where they are left open, by memory and tensor."""
        return chosen_layouts(self.arch_inputs)

    def with_formats(self, chosen: ChosenFormats) -> Spec:
        """A new specification in which some formats that are left open are chosen, by memory and tensor."""
        return replace(self, raw=with_chosen_formats(self.raw, chosen))

    def dense(self) -> Spec:
        """A new specification without the key `sparsity`."""
        return replace(self, raw=without(self.raw, "sparsity"))

    @property
    def formats(self) -> dict[str, dict[str, Any]]:
        """Formats of sparse tensors chosen where they are left open, as written, by memory and tensor."""
        return chosen_formats(self.raw)

    def expanded(self) -> Spec:
        """The specification of what its mapping names: cascade, layouts, formats, copies. Raises SpecError."""
        if names_rewrites(self.raw):
            names = self.bound_workload.written_names
            return replace(self, raw=with_rewrites(self.raw, self.workload, names)).expanded()
        if names_layouts(self.raw):
            return replace(self, raw=with_layouts_of_mapping(self.raw, self.arch_inputs)).expanded()
        if names_formats(self.raw):
            return replace(self, raw=with_formats_of_mapping(self.raw)).expanded()
        if not names_copies(self.raw):
            return self
        return replace(self, raw=expanded(self.raw, self.workload, self.bound_workload.written_names))

    def provenance(self, path: str) -> At:
        """The file and line where `path`, or the nearest part of it that exists, was written."""
        return place(self.raw, parse_path(path))

    def place_of_node(self, address: Address) -> At:
        """Where a node of the mapping was written."""
        return place(self._raw_of_mapping, path_of_node(self._raw_of_mapping, address))

    def place_of_component(self, name: str, field: str = "") -> At:
        """Where a component of the architecture, or a field of it, was written."""
        path = next((leaf.path for leaf in self.arch_inputs.leaves if leaf.given.name == name), ("arch",))
        return place(self.raw, (*path, field) if field else path)

    @property
    def variables(self) -> Scope:
        """The scope of the top-level `variables`, above the functions that the user gives."""
        return self.bindings.variables

    @property
    def bound_workload(self) -> BoundWorkload:
        """The workload with the symbols of each Einsum. Raises SpecError."""
        return self.bindings.bound_workload

    @property
    def workload(self) -> Workload:
        """The frozen workload. Raises SpecError (several problems together)."""
        return self.bindings.bound_workload.workload

    def place_of_einsum(self, name: str) -> At:
        """Where an Einsum of the workload was written."""
        return place(self.raw, self.bound_workload.einsums[name].written.path)

    def refuse_recurrences(self, what: str, hint: str | None = None) -> None:
        """Raise NotSupportedError where the workload has a recurrence. `what`: what does not know them."""
        found = self.workload.recurrences
        if found:
            refuse_recurrences(found, what, self.place_of_einsum(found[0].einsums[0]), hint)

    @property
    def arch_inputs(self) -> ArchInputs:
        """The architecture as written, its shape checked."""
        return self.bindings.arch_inputs

    @property
    def bound(self) -> MappingOf[str, Bound]:
        """Each Einsum with the architecture as it is for that Einsum. Raises SpecError."""
        return self.bindings.bound

    @property
    def archs(self) -> MappingOf[str, Architecture]:
        """The architecture as it is for each Einsum, made when it is asked for."""
        return self.bindings.archs

    def distinct_components(self) -> Iterator[tuple[Component, ...]]:
        """The components as they are for each Einsum that is not the same as another one."""
        for name, bound in self.bound.items():
            if bound.like == name:
                yield tuple(bound.arch.components.values())

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
        tree = self._loop_tree
        if tree is not None and self._raw_of_mapping is self.raw and is_as_read(tree, einsums):
            return tree
        return read_mapping(self._raw_of_mapping, einsums=einsums)

    @cached_property
    def _raw_of_mapping(self) -> RawMap:
        """The written tree, the mapping with copies that were put into the workload where it does not map them."""
        if self.raw.get("workload") is None or self.raw.get("mapping") is None:
            return self.raw
        return with_second_names(self.raw, self.workload, self.bound_workload.second_names)

    @property
    def model_options(self) -> ModelInput:
        """The key `model`. Raises SpecError."""
        return self.bindings.model_options

    @property
    def sparsity(self) -> MappingOf[str, Sparsity]:
        """Zeros of each Einsum's tensors, and what they save; empty where all tensors are dense. Raises SpecError."""
        return self.bindings.sparsity

    def refuse_sparsity(self, what: str) -> None:
        """Raise NotSupportedError where the specification has the key `sparsity`. `what`: what does not know it."""
        if self.sparsity:
            raise NotSupportedError(
                f"{what} does not know zeros of tensors yet",
                at=self.provenance("sparsity"),
                hint="leave out the key sparsity; einmap evaluate, simulate, explain and map know it",
            )

    @property
    def mapper_options(self) -> MapperInput:
        """The key `mapper`. Raises SpecError."""
        return self.bindings.mapper_options

    @property
    def runs_code(self) -> bool:
        """Whether code of the user decides what the specification means: functions, or models of components."""
        return self.bindings.runs_code

    @property
    def dialect(self) -> Dialect:
        """The dialect that the architecture is written in (`config.dialect`, or detected). Raises SpecError."""
        return self.bindings.dialect_choice.dialect

    def in_dialect(self, dialect: str) -> Spec:
        """This specification in the words of `older` or `newer`; what both dialects have is left as it is.

        !Fanout {...}, latency: 1 / (8 * 614e9) --> !Container {...}, throughput: 8 * 614e9

        Costs stay the same up to rounding. Raises SpecError (several problems together) naming place and
        construct for what the older dialect cannot express.
        """
        target = checked_dialect(dialect)
        return replace(self, raw=translated(self.raw, target, self.dialect, self.variables, self._symbols))

    def _symbols(self) -> MappingOf[str, MappingOf[str, NameSet]]:
        return self.bound_workload.symbols

    @property
    def distribution_notes(self) -> tuple[Note, ...]:
        """Warnings of loading, and of binding the workload, that concern its distribution too."""
        every = (*self.load_notes, *self.bound_workload.notes)
        return tuple(note for note in every if not note.mappings_only)

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


def checked_spec(value: object, function: str) -> Spec:
    """The argument, if it is a specification. Raises TypeError that says how files become one."""
    if isinstance(value, Spec):
        return value
    kind = type(value).__name__
    raise TypeError(f"{function} takes a specification, found a {kind}; einmap.load(...) makes one of files")
