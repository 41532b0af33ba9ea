"""Result of an import: the specification, the Einsums of each operation, and how values go in and out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

import numpy as np

from einmap.einsum.numeric import run, shapes
from einmap.einsum.operation import Operand
from einmap.einsum.spaces.projection import Affine
from einmap.errors import At, Note, SpecError, did_you_mean
from einmap.frontends.cascade.builder import MOST_VALUES, Builder
from einmap.frontends.cascade.layers import with_instances
from einmap.frontends.cascade.parts import Parts
from einmap.frontends.cascade.program import Access, Array, CascadeEinsum, Stored
from einmap.frontends.cascade.split_ranks import with_split_ranks
from einmap.frontends.cascade.values import Value
from einmap.frontends.cascade.views import LayoutError, View, reshaped, seen, view_of
from einmap.frontends.cascade.write import workload_of
from einmap.spec.spec import Spec
from einmap.visible import brief, short

MOST_HIDDEN = 0.05
"""The part of a model's products that may be hidden without a word of it before all else."""
NOTHING = "the model has nothing to compute: its outputs are its inputs, or constants"


@dataclass(frozen=True, slots=True)
class Barrier:
    """An operator without Einsum form. It ends the cascade there: what it reads is an output of the workload, what it
    gives an input, so that both move to and from the outermost memory.

    `results`: its values by the names of the model; `n_products`: an estimate, from shapes, of the products that it
    sums, which are not counted.
    """

    operator: str
    reason: str
    at: str
    results: tuple[str, ...]
    n_products: int = 0


@dataclass(frozen=True, slots=True)
class Joined:
    """An output that is parts of others along an axis: parts of inputs as they are, and outputs by name."""

    axis: int
    parts: tuple[str | View, ...]


@dataclass(frozen=True)
class Imported:
    """A model as a cascade of Einsums. `spec` has the workload; `operators` how many of each kind the model has."""

    __repr__ = brief

    spec: Spec
    operators: Mapping[str, int]
    barriers: tuple[Barrier, ...] = ()
    notes: tuple[Note, ...] = ()
    inputs: Mapping[str, Stored] = field(default_factory=dict)
    """Graph inputs of the workload by their names there; `source` says what of the model each is."""
    margins: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    """Zeros before and after the indices of each rank of a tensor, where there are some."""
    counted_from_the_end: Mapping[str, int] = field(default_factory=dict)
    """Graph inputs that are indices of a rank of this size: those below 0 are counted from its end."""
    outputs: Mapping[str, View] = field(default_factory=dict)
    """Outputs of the model by name, as parts of tensors of the workload; `y[1]` is a part of the output `y`."""
    joined: Mapping[str, Joined] = field(default_factory=dict)
    """Outputs that are some of `outputs`, and parts of inputs, which are not moved: caches with rows appended."""
    instances: Mapping[str, int] = field(default_factory=dict)
    """Einsums of layers that stand for several equal ones, by how many; then there are no values to be computed."""
    constants: Mapping[str, Array] = field(default_factory=dict, compare=False)
    """Outputs of the model that depend on no input."""

    @property
    def n_multiply_accumulates(self) -> int:
        """Points of the Einsums that contract: the products that are summed, which published counts of models count."""
        if not self.workload:
            return 0
        einsums = self.spec.workload.einsums
        entries = self.workload["einsums"]
        names = {entry["einsum"].partition("[")[0] for entry in entries if entry["renames"]["weight"] != "Nothing"}
        return sum(e.n_computes * e.n_instances for e in einsums if e.name in names)

    @property
    def n_hidden_products(self) -> int:
        """An estimate of the products that operators without Einsum form sum: they are not counted."""
        return sum(barrier.n_products for barrier in self.barriers)

    @property
    def hidden_text(self) -> str | None:
        """Sentence that says which part of the model's products is hidden; None up to 5 %."""
        hidden = self.n_hidden_products
        total = hidden + self.n_multiply_accumulates
        if hidden <= MOST_HIDDEN * total:
            return None
        counts = Counter(barrier.operator for barrier in self.barriers if barrier.n_products)
        shown = ", ".join(f"{kind} ({n})" for kind, n in counts.items())
        share = f"{hidden / total:.0%}" if hidden < total else "all"
        return f"about {share} of the model's products ({hidden:,} of {total:,}) are not counted: {shown}"

    @property
    def workload(self) -> dict[str, Any]:
        """The section `workload` as plain dictionaries, lists and texts; empty where nothing is computed."""
        plain: dict[str, Any] = self.spec.to_dict().get("workload", {})
        return plain

    @property
    def barrier_counts(self) -> dict[str, int]:
        """How many operators of each kind have no Einsum form."""
        return dict(Counter(barrier.operator for barrier in self.barriers))

    def arrays(self, values: Mapping[str, Any]) -> dict[str, Array]:
        """The graph inputs of the workload, from values of the model by name: its inputs, weights, results of barriers.

        Raises SpecError where one is missing, or has another shape.
        """
        return {name: self._array(tensor, values) for name, tensor in self.inputs.items()}

    def run(self, values: Mapping[str, Any]) -> dict[str, Array]:
        """The outputs of the model, from values by name as `arrays` takes them, by evaluating the cascade.

        Raises SpecError where one Einsum stands for those of several layers.
        """
        if self.instances:
            raise SpecError("equal layers are one: they have no values", hint="import the model without `instances`")
        arrays = self.arrays(values)
        known = {**arrays, **run(self.spec.workload, arrays)} if self.workload else arrays
        # an output that is an input as it is may be read in part by the Einsums, or not at all
        parts = [part for joined in self.joined.values() for part in joined.parts if isinstance(part, View)]
        given = [view.tensor for view in (*self.outputs.values(), *parts) if view.tensor.source is not None]
        known |= {tensor.name: self._padded(tensor, values) for tensor in given}

        def numbers(part: str | View) -> Array:
            view = self.outputs[part] if isinstance(part, str) else part
            return seen(view, self._all_of(view, known), self._margin(view.tensor))

        of_joined = {part for joined in self.joined.values() for part in joined.parts if isinstance(part, str)}
        found = {name: numbers(name) for name in self.outputs if name not in of_joined}
        for name, joined in self.joined.items():
            found[name] = np.concatenate([numbers(part) for part in joined.parts], axis=joined.axis)
        return {**found, **self.constants}

    def _all_of(self, view: View, known: Mapping[str, Array]) -> Array:
        """A tensor with all its indices: no Einsum may touch the last ones, which are 0."""
        tensor, values = view.tensor, known[view.tensor.name]
        wanted = [low + size + high for size, (low, high) in zip(tensor.sizes, self._margin(tensor), strict=True)]
        return np.pad(values, [(0, max(0, w - n)) for w, n in zip(wanted, values.shape, strict=True)])

    def _array(self, tensor: Stored, values: Mapping[str, Any]) -> Array:
        """The values of a graph input as the Einsums read it: no tensor of a workload is larger than what is read."""
        array = self._padded(tensor, values)
        if tensor.name in self.counted_from_the_end:
            array = np.where(array < 0, array + self.counted_from_the_end[tensor.name], array)
        read = shapes(self.spec.workload, [tensor.name])[tensor.name]
        return array[tuple(slice(size) for size in read)]

    def _padded(self, tensor: Stored, values: Mapping[str, Any]) -> Array:
        """The values of a graph input as they are given, with the zeros around them."""
        source = tensor.source
        array = self._given(source, values) if isinstance(source, str) else np.asarray(source)
        if tensor.packed:
            places = np.arange(0, 8, tensor.packed, dtype=np.uint8)
            array = array.astype(np.uint8)[..., None] >> places & (2**tensor.packed - 1)
        if array.size != np.prod(tensor.sizes):
            text = f"the values of {tensor.name!r} have the shape {array.shape}, the model says {tensor.shape}"
            raise SpecError(text)
        return np.pad(array.reshape(tensor.sizes).astype(np.float64), self._margin(tensor))

    def _given(self, name: str, values: Mapping[str, Any]) -> Array:
        if name not in values:
            barrier = next((b for b in self.barriers if name in b.results), None)
            given_by = "" if barrier is None else f", a result of {barrier.operator}, which has no Einsum form"
            hint = did_you_mean(name, values, listing="values given")
            raise SpecError(f"no values for {name!r} of the model{given_by}", hint=hint)
        return np.asarray(values[name])

    def _margin(self, tensor: Stored) -> tuple[tuple[int, int], ...]:
        return self.margins.get(tensor.name, ((0, 0),) * len(tensor.sizes))


def imported(
    builder: Builder,
    outputs: Mapping[str, Value],
    written_out: Mapping[str, Value],
    about: Mapping[str, Any],
    notes: tuple[Note, ...] = (),
    *,
    instances: bool = False,
) -> Imported:
    """The cascade that gives `outputs`, and writes `written_out` to the outermost memory for barriers.

    `about`: operators, barriers and constants. `instances`: equal layers are one. Where nothing is to be computed, the
    specification is empty. Raises SpecError where that is so by barriers.
    """
    outputs = {name: _in_its_order(builder, name, value) for name, value in outputs.items()}
    views, others = with_own_bits(builder, outputs, written_out)
    kept = {view.tensor.name for view in (*views.values(), *others.values())}
    einsums = builder.program.needed(kept)
    if instances:
        einsums, kept = with_instances(builder.program, einsums, kept)
    einsums = with_split_ranks(builder.program, with_results(builder, einsums, kept), kept)
    barriers: Sequence[Barrier] = about.get("barriers", ())
    if not einsums and barriers:
        counts = Counter(barrier.operator for barrier in barriers)
        shown = ", ".join(f"{kind} ({n})" for kind, n in counts.items())
        first = f"the first, {barriers[0].at}: {barriers[0].reason}"
        raise SpecError(f"operators without Einsum form leave nothing to compute: {shown}; {first}")
    if not einsums:
        return Imported(Spec.from_dict(), notes=(*notes, Note(NOTHING)), outputs=views, **about)
    einsums, indices = with_index_inputs(builder, with_tables(builder, einsums))
    names = {access.tensor.name: access.tensor for e in einsums for access in e.inputs}
    produced = {e.output.tensor.name for e in einsums}
    of_layers = {e.name: e.instances for e in einsums if e.instances > 1}
    views = {name: view for name, view in views.items() if not of_layers or view.tensor.name in {*produced, *names}}
    inputs = {name: tensor for name, tensor in names.items() if name not in produced}
    margins = {name: tuple(ranks) for name, ranks in builder.program.margins.items()}
    spec = Spec.from_dict(workload=workload_of(builder.program, einsums))
    return Imported(
        spec,
        notes=notes,
        inputs=inputs,
        margins=margins,
        counted_from_the_end=indices,
        outputs=views,
        instances=of_layers,
        **about,
    )


def is_given(part: Value) -> bool:
    """Whether a part is that of an input, with nothing to compute."""
    tensor = part.leaves[0].tensor if part.is_view else None
    return tensor is not None and tensor.source is not None and tensor.bits == part.bits


def kept_in_place(builder: Builder, name: str, parts: Parts) -> tuple[Joined, dict[str, Value]]:
    """An output whose parts are those of inputs, which stay where they are, and others, which are outputs by name.

    Where all are parts of inputs the largest stays.
    """
    given = [part for part in parts.values if is_given(part)]
    if len(given) == len(parts.values):
        given = [max(given, key=lambda part: part.shape[parts.axis])]
    rows: list[str | View] = []
    others: dict[str, Value] = {}
    for part in parts.values:
        if any(part is other for other in given):
            rows.append(part.leaves[0])
        else:
            rows.append(f"{name}[{len(rows)}]" if len(parts.values) > 1 else name)
            others[str(rows[-1])] = builder.written(part, name)
    return Joined(parts.axis, tuple(rows)), others


def _in_its_order(builder: Builder, name: str, value: Value) -> Value:
    """An output; a copy where it is a graph input in another order, a part of one, or one repeated."""
    view = value.leaves[0]
    if view.tensor.source is None:
        return value
    try:
        if reshaped(view_of(view.tensor, view.tensor.sizes), view.shape) == view:
            return value
    except LayoutError:
        pass
    return builder.copied(value, name)


def checked_batch(batch: object, file: str) -> int | None:
    """The first dimension of every input of a model, if it is given. Raises SpecError for what cannot be one."""
    if batch is None or (isinstance(batch, int) and not isinstance(batch, bool) and 0 < batch <= MOST_VALUES):
        return batch
    raise SpecError(f"batch must be an integer from 1 to {MOST_VALUES:,}, found {short(batch)}", at=At(file))


def with_own_bits(builder: Builder, *results: Mapping[str, Value]) -> list[dict[str, View]]:
    """Results as parts of tensors of the same bits, where the last step was a cast.

    A tensor that nothing else uses is written as the cast has it, and called as the result; else the result is a copy.
    """
    program = builder.program
    tensors = [value.leaves[0].tensor.name for of in results for value in of.values()]
    uses = Counter([*tensors, *(a.tensor.name for e in program.needed({*tensors}) for a in e.inputs)])
    uses.update(name for names in program.recurrences for name in names)
    own: list[dict[str, View]] = []
    for of in results:
        own.append({})
        for name, value in of.items():
            view, old = value.leaves[0], value.leaves[0].tensor
            if old.bits == value.bits:
                own[-1][name] = view
            elif old.source is not None or uses[old.name] > 1:
                own[-1][name] = builder.copied(value, name).leaves[0]
            else:
                tensor = replace(old, name=builder.program.free_name(name), bits=value.bits)
                program.rewrite(old, tensor)
                own[-1][name] = replace(view, tensor=tensor)
    return own


def with_index_inputs(builder: Builder, einsums: list[CascadeEinsum]) -> tuple[list[CascadeEinsum], dict[str, int]]:
    """The Einsums, and the graph inputs that are indices, with the size of the rank that they index.

    Such an input has a name of its own where its values are used otherwise, or index a rank of another size.
    """
    others = {
        access.tensor.name
        for e in einsums
        for place, access in enumerate(e.inputs)
        if place not in {i for a in e.inputs for _, i in a.looked_up}
    }
    made: dict[tuple[str, int], Stored] = {}
    sizes: dict[str, int] = {}
    done: list[CascadeEinsum] = []
    for einsum in einsums:
        inputs = list(einsum.inputs)
        for access in einsum.inputs:
            for rank, place in access.looked_up:
                tensor, size = inputs[place].tensor, access.tensor.sizes[rank]
                if not isinstance(tensor.source, str):
                    continue
                key = tensor.name, size
                if key not in made:
                    is_free = tensor.name not in others and tensor.name not in sizes
                    name = tensor.name if is_free else builder.program.free_name(f"{tensor.name}_index")
                    made[key] = tensor if is_free else replace(tensor, name=name)
                    sizes[name] = size
                inputs[place] = replace(inputs[place], tensor=made[key])
        done.append(replace(einsum, inputs=tuple(inputs)))
    return done, sizes


def with_tables(builder: Builder, einsums: list[CascadeEinsum]) -> list[CascadeEinsum]:
    """The Einsums, and copies of tensors that are looked up along a rank with zeros around it: places count without."""
    margin = builder.program.margin
    copies: dict[str, CascadeEinsum] = {}
    done: list[CascadeEinsum] = []
    for einsum in einsums:
        inputs = list(einsum.inputs)
        for i, access in enumerate(inputs):
            tensor = access.tensor
            if any(margin(tensor, rank) != (0, 0) for rank, _ in access.looked_up):
                if tensor.name not in copies:
                    copies[tensor.name] = replace(_copy(builder, tensor, "rows"), instances=einsum.instances)
                    done.append(copies[tensor.name])
                inputs[i] = replace(access, tensor=copies[tensor.name].output.tensor)
        done.append(replace(einsum, inputs=tuple(inputs)))
    return done


def with_results(builder: Builder, einsums: list[CascadeEinsum], kept: set[str]) -> list[CascadeEinsum]:
    """The Einsums, and copies of results that others read as well: those might never leave the inner memories."""
    read = {access.tensor.name for e in einsums for access in e.inputs}
    together = {name: names for names in builder.program.recurrences for name in names}
    done: list[CascadeEinsum] = []
    waiting: list[CascadeEinsum] = []
    for einsum, following in zip_longest(einsums, einsums[1:]):
        done.append(einsum)
        if einsum.name in kept & read:
            waiting.append(replace(_copy(builder, einsum.output.tensor, "out"), instances=einsum.instances))
        names = together.get(einsum.name, ())
        if following is None or following.name not in names:
            # behind a recurrence, whose Einsums stay together
            done += waiting
            waiting = []
    return done


def _copy(builder: Builder, tensor: Stored, suffix: str) -> CascadeEinsum:
    variables = [f"x{rank}.0" for rank in range(len(tensor.sizes))]
    index = tuple(Affine(((v, 1),)) for v in variables)
    result = Stored(builder.program.free_name(f"{tensor.name}_{suffix}"), tensor.sizes, tensor.bits)
    extents = dict(zip(variables, tensor.sizes, strict=True))
    hints = dict.fromkeys(variables, "")
    return CascadeEinsum(
        Access(result, index), (Access(tensor, index),), Operand("0"), "sum", extents, hints, is_copy=True
    )
