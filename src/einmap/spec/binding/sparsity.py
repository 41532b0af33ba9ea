"""The key `sparsity` into values: densities, formats and savings of each Einsum, errors at their fields."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from math import prod
from pathlib import Path as File
from typing import TypeGuard, cast

import numpy as np

from einmap.arch.component import Component, Compute, Memory
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.einsum.workload import Workload
from einmap.errors import At, EinmapError, SpecError, did_you_mean
from einmap.expressions.arithmetic import number, tensor_set
from einmap.expressions.scope import Scope
from einmap.expressions.sets import NameSet
from einmap.sparse.blocks import fitting
from einmap.sparse.densities import Density, Even, Structured, Uniform
from einmap.sparse.formats import Format
from einmap.sparse.known import Known
from einmap.sparse.masks import KINDS, WrongShape, banded, check_size, read_mask
from einmap.sparse.propagated import written_density
from einmap.sparse.savings import Fills, Saving, Sparsity
from einmap.spec.binding.formats import FormatBinder
from einmap.spec.binding.per_tensor import per_tensor
from einmap.spec.raw import Path
from einmap.spec.schema.documented import flow_text, word_in
from einmap.spec.schema.sparsity import (
    DensityInput,
    FormatLevelInput,
    NamedFormatInput,
    SavingEnergiesInput,
    SavingInput,
    SparsityInput,
)
from einmap.visible import short

MOST_OF_A_BLOCK = 4096
"""Values of the largest block of a structured density."""
_PERCENT = re.compile(r"\s*(\d+\.?\d*)\s*%\s*")
_FORMS = ("uniform", "structured", "even", "band", "file")

type Sizes = Mapping[str, int]
"""Sizes of the ranks of a tensor, in order."""


type GivenFormat = str | NamedFormatInput | list[FormatLevelInput]
type AnyFormat = GivenFormat | list[GivenFormat]
"""A format, or several of which one is to be chosen."""


def is_choice(given: AnyFormat) -> TypeGuard[list[GivenFormat]]:
    """Whether several formats are given, of which one is to be chosen."""
    return isinstance(given, list) and any(not isinstance(one, FormatLevelInput) for one in given)


def _plain(given: GivenFormat) -> object:
    return NamedFormatInput(name=given) if isinstance(given, str) else given


def _shown(given: GivenFormat) -> str:
    """A format as it is written."""
    if isinstance(given, str):
        return given
    if isinstance(given, NamedFormatInput):
        return flow_text(given.model_dump(exclude_unset=True))
    return flow_text([level.model_dump(exclude_unset=True) for level in given])


@dataclass(frozen=True, eq=False)
class SparsityBinder:
    """Binds `sparsity` for Einsums one by one. `where`: place of a path below the key; `sizes`: ranks by tensor."""

    given: SparsityInput
    where: Callable[[Path], At]
    scope: Scope
    sizes: Mapping[str, Sizes]
    given_densities: set[str] = field(default_factory=set)
    """Tensors of the Einsums bound so far whose densities are given; others are dense unless they are propagated."""
    _densities: dict[tuple[str, At], Density] = field(default_factory=dict)
    _named: set[str] = field(default_factory=set)
    """Fields of savings that name a tensor of some Einsum."""
    _writers: dict[tuple[str, str], str | None] = field(default_factory=dict)
    """By field `on` and tensor the Einsum that writes it; None where another Einsum reads it."""

    def bind(self, einsum: Einsum, symbols: Mapping[str, NameSet], arch: Architecture) -> Sparsity:
        """The sparsity of one Einsum. Raises SpecError."""
        scope, everything = self.scope.layer(dict(symbols)), symbols["All"]
        table = partial(per_tensor, everything=everything, scope=scope)
        densities: dict[str, Density] = {}
        for tensor, (density, at) in table(self.given.densities, where=partial(self._at, "densities")).items():
            densities[tensor] = self._density(einsum, tensor, density, scope, at)
        self.given_densities.update(densities)
        formats: dict[tuple[str, str], Format] = {}
        self._check_chosen()
        for name, of_memory in self.given.formats.items():
            self._component(arch, name, (Memory,), self._at("formats", name))
            written_formats = table(of_memory, where=partial(self._at, "formats", name))
            for tensor in self.given.chosen.get(name, {}):
                if tensor in einsum.tensors and tensor not in written_formats:
                    text = f"{tensor!r} has no formats in {name!r} to choose from"
                    raise SpecError(text, at=self._at("chosen", name, tensor), hint="leave it out")
            for tensor, (written, at) in written_formats.items():
                given = self._settled(name, tensor, written, at)
                density = densities.setdefault(tensor, self._dense(einsum, tensor, at))
                formats[name, tensor] = self._format(tensor, given, density, scope, at)
        savings: list[Saving] = []
        for index, saving in enumerate(self.given.savings):
            savings += self._savings(einsum, arch, saving, scope, partial(self._at, "savings", index))
        for tensor in {name for saving in savings for name in saving.on}:
            densities.setdefault(tensor, self._dense(einsum, tensor, self._at("savings")))
        energies, own = self._energies(arch, scope)
        ranks = {tensor: tuple(self.sizes[tensor]) for tensor in densities}
        fills: Fills = word_in(self.given, "fills", self._at("fills"), "counting", "countings")
        return Sparsity(
            densities,
            formats,
            tuple(savings),
            energies,
            own,
            ranks,
            shares_metadata=self._metadata != "own",
            takes_slowest=self._takes_slowest,
            fills=fills,
            reads_skipped=self._metadata == "share_all",
        )

    @property
    def _metadata(self) -> str:
        return str(word_in(self.given, "metadata", self._at("metadata"), "counting", "countings"))

    @property
    def _takes_slowest(self) -> bool:
        return bool(word_in(self.given, "lanes", self._at("lanes"), "way", "ways") == "slowest")

    def _at(self, *path: str | int) -> At:
        return self.where(path)

    def _component(self, arch: Architecture, name: str, kinds: tuple[type, ...], at: At) -> Component:
        found = arch.components.get(name)
        if found is None:
            raise SpecError(
                f"no component {name!r}", at=at, hint=did_you_mean(name, arch.components, listing="components")
            )
        if not isinstance(found, kinds):
            expected = " or a ".join(kind.__name__.lower() for kind in kinds)
            raise SpecError(f"{name!r} is not a {expected}", at=at)
        return found

    # densities

    def _shape(self, einsum: Einsum, tensor: str, at: At) -> tuple[int, ...]:
        first = [low for low, _ in einsum.index_range(einsum.by_tensor[tensor]).values()]
        if min(first, default=0) < 0:
            raise SpecError(f"{tensor!r} is indexed below 0, so that its zeros have no place", at=at)
        return tuple(self.sizes[tensor].values())

    def _dense(self, einsum: Einsum, tensor: str, at: At) -> Density:
        shape = self._shape(einsum, tensor, at)
        return Uniform(shape, prod(shape))

    def _density(self, einsum: Einsum, tensor: str, given: object, scope: Scope, at: At) -> Density:
        if (tensor, at) not in self._densities:
            density = given if isinstance(given, DensityInput) else DensityInput(uniform=given)  # type: ignore[arg-type]
            shape = self._shape(einsum, tensor, at)
            self._densities[tensor, at] = self._made(tensor, density, shape, scope, at)
        return self._densities[tensor, at]

    def _made(self, tensor: str, given: DensityInput, shape: tuple[int, ...], scope: Scope, at: At) -> Density:
        forms = [form for form in _FORMS if getattr(given, form) is not None]
        if len(forms) != 1:
            raise SpecError(
                f"the density of {tensor!r} is given {len(forms)} times", at=at, hint=f"one of {', '.join(_FORMS)}"
            )
        try:
            if given.along is not None and forms != ["structured"]:
                text = f"along is the rank of structured, and the density of {tensor!r} is {forms[0]}"
                raise SpecError(text, hint="leave out along")
            density = getattr(self, f"_{forms[0]}")(tensor, given, shape, scope, at)
            if given.seed is None:
                return density  # type: ignore[no-any-return]
            if isinstance(density, Known):
                raise SpecError(f"the zeros of {tensor!r} are known, and none are drawn", hint="leave out seed")
            check_size(shape)
            seed = int(number(given.seed, scope, at=at, what="seed", minimum=0, integer=True, allow_inf=False))
            return Known(density.draw(np.random.default_rng(seed)))
        except EinmapError as problem:
            problem.at = problem.at or at
            raise

    def _uniform(self, tensor: str, given: DensityInput, shape: tuple[int, ...], scope: Scope, at: At) -> Density:
        return Uniform(shape, round(self._part(tensor, given.uniform, scope, at) * prod(shape)))

    def _even(self, tensor: str, given: DensityInput, shape: tuple[int, ...], scope: Scope, at: At) -> Density:
        return Even(shape, self._part(tensor, given.even, scope, at))

    def _part(self, tensor: str, given: object, scope: Scope, at: At) -> float:
        if isinstance(given, str) and given.strip().endswith(KINDS):
            text = f"density of {tensor!r} must be a number, found {short(given)}"
            raise SpecError(text, at=at, hint=f"for the zeros of a file write {{file: {short(given.strip())}}}")
        if isinstance(given, str) and (percent := _PERCENT.fullmatch(given)):
            text = f"density of {tensor!r} must be a number from 0 to 1, found {short(given)}"
            raise SpecError(text, at=at, hint=f"write {float(percent[1]) / 100:g}")
        part = float(number(given, scope, at=at, what=f"density of {tensor!r}", minimum=0))
        if part > 1:
            raise SpecError(f"density of {tensor!r} must be at most 1, found {part:g}", at=at)
        return part

    def _structured(self, tensor: str, given: DensityInput, shape: tuple[int, ...], scope: Scope, at: At) -> Density:
        ranks = list(self.sizes[tensor])
        n, m = self._pair("structured", given.structured or [], scope, at)
        along = given.along if given.along is not None else ranks[-1]
        if along not in ranks:
            hint = did_you_mean(along, ranks, listing="ranks")
            raise SpecError(f"{tensor!r} has no rank {along!r}", at=at, hint=hint)
        rank = ranks.index(along)
        if not 1 <= m <= MOST_OF_A_BLOCK or n > m:
            raise SpecError(f"structured must be [n, m] with n <= m <= {MOST_OF_A_BLOCK}, found [{n}, {m}]", at=at)
        if shape[rank] % m:
            raise SpecError(
                f"blocks of {m} do not divide the {shape[rank]} places of {tensor!r} along {along}",
                at=at,
                hint="choose a size of block that divides the rank",
            )
        return Structured(shape, rank, n, m)

    def _band(self, tensor: str, given: DensityInput, shape: tuple[int, ...], scope: Scope, at: At) -> Density:
        if len(shape) < 2:
            raise SpecError(f"a band needs two ranks, {tensor!r} has {len(shape)}", at=at)
        check_size(shape)
        return Known(banded(shape, *self._pair("band", given.band or [], scope, at)))

    def _file(self, tensor: str, given: DensityInput, shape: tuple[int, ...], scope: Scope, at: At) -> Density:  # noqa: ARG002
        folder = File(at.file).parent.resolve() if at.file else File.cwd().resolve()
        path = (folder / str(given.file)).resolve()
        if not path.is_relative_to(folder):
            raise SpecError(f"the path {short(given.file)} leads out of the folder of its specification", at=at)
        try:
            return Known(read_mask(path, shape))
        except WrongShape as problem:
            ranks = ", ".join(f"{rank}: {size}" for rank, size in self.sizes[tensor].items())
            problem.hint = f"the ranks of {tensor!r} are {{{ranks}}}, in this order"
            raise

    def _pair(self, name: str, given: Sequence[object], scope: Scope, at: At) -> tuple[int, int]:
        if len(given) != 2:
            raise SpecError(f"{name} has two numbers, found {len(given)}", at=at)
        first, second = (
            int(number(one, scope, at=at, what=name, minimum=0, integer=True, allow_inf=False)) for one in given
        )
        return first, second

    # formats

    def _check_chosen(self) -> None:
        """Raise SpecError for chosen formats of what has no format."""
        for name, of_memory in self.given.chosen.items():
            if name not in self.given.formats:
                hint = did_you_mean(name, self.given.formats, listing="memories with formats")
                raise SpecError(f"{name!r} has no formats to choose from", at=self._at("chosen", name), hint=hint)
            for tensor in of_memory:
                if tensor not in self.sizes:
                    hint = did_you_mean(tensor, self.sizes, listing="tensors")
                    raise SpecError(f"no tensor {tensor!r}", at=self._at("chosen", name, tensor), hint=hint)

    def _settled(self, memory: str, tensor: str, given: AnyFormat, at: At) -> GivenFormat:
        """The one format that counts. Raises SpecError where one of several has not been chosen, or another one."""
        chosen, where = self.given.chosen.get(memory, {}).get(tensor), self._at("chosen", memory, tensor)
        if not is_choice(given):
            if chosen is not None:
                text = f"the format of {tensor!r} in {memory!r} is not left open"
                raise SpecError(text, at=where, hint="a list of formats leaves it open")
            return cast(GivenFormat, given)
        if chosen is None:
            raise SpecError(
                f"the format of {tensor!r} in {memory!r} is left open: expected one format, found "
                f"{'1 alternative' if len(given) == 1 else f'{len(given)} alternatives'}",
                at=at,
                hint="einmap map chooses one, and writes it with the mapping; or write one of them, such as "
                f"{_shown(given[0])}",
            )
        if all(_plain(one) != _plain(chosen) for one in given):
            known = ", ".join(_shown(one) for one in given)
            raise SpecError(
                f"{_shown(chosen)} is none of the alternatives of {tensor!r} in {memory!r}",
                at=where,
                hint=f"these are {known}",
            )
        return chosen

    def _format(
        self,
        tensor: str,
        given: GivenFormat,
        density: Density,
        scope: Scope,
        at: At,
    ) -> Format:
        try:
            found = FormatBinder(tensor, self.sizes[tensor], scope, at, self._metadata != "own").bind(given)
            return fitting(found, density, tensor)
        except EinmapError as problem:
            problem.at = problem.at or at
            raise

    # savings

    def _savings(
        self, einsum: Einsum, arch: Architecture, given: SavingInput, scope: Scope, at: Callable[..., At]
    ) -> list[Saving]:
        unit = self._component(arch, given.at, (Memory, Compute), at("at"))
        kind = word_in(given, "do", at("do"), "saving", "savings")
        looked_at = sorted(self._members(given.on, scope, at("on")))
        on = tuple(name for name in looked_at if not einsum.by_tensor[name].output)
        for name in looked_at:
            place = at("on").path, name
            self._writers[place] = None if name in on else self._writers.get(place, einsum.name)
        named = frozenset[str]() if given.tensors is None else self._members(given.tensors, scope, at("tensors"))
        if not on:
            return []
        if isinstance(unit, Compute):
            if given.tensors is not None:
                raise SpecError("a compute saves operations, no tensors", at=at("tensors"), hint="leave out tensors")
            return [Saving(unit.name, kind, None, on)]
        if given.tensors is None:
            raise SpecError(
                f"{unit.name!r} saves what passes of a tensor, and none is named", at=at("at"), hint="tensors: B"
            )
        targets = sorted(named)
        for tensor in targets:
            if tensor in on:
                raise SpecError(
                    f"{tensor!r} is looked at for itself", at=at("on"), hint="a format leaves out its zeros"
                )
        return [Saving(unit.name, kind, tensor, on) for tensor in targets]

    def _members(self, given: str | list[str], scope: Scope, at: At) -> frozenset[str]:
        members = tensor_set(given, scope, at=at).members
        if members:
            self._named.add(at.path)
        return members

    def check_savings(self) -> None:
        """Raise SpecError for a saving whose sets name no tensor of any Einsum, once all are bound."""
        for index, saving in enumerate(self.given.savings):
            at = partial(self._at, "savings", index)
            for (path, tensor), writer in self._writers.items():
                if path == at("on").path and writer is not None:
                    text = f"{tensor!r} is written by {writer!r}, and nothing waits for its zeros"
                    raise SpecError(text, at=at("on"))
            if at("on").path not in self._named:
                raise SpecError("on names no tensor that is looked at", at=at("on"), hint="for example on: A")
            if saving.tensors is not None and at("tensors").path not in self._named:
                raise SpecError(
                    "tensors names no tensor whose values pass", at=at("tensors"), hint="leave the saving out"
                )

    def _energies(self, arch: Architecture, scope: Scope) -> tuple[dict[tuple[str, str], float], frozenset[str]]:
        energies: dict[tuple[str, str], float] = {}
        own: set[str] = set()
        for name, given in self.given.energies.items():
            unit = self._component(arch, name, (Memory, Compute), self._at("energies", name))
            for action in SavingEnergiesInput.model_fields:
                value = getattr(given, action)
                if action not in given.model_fields_set or value is None:
                    continue
                at = self._at("energies", name, action)
                if isinstance(unit, Compute) != action.endswith("compute"):
                    raise SpecError(f"{name!r} does not do {action}", at=at)
                energies[name, action] = float(number(value, scope, at=at, what=action, minimum=0, allow_inf=False))
                if action.startswith("metadata"):
                    own.add(name)
        return energies, frozenset(own)


def propagated(
    bound: Mapping[str, Sparsity], workload: Workload, given: Collection[str], sizes: Mapping[str, Sizes], at: At
) -> Mapping[str, Sparsity]:
    """Sparsity by Einsum, with densities of tensors that Einsums write and whose density is not given.

    Those that a format stores or that a saving looks at, and what these are made from. Raises SpecError, at `at`, where
    a format does not hold what is written.
    """
    used = {tensor for one in bound.values() for _, tensor in one.formats}
    used |= {tensor for one in bound.values() for saving in one.savings for tensor in saving.on}
    open_ones, found = list(used), set[str]()
    while open_ones:
        tensor = open_ones.pop()
        if tensor in workload.producers and tensor not in found and tensor not in given:
            found.add(tensor)
            open_ones += workload.by_name[workload.producers[tensor]].inputs
    if not found or workload.recurrences:
        return bound
    densities = {t: d for one in bound.values() for t, d in one.densities.items()}
    made: dict[str, Density] = {}
    for einsum in workload.einsums:
        for tensor in einsum.outputs & found:
            density = written_density(einsum, densities, sizes)
            if density is not None:
                made[tensor] = densities[tensor] = density
    try:
        return {name: _with(one, made, workload.by_name[name], sizes) for name, one in bound.items()}
    except SpecError as problem:
        problem.at = problem.at or at
        raise


def _with(one: Sparsity, made: Mapping[str, Density], einsum: Einsum, sizes: Mapping[str, Sizes]) -> Sparsity:
    own = {tensor: density for tensor, density in made.items() if tensor in einsum.tensors}
    ranks = {tensor: tuple(sizes[tensor]) for tensor in own}
    formats = {
        (memory, tensor): fitting(fmt, own[tensor], tensor) if tensor in own else fmt
        for (memory, tensor), fmt in one.formats.items()
    }
    return replace(
        one,
        densities={**one.densities, **own},
        formats=formats,
        ranks={**one.ranks, **ranks},
        propagated=frozenset(own),
    )


def one_density_each(bound: Mapping[str, Sparsity], at: At) -> Mapping[str, Sparsity]:
    """Sparsity by Einsum, in which each tensor has one density. Raises SpecError where it has several."""
    known: dict[str, Density] = {}
    for of_einsum in bound.values():
        for tensor, density in of_einsum.densities.items():
            if known.setdefault(tensor, density) != density:
                raise SpecError(f"{tensor!r} has different densities in different Einsums", at=at, hint="name it")
    return bound
