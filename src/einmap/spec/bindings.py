"""Values evaluated from a specification, each part at first use; the mapping is not among them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from einmap.arch.renamed import renamed_arch
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.einsum.isomorphism import Renaming
from einmap.einsum.workload import Workload
from einmap.errors import EinmapError, Note, SpecError, attempt, raise_all
from einmap.expressions.evaluator.custom import custom_functions
from einmap.expressions.scope import Scope, lazy_layer
from einmap.expressions.sets import NameSet
from einmap.gc_pause import set_aside
from einmap.spec.binding.bind_arch import ArchInputs, bind_arch, read_arch
from einmap.spec.binding.component.applied_scales import CostOrigin
from einmap.spec.binding.enabled_computes import with_computes
from einmap.spec.binding.function_view import SpecView
from einmap.spec.binding.isomorphism import Likeness, names_ranks
from einmap.spec.binding.workload.bind_workload import BoundWorkload, bind_workload
from einmap.spec.dialects.dialect import Choice, choose_dialect
from einmap.spec.models import ModelChoice, Models, check_files_read, checked_installed
from einmap.spec.raw import Path, Places, RawMap, place, to_python
from einmap.spec.schema.arch import ComponentInput, ContainerInput
from einmap.spec.schema.base import Input, check
from einmap.spec.schema.options import ConfigInput, MapperInput, ModelInput
from einmap.spec.schema.sparsity import SparsityInput
from einmap.visible import brief

if TYPE_CHECKING:
    from einmap.sparse.savings import Sparsity

_NODES: Path = ("arch", "nodes")
_ALLOW = "give the functions yourself: --allow-code FILE, load(..., allow_code=[...]) or load(..., functions={...})"


@dataclass(frozen=True)
class Bound:
    """One Einsum and its architecture with every expression evaluated for that Einsum."""

    einsum: Einsum
    like: str
    """The first Einsum with which this one is the same but for names, its architecture included; perhaps itself."""
    notes: tuple[Note, ...]
    make: Callable[[], Architecture] = field(repr=False, compare=False)
    """Gives the architecture; most of those of Einsums that are like others are never asked for."""
    origins: Mapping[str, CostOrigin] = field(default_factory=dict, repr=False, compare=False)
    """Origin of the costs of each component, by name: estimates of models, and scales."""

    @cached_property
    def arch(self) -> Architecture:
        """The architecture as it is for the Einsum."""
        return self.make()


@dataclass(frozen=True, eq=False)
class InPlace:
    """Einsums by the names of those in whose place they are, which are `bound`.

    `altered`: what is done to the architecture of each.
    """

    workload: Workload
    altered: Callable[[str, Architecture], Architecture]
    bound: Mapping[str, Bound]

    def each(self) -> Mapping[str, Bound]:
        """Replacement of each Einsum that was bound; none counts as the same as another one."""
        return {
            name: replace(self.bound[name], einsum=einsum, like=name, make=partial(self._made, name))
            for name, einsum in self.workload.by_name.items()
        }

    def _made(self, name: str) -> Architecture:
        return self.altered(name, self.bound[name].arch)


@dataclass(frozen=True, eq=False)
class Bindings:
    """Workload, architecture and options of a specification, with every expression evaluated.

    No expression sees the mapping, so that specifications that differ in it alone hold the same bindings. `original`:
    those of the specification that this one is but for copies of some inputs; what is the same is bound once.
    `altered`: what is done to each architecture once it is bound, if anything. `waiting`: seconds in place of those
    that fused Einsums wait for once (`model.ways`), if not these. `in_place`: Einsums in place of those that are bound,
    with what is done to their architectures. `before`: those of the specification that this one is but for its
    architecture; the workload is the same.
    """

    __repr__ = brief

    raw: RawMap
    functions: Mapping[str, Callable[..., Any]]
    allowed_code: frozenset[str]
    models: Models
    original: Bindings | None = None
    altered: Callable[[Architecture], Architecture] | None = None
    waiting: float | None = None
    in_place: InPlace | None = None
    before: Bindings | None = None

    def with_arch(self, raw: RawMap) -> Bindings:
        """The bindings of a specification whose key `arch` alone is another one."""
        fresh = Bindings(raw, self.functions, self.allowed_code, self.models)
        is_plain = self.original is None and self.in_place is None
        return replace(fresh, before=self.before or self) if is_plain else fresh

    @cached_property
    def variables(self) -> Scope:
        """The scope of the top-level `variables`, above the functions that the user gives."""
        if self.before is not None:
            return self.before.variables
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
        original = self.original
        if self.before is not None:
            bound = self.before.bound_workload
        else:
            bound = bind_workload(self.raw, self.variables, original.bound_workload if original is not None else None)
        return bound if self.in_place is None else replace(bound, workload=self.in_place.workload)

    @cached_property
    def arch_inputs(self) -> ArchInputs:
        """The architecture as written, its shape checked."""
        return read_arch(self.raw)

    @cached_property
    def bound(self) -> Mapping[str, Bound]:
        """Each Einsum with the architecture as it is for that Einsum. Raises SpecError."""
        if self.in_place is not None:
            return self.in_place.each()
        with set_aside():
            return self._all_bound()

    def _all_bound(self) -> Mapping[str, Bound]:
        dialect, scope, models = self.dialect_choice, self.arch_scope, self.model_choice
        every: dict[str, Bound] = {}
        problems: list[EinmapError] = []
        where = Places(self.raw).of
        originals = self.original.bound if self.original is not None else {}
        einsums = self.bound_workload.workload.einsums
        likeness = None  # of one Einsum there is nothing to compare
        if len(einsums) > 1:
            likeness = Likeness(self.raw, self.functions, by_name=names_ranks(self.arch_inputs))
        firsts: dict[Hashable, str] = {}
        likes: dict[str, str] = {}
        """For the first of Einsums that are alike in the original, the first of those here."""
        for einsum in einsums:
            symbols = self.bound_workload.einsums[einsum.name].symbols
            before = originals.get(einsum.name)
            if before is not None and before.einsum is not einsum:
                before = None
            if before is not None and before.like in likes:
                like = likes[before.like]
            else:
                key = einsum.name if likeness is None else likeness.key(einsum, symbols)
                like = firsts.setdefault(key, einsum.name)
            if before is not None:
                likes[before.like] = like
                changed = replace(before, like=like, make=partial(getattr, before, "arch"))
                every[einsum.name] = before if before.like == like else changed
            elif like != einsum.name:
                make = partial(_like, every[like], einsum, symbols["All"])
                every[einsum.name] = replace(every[like], einsum=einsum, like=like, make=make)
            else:
                try:
                    arch, notes, origins = bind_arch(
                        self.arch_inputs,
                        where,
                        scope,
                        symbols,
                        einsum,
                        dialect,
                        models,
                        partial(self._sizes_in, einsum),
                    )
                    arch = with_computes(
                        arch, einsum, partial(where, (*self._path_of(einsum), "compute")), where(_NODES)
                    )
                except EinmapError as problem:
                    problems.append(problem)
                    # what is wrong for one Einsum is mostly wrong for all: one report is enough
                    break
                arch = arch if self.altered is None else self.altered(arch)
                every[einsum.name] = Bound(einsum, like, notes, partial(_itself, arch), origins)
        raise_all(problems)
        return every

    def _path_of(self, einsum: Einsum) -> Path:
        return self.bound_workload.einsums[einsum.name].written.path

    def _sizes_in(self, einsum: Einsum, tensor: str) -> Mapping[str, int]:
        """The size of each rank of a tensor, in the order of its indices in an Einsum."""
        sizes = self.rank_sizes[tensor]
        return {rank: sizes[rank] for rank, _ in einsum.by_tensor[tensor].written}

    @cached_property
    def rank_sizes(self) -> Mapping[str, Mapping[str, int]]:
        """For each tensor and rank the largest index that any Einsum uses, plus 1."""
        sizes: dict[str, dict[str, int]] = {}
        for einsum in self.bound_workload.workload.einsums:
            for access in einsum.accesses:
                of_tensor = sizes.setdefault(access.tensor, {})
                for rank, (_, last) in einsum.index_range(access).items():
                    of_tensor[rank] = max(of_tensor.get(rank, 1), last + 1)
        return sizes

    @cached_property
    def archs(self) -> Mapping[str, Architecture]:
        """The architecture as it is for each Einsum, made when it is asked for."""
        return _Archs(self.bound)

    @cached_property
    def arch_scope(self) -> Scope:
        """Scope around expressions of the architecture: `variables`, and the workload's sizes in `spec`."""
        scope = self.variables
        if "spec" in scope.names():
            return scope
        bound = self.bound_workload
        workload = {"rank_sizes": bound.rank_sizes, "n_instances": bound.workload.n_instances}
        data = {"variables": scope.get("variables", {}), "workload": workload}
        return scope.layer({"spec": SpecView(data, self._tagged_leaves, self._arch_variables)})

    def _tagged_leaves(self) -> list[tuple[str, ContainerInput]]:
        return [(leaf.tag, leaf.given) for leaf in self.arch_inputs.leaves]

    def _arch_variables(self) -> Scope:
        """The variables of `arch` above the top-level ones, without any Einsum."""
        at = partial(place, self.raw)
        texts = self.arch_inputs.given.variables
        return lazy_layer(texts, self.variables, lambda name: at(("arch", "variables", name)))

    def _options[M: Input](self, model: type[M], key: str) -> M:
        raw = self.raw.get(key)
        if raw is None:
            return model()
        problems: list[EinmapError] = []
        checked = check(model, raw, self.raw, (key,), problems)
        raise_all(problems)
        assert checked is not None
        return checked

    @cached_property
    def model_options(self) -> ModelInput:
        """The key `model`. Raises SpecError."""
        return self._options(ModelInput, "model")

    @cached_property
    def mapper_options(self) -> MapperInput:
        """The key `mapper`. Raises SpecError."""
        return self._options(MapperInput, "mapper")

    @cached_property
    def model_choice(self) -> ModelChoice:
        """Which models components may name. Raises SpecError for files that nobody has read."""
        config = self._options(ConfigInput, "config")
        check_files_read(config.component_models, self.models, place(self.raw, ("config", "component_models")))
        at = place(self.raw, ("config", "use_installed_component_models"))
        return ModelChoice(self.models, checked_installed(config.use_installed_component_models, at))

    @cached_property
    def sparsity_input(self) -> SparsityInput:
        """The key `sparsity` as written, its shape checked. Raises SpecError."""
        return self._options(SparsityInput, "sparsity")

    @cached_property
    def sparsity(self) -> Mapping[str, Sparsity]:
        """Zeros of each Einsum's tensors, and what they save; empty without the key `sparsity`. Raises SpecError."""
        if self.raw.get("sparsity") is None:
            return {}
        # Here, not above: few specifications have the key
        from einmap.spec.binding.sparsity import SparsityBinder, one_density_each, propagated

        given = self.sparsity_input
        binder = SparsityBinder(
            given, lambda path: place(self.raw, ("sparsity", *path)), self.arch_scope, self.rank_sizes
        )
        workload = self.bound_workload
        bound = {
            name: binder.bind(of_einsum.einsum, of_einsum.symbols, self.archs[name])
            for name, of_einsum in workload.einsums.items()
        }
        binder.check_savings()
        each = one_density_each(bound, place(self.raw, ("sparsity", "densities")))
        at = place(self.raw, ("sparsity", "formats"))
        return propagated(each, workload.workload, binder.given_densities, self.rank_sizes, at)

    @cached_property
    def sparsity_notes(self) -> tuple[Note, ...]:
        """Notes on energies of saved actions. Raises SpecError."""
        if not self.sparsity:
            return ()
        from einmap.spec.binding.saved_energies import costly_savings

        return costly_savings(self.sparsity, self.archs, lambda path: place(self.raw, ("sparsity", *path)))

    @property
    def runs_code(self) -> bool:
        """Whether code of the user decides what the specification means: functions, or models of components."""
        if self.functions or self.models.fingerprint is None:
            return True
        leaves = (leaf.given for leaf in self.arch_inputs.leaves)
        return any(self.model_choice.runs_code(leaf) for leaf in leaves if isinstance(leaf, ComponentInput))

    @cached_property
    def dialect_choice(self) -> Choice:
        """The dialect of the architecture, and why it is taken for that. Raises SpecError."""
        config = self._options(ConfigInput, "config")
        if not self.allowed_code.issuperset(config.expression_custom_functions):
            raise SpecError(
                "config.expression_custom_functions names code files, which a specification may not bring along",
                at=place(self.raw, ("config", "expression_custom_functions")),
                hint=_ALLOW,
            )
        return choose_dialect(self.raw.get("arch"), config.dialect, place(self.raw, ("config", "dialect")))


@dataclass(frozen=True)
class _Archs(Mapping[str, Architecture]):
    bound: Mapping[str, Bound]

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
