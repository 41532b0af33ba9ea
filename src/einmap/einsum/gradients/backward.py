"""The Einsums of a backward pass: for each Einsum one for each operand, and sums where several reach one tensor.

A gradient by a tensor is indexed as the tensor is. Einsums of a recurrence run backwards in time: what they write has
the rank of time from its last index to its first, so that the steps of the backward recurrence ascend too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from einmap.einsum.einsum import Einsum, TensorAccess, TensorName
from einmap.einsum.gradients.derivatives import product, pulled_back, quotient
from einmap.einsum.gradients.names import Names, placed
from einmap.einsum.gradients.paths import Flow, map_of
from einmap.einsum.numeric import check_copy, rank_sizes
from einmap.einsum.operation import Apply, MapExpression, Number, Operand, Operation, format_map, operands
from einmap.einsum.rewrites.edit import box, rebuilt, substituted, with_cuts
from einmap.einsum.spaces.projection import Affine, Lookup, Projection, Rank, RankVar, Written
from einmap.einsum.spaces.recurrence import Recurrence
from einmap.einsum.spaces.space import parse_constraint
from einmap.einsum.workload import Workload
from einmap.errors import At, NotSupportedError, SpecError

type Group = list[Einsum]
"""Einsums that stand together: those of one forward Einsum, or a recurrence."""


@dataclass(frozen=True, slots=True)
class Slope:
    """Where (a part of) the gradient by a tensor is. `turned`: its rank of time, written from the last index on."""

    name: TensorName
    turned: tuple[Rank, int] | None = None

    def projection(self, own: Projection) -> Projection:
        """How it is indexed where the tensor itself would be indexed so."""
        if self.turned is None:
            return own
        rank, last = self.turned
        return tuple((r, _subtracted(last, index) if r == rank else index) for r, index in own)


@dataclass(frozen=True, slots=True)
class Backward:
    """A backward pass: its Einsums in order, and for each tensor that was asked for its gradient.

    `seeds`: the gradients that it begins with; `parts`: all tensors that are (a part of) the gradient by a tensor.
    `rows`: for each graph input that numbers the rows of a gathered table how many there are. `origins`: for each
    Einsum the forward Einsum that it is made from.
    """

    groups: tuple[Group, ...]
    parts: Mapping[TensorName, Sequence[TensorName]]
    gradients: Mapping[TensorName, TensorName]
    seeds: Mapping[TensorName, TensorName]
    rows: Mapping[TensorName, int]
    origins: Mapping[str, str]


def backward(
    workload: Workload,
    flows: Sequence[Flow],
    of: Collection[TensorName],
    by: Collection[TensorName],
    names: Names,
    at_of: Callable[[str], At | None],
) -> Backward:
    """The backward pass of a workload along these ways. Raises SpecError and NotSupportedError, at their Einsums."""
    return _Writer(workload, flows, of, by, names, at_of).written()


class _Writer:
    """Writes the Einsums of a backward pass, from the last Einsum to the first."""

    def __init__(
        self,
        workload: Workload,
        flows: Sequence[Flow],
        of: Collection[TensorName],
        by: Collection[TensorName],
        names: Names,
        at_of: Callable[[str], At | None],
    ) -> None:
        self.workload, self.flows, self.of, self.by = workload, flows, of, by
        self.names, self.at_of = names, at_of
        self.block_of = {name: block for block in workload.recurrences for name in block.einsums}
        self.sizes = rank_sizes(workload)
        self.parts: dict[TensorName, list[Slope]] = {}
        self.part_of: dict[tuple[str, TensorName, TensorName], Slope] = {}
        self.slopes: dict[TensorName, Slope] = {}
        self.ties: dict[tuple[str, TensorName], TensorName] = {}
        self.rows: dict[TensorName, tuple[Rank, int]] = {}
        self.origins: dict[str, str] = {}
        self.numbers = {t: [flow.operand.tensor for flow in flows].count(t) for t in workload.tensors}
        for tensor in of:
            self.numbers[tensor] += 1

    def written(self) -> Backward:
        seeds = {tensor: self._begin(tensor, None).name for tensor in self.of}
        last_first = sorted(self.flows, key=lambda flow: -self.workload.einsum_names.index(flow.einsum.name))
        for flow in last_first:
            tensor = flow.operand.tensor
            turned = self._turned(tensor, self.block_of.get(flow.einsum.name))
            self.part_of[flow.einsum.name, flow.output.tensor, tensor] = self._begin(tensor, turned)
        groups: list[Group] = []
        todo = list(self.workload.einsums)
        while todo:
            block = self.block_of.get(todo[-1].name)
            length = len(block.einsums) if block else 1
            groups += self._group(todo[-length:], block)
            todo = todo[:-length]
        groups.append([self._total(t) for t in self.by if t not in self.workload.producers and len(self.parts[t]) > 1])
        gradients = {t: self.slopes[t] if t in self.slopes else self.parts[t][0] for t in self.by}
        for tensor, slope in gradients.items():
            if slope.turned:
                gradients[tensor] = Slope(self.names.free(f"d_{tensor}"))
                groups.append([self._sum(tensor, [slope], gradients[tensor])])
        found = {tensor: slope.name for tensor, slope in gradients.items()}
        parts = {tensor: [slope.name for slope in slopes] for tensor, slopes in self.parts.items()}
        for tensor, slope in [*self.slopes.items(), *gradients.items()]:
            parts[tensor].append(slope.name)
        rows = {t: n for t, (_, n) in self.rows.items()}
        return Backward(tuple(group for group in groups if group), parts, found, seeds, rows, self.origins)

    def _begin(self, tensor: TensorName, turned: tuple[Rank, int] | None) -> Slope:
        """A new part of the gradient by a tensor."""
        parts = self.parts.setdefault(tensor, [])
        alone = self.numbers[tensor] == 1 and not (turned and tensor in self.by)
        slope = Slope(self.names.free(f"d_{tensor}" if alone else f"d_{tensor}_{len(parts) + 1}"), turned)
        parts.append(slope)
        return slope

    def _group(self, einsums: Sequence[Einsum], block: Recurrence | None) -> list[Group]:
        """Backward Einsums of one Einsum or of a recurrence, those of the latter within, before and behind it."""
        before: Group = []
        inner: Group = []
        behind: Group = []
        for einsum in reversed(einsums):
            for tensor in (access.tensor for access in einsum.accesses if access.output):
                parts = self.parts.get(tensor, [])
                if len(parts) > 1:
                    total = self._total(tensor)
                    (inner if any(part.turned for part in parts) else before).append(total)
                elif parts:
                    self.slopes[tensor] = parts[0]
            for flow in self.flows:
                if flow.einsum.name != einsum.name:
                    continue
                before += self._tie(flow)
                part = self.part_of[einsum.name, flow.output.tensor, flow.operand.tensor]
                with placed(einsum.name, self.at_of):
                    made = self._term(flow, part)
                (behind if block and part.turned is None else inner).append(made)
        if block is None:
            return [[*before, *inner]]
        return [before, [_turned_back(einsum, block.variable) for einsum in inner], behind]

    def _turned(self, tensor: TensorName, block: Recurrence | None) -> tuple[Rank, int] | None:
        """The rank of time of a tensor that a recurrence writes, and its last index."""
        producer = self.workload.producers.get(tensor, "")
        if block is None or producer not in block.einsums:
            return None
        projection = self.workload.by_name[producer].by_tensor[tensor].projection
        rank = next(rank for rank, index in projection if index.terms == ((block.variable, 1),))
        return rank, self.sizes[tensor][rank] - 1

    def _total(self, tensor: TensorName) -> Einsum:
        """The sum of all parts of the gradient by a tensor."""
        parts = self.parts[tensor]
        turned = next((part.turned for part in parts if part.turned), None)
        plain = f"d_{tensor}" if not (turned and tensor in self.by) else f"d_{tensor}_{len(parts) + 1}"
        self.slopes[tensor] = Slope(self.names.free(plain), turned)
        return self._sum(tensor, parts, self.slopes[tensor])

    def _sum(self, tensor: TensorName, parts: Sequence[Slope], target: Slope) -> Einsum:
        """The sum of parts of a gradient, element by element."""
        name = self.workload.producers.get(tensor)
        users = [self.workload.by_name[user] for user in self.workload.users[tensor]]
        einsum = users[0] if name is None else self.workload.by_name[name]
        self.origins[target.name] = einsum.name
        access = einsum.by_tensor[tensor]
        projection, constraints = self._elements(tensor, None if name is None else einsum)
        whole = [
            replace(_gradient_access(part, projection, access), output=part is target, partial_bits=None)
            for part in [*parts, target]
        ]
        expression: MapExpression = Operand(parts[0].name)
        for part in parts[1:]:
            expression = Apply("add", (expression, Operand(part.name)))
        instances = einsum.n_instances if name else max(user.n_instances for user in users)
        made = replace(einsum, name=target.name, operation=_operation(expression), n_instances=instances)
        return rebuilt(replace(made, is_copy=len(parts) == 1, part=None), whole, constraints)

    def _elements(self, tensor: TensorName, producer: Einsum | None) -> tuple[Projection, list[str]]:
        """Indices, one rank variable each, for the elements of a tensor that its producer writes, or for all."""
        sizes = self.sizes[tensor]
        if producer is None:
            fresh = [(rank, *self.names.variable(rank, size)) for rank, size in sizes.items()]
            return tuple((rank, index) for rank, index, _ in fresh), [bound for _, _, bound in fresh]
        written = producer.by_tensor[tensor].projection
        terms = [v for _, index in written for v, _ in index.terms]
        projection: list[tuple[Rank, Affine]] = []
        own: list[RankVar] = []
        bounds: list[str] = []
        for rank, index in written:
            alone = len(index.terms) == 1 and index.terms[0][1] == 1 and terms.count(index.terms[0][0]) == 1
            if alone or not index.terms:
                projection.append((rank, index))
                own += [v for v, _ in index.terms]
            else:
                place, bound = self.names.variable(rank, sizes[rank], terms)
                projection.append((rank, place))
                bounds.append(bound)
        cuts = [cut for cut in producer.cuts if parse_constraint(cut).names <= {*own}]
        return tuple(projection), [*box(producer, own), *bounds, *cuts]

    def _tie(self, flow: Flow) -> Group:
        """For a largest or a smallest value how many share it."""
        einsum, output = flow.einsum, flow.output
        key = einsum.name, output.tensor
        if einsum.is_copy or einsum.operation.reduction == "sum" or not _reduces(einsum, output) or key in self.ties:
            return []
        name = self.ties[key] = self.names.free(f"{output.tensor}_ties")
        self.origins[name] = einsum.name
        expression = Apply("equal", (map_of(einsum), Operand(output.tensor)))
        counted = replace(output, tensor=name, partial_bits=None)
        return [_einsum(einsum, name, expression, self._read(einsum, expression, []), counted)]

    def _term(self, flow: Flow, part: Slope) -> Einsum:
        """The Einsum that gives an operand its part of the gradient, with time as it runs forward."""
        einsum, output, operand = flow.einsum, flow.output, flow.operand
        self.origins[part.name] = einsum.name
        slope = self.slopes[output.tensor]
        further = [_gradient_access(slope, output.projection, output)]
        gradient: MapExpression = Operand(slope.name)
        value: MapExpression | None = None
        if (einsum.name, output.tensor) in self.ties:
            ties = self.ties[einsum.name, output.tensor]
            further.append(replace(output, tensor=ties, output=False, partial_bits=None))
            is_it = Apply("equal", (map_of(einsum), Operand(output.tensor)))
            gradient = product(quotient(gradient, Operand(ties)), is_it)
        elif not _reduces(einsum, output):
            value = Operand(output.tensor)
        expression = pulled_back(map_of(einsum), gradient, value)[operand.tensor]
        written, bounds = self._places(einsum, operand)
        for index, rows in written.found:
            expression = product(expression, Apply("equal", (Operand(index), Operand(rows.tensor))))
            further.append(rows)
        target = _gradient_access(part, written.projection, operand)
        target = replace(target, output=True, partial_bits=output.partial_bits)
        return _einsum(einsum, part.name, expression, self._read(einsum, expression, further), target, bounds)

    def _places(self, einsum: Einsum, operand: TensorAccess) -> tuple[_Places, list[str]]:
        """Where an operand's gradient is written: in place of each rank that is looked up, all of its rows."""
        projection: list[tuple[Rank, Affine]] = []
        found: list[tuple[TensorName, TensorAccess]] = []
        bounds: list[str] = []
        for rank, index in operand.written:
            if isinstance(index, Affine):
                projection.append((rank, index))
                continue
            row, bound = self.names.variable(rank, index.size, einsum.rank_variables)
            projection.append((rank, row))
            bounds.append(bound)
            name = next((t for t, it in self.rows.items() if it == (rank, index.size)), None)
            name = name or self.names.free(f"{rank}_rows")
            self.rows[name] = rank, index.size
            bits = einsum.by_tensor[index.tensor].bits_per_value
            found.append((index.tensor, TensorAccess(name, ((rank, row),), False, bits)))
        return _Places(tuple(projection), tuple(found)), bounds

    def _read(self, einsum: Einsum, expression: MapExpression, further: Iterable[TensorAccess]) -> list[TensorAccess]:
        """The accesses of what an expression reads, index tensors of what is gathered among them."""
        known = {access.tensor: replace(access, output=False, partial_bits=None) for access in einsum.accesses}
        known |= {access.tensor: access for access in further}
        read: dict[TensorName, TensorAccess] = {}
        for tensor in _in_order(expression):
            read[tensor] = known[tensor]
            for index in known[tensor].lookups.values():
                read.setdefault(index.tensor, known[index.tensor])
        return list(read.values())


@dataclass(frozen=True, slots=True)
class _Places:
    """Indices of a gradient, and for each rank that is looked up its index tensor and the numbers of its rows."""

    projection: Projection
    found: tuple[tuple[TensorName, TensorAccess], ...]


def _einsum(
    einsum: Einsum,
    name: str,
    expression: MapExpression,
    read: Sequence[TensorAccess],
    target: TensorAccess,
    bounds: Iterable[str] = (),
) -> Einsum:
    """An Einsum over the space of another one, whose rank variables that nothing indexes become a factor."""
    accesses = [*read, target]
    indexed = {v for access in accesses for v in access.variables}
    lost = [v for v in einsum.rank_variables if v not in indexed]
    for cut in einsum.cuts:
        if parse_constraint(cut).names & {*lost}:
            raise NotSupportedError(
                f"the gradient of Einsum {einsum.name!r} by {name.removeprefix('d_')!r} needs the number of points "
                f"with {cut}, which no tensor of it is indexed by",
                hint="let an operand of the sum have the rank variables of the bound",
            )
    expression = product(Number(float(math.prod(einsum.extents[v] for v in lost))), expression)
    made = replace(einsum, name=name, operation=_operation(expression), is_copy=False, part=None)
    constraints = [*box(einsum, [v for v in einsum.rank_variables if v in indexed]), *einsum.cuts, *bounds]
    made = rebuilt(made, accesses, constraints)
    return replace(made, is_copy=True) if isinstance(expression, Operand) and _may_copy(made) else made


def _may_copy(einsum: Einsum) -> bool:
    """Whether an Einsum of one operand sums nothing, so that its values need only be moved."""
    try:
        check_copy(replace(einsum, is_copy=True))
    except SpecError:
        return False
    return True


def _operation(expression: MapExpression) -> Operation:
    return Operation(expression, "sum", format_map(expression))


def _gradient_access(slope: Slope, own: Projection, tensor: TensorAccess) -> TensorAccess:
    """A read of (a part of) the gradient by a tensor, at indices of the tensor."""
    return TensorAccess(slope.name, slope.projection(own), False, tensor.bits_per_value)


def _reduces(einsum: Einsum, output: TensorAccess) -> bool:
    """Whether several points may fall on one element of an output."""
    alone = {index.terms[0][0] for _, index in output.projection if len(index.terms) == 1}
    return any(v not in alone and extent > 1 for v, extent in einsum.bounds)


def _in_order(expression: MapExpression) -> list[TensorName]:
    """The operands of an expression, from left to right."""
    match expression:
        case Apply(arguments=arguments):
            return list(dict.fromkeys(t for argument in arguments for t in _in_order(argument)))
        case _:
            return sorted(operands(expression))


def _subtracted(constant: int, index: Affine) -> Affine:
    return Affine(tuple((v, -a) for v, a in index.terms), constant - index.constant)


def _turned_back(einsum: Einsum, variable: RankVar) -> Einsum:
    """The Einsum with the values of a rank variable in reversed order. A copy within a recurrence is computed."""
    ends = 2 * dict(einsum.first_values).get(variable, 0) + einsum.extents[variable] - 1
    table = {variable: Affine(((variable, -1),), ends)}

    def turned(written: Written) -> Written:
        return tuple(
            (rank, substituted(index, table) if isinstance(index, Affine) else _in_lookup(index))
            for rank, index in written
        )

    def _in_lookup(index: Lookup) -> Lookup:
        return replace(index, projection=tuple((rank, substituted(place, table)) for rank, place in index.projection))

    accesses = [
        replace(
            access,
            projection=tuple((rank, substituted(index, table)) for rank, index in access.projection),
            gathered=turned(access.gathered),
        )
        for access in einsum.accesses
    ]
    made = rebuilt(einsum, accesses, [*box(einsum), *with_cuts(einsum.cuts, table)])
    return replace(made, is_copy=False)
