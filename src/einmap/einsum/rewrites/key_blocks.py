"""Attention in blocks of keys: a softmax and the product behind it, so that nothing waits for all keys.

A safe softmax needs the largest of all scores before it can sum anything. In blocks of keys (p = 512*p1 + p0) each
block subtracts its own largest score, or the largest one so far, and what other blocks have summed is multiplied by the
exp of the difference: Milakov and Gimelshein, Online normalizer calculation for softmax, arXiv 1805.02867, 2018; Dao et
al., FlashAttention, NeurIPS 2022; the cascades of two passes and of one of Nayak et al., FuseMax, MICRO 2024.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from einmap.einsum.einsum import Einsum, TensorAccess, TensorName
from einmap.einsum.notation.names import partition_names
from einmap.einsum.operation import Apply, MapExpression, Number, Operand, Operation, product_of, with_operands
from einmap.einsum.rewrites.delay import delay_reduction
from einmap.einsum.rewrites.edit import box, rebuilt
from einmap.einsum.rewrites.partition import TileShapes, single_variable, split
from einmap.einsum.rewrites.softmax import Softmax, as_input, exchanged, free, made, settled, softmaxes, written
from einmap.einsum.spaces.projection import Affine, Rank, RankVar
from einmap.einsum.spaces.recurrence import refuse_recurrences
from einmap.einsum.workload import Workload
from einmap.errors import NotSupportedError, SpecError

LOWEST: MapExpression = Apply("negative", (Number(1e300),))
"""The largest score before the first block: finite, so that its difference to a score of -inf is a number."""


def split_softmax(workload: Workload, rank: Rank | Sequence[Rank], tile_shape: int | Sequence[int]) -> Workload:
    """Blocks of keys apart from each other, and corrected once the largest of all scores is known.

    `rank`: that of the keys in the scores, perhaps with others of equal size that are partitioned together with it;
    `tile_shape`: keys of a block. Each block subtracts its own largest score; sums and products of all blocks are kept
    until the last one is there, multiplied by exp(largest of the block - largest of all), and added up. Each softmax
    over the rank is changed, and computes the same values; numerators are those of their block afterwards.

    Raises SpecError where there is no softmax over the rank that one product follows, and as `partition.split` does;
    NotSupportedError for bounds that `delay_reduction` does not know.
    """
    workload, found, blocks = _in_blocks(workload, rank, tile_shape)
    for softmax in found:
        workload = _corrected(workload, _Parts(workload, softmax, blocks))
    return workload


def online_softmax(workload: Workload, rank: Rank | Sequence[Rank], tile_shape: int | Sequence[int]) -> Workload:
    """One pass over blocks of keys, one after the other, with corrections.

    As `split_softmax`, but all that is kept of earlier blocks is the largest score so far, a sum and products for each
    query: the states of a recurrence over the blocks. Where bounds leave a block empty for some queries (a causal mask
    as an iteration space) these keep their states over it, and nothing is computed of its keys.
    """
    workload, found, blocks = _in_blocks(workload, rank, tile_shape)
    for softmax in found:
        workload = _Running(_Parts(workload, softmax, blocks)).workload()
    return workload


def _in_blocks(
    workload: Workload, rank: Rank | Sequence[Rank], tile_shape: int | Sequence[int]
) -> tuple[Workload, list[Softmax], Rank]:
    """The workload with keys in blocks, each softmax in one form, and the rank of the blocks.

    What is reduced over keys is reduced into a temporary for each block, and that by an Einsum of its own.
    """
    refuse_recurrences(workload.recurrences, "a softmax in blocks")
    ranks = (rank,) if isinstance(rank, str) else tuple(rank)
    if not isinstance(tile_shape, int) and len(tile_shape) != 1:
        raise SpecError(f"a softmax has blocks of one size, found {len(tile_shape)} tile shapes")
    shape: TileShapes = (tile_shape,) if isinstance(tile_shape, int) else tuple(tile_shape)
    found: list[Softmax] = []
    for softmax in softmaxes(workload, ranks[0]):
        workload, same = settled(workload, softmax, ranks[0])
        found.append(same)
    blocks = partition_names(ranks[0], 2, workload.rank_sizes)[0][0]
    workload = split(workload, ranks, shape)
    for softmax in found:
        assert softmax.largest is not None
        for tensor in (softmax.largest, softmax.sums, softmax.products):
            temporary = free(workload, f"{tensor}_block")
            workload = delay_reduction(workload, blocks, workload.producers[tensor], temporary)
    return workload, found, blocks


@dataclass(frozen=True)
class _Parts:
    """A softmax in blocks: its Einsums. `maximum`, `total`, `product` reduce what there is of each block."""

    workload: Workload
    softmax: Softmax
    blocks: Rank

    def _producer(self, tensor: TensorName) -> Einsum:
        return self.workload.by_name[self.workload.producers[tensor]]

    @cached_property
    def exp(self) -> Einsum:
        return self._producer(self.softmax.numerators)

    @property
    def largest(self) -> TensorName:
        assert self.softmax.largest is not None
        return self.softmax.largest

    @cached_property
    def maximum(self) -> Einsum:
        return self._producer(self.largest)

    @cached_property
    def total(self) -> Einsum:
        return self._producer(self.softmax.sums)

    @cached_property
    def product(self) -> Einsum:
        return self._producer(self.softmax.products)

    @cached_property
    def local(self) -> TensorAccess:
        """The largest score of each block, as the maximum of all reads it."""
        return _of_block(self.maximum)

    def correction(self, before: TensorName) -> Operation:
        """The numerator of a score `before`: the factor of what had that score subtracted in place of the largest."""
        return with_operands(self.exp.operation, {self.softmax.scores: before})


def _of_block(reduction: Einsum) -> TensorAccess:
    """The temporary as an Einsum reads it that reduces it over blocks."""
    return next(access for access in reduction.accesses if not access.output)


def _at(einsum: Einsum, access: TensorAccess) -> TensorAccess:
    """An access with the indices that an Einsum has for its ranks."""
    indices = {rank: index for a in einsum.accesses for rank, index in a.projection if single_variable(index)}
    return replace(access, projection=tuple((rank, indices[rank]) for rank, _ in access.projection))


# blocks apart


def _corrected(workload: Workload, parts: _Parts) -> Workload:
    """Numerators by the largest score of their block, and sums of blocks corrected to the largest of all."""
    largest, local, maximum = parts.largest, parts.local, parts.maximum
    factor = free(workload, f"{largest}_factor")
    read = as_input(maximum.by_tensor[largest])
    corrects = made(parts.exp, factor, parts.correction(local.tensor), [local, read, written(local, factor)], maximum)
    numerators = with_operands(parts.exp.operation, {largest: local.tensor})
    accesses = [_at(parts.exp, local) if a.tensor == largest else a for a in parts.exp.accesses]
    sums = [_times(einsum, as_input(local, factor)) for einsum in (parts.total, parts.product)]
    instead = {
        maximum.name: [],
        parts.exp.name: [made(parts.exp, parts.exp.name, numerators, accesses)],
        parts.total.name: [],
        parts.product.name: [maximum, corrects, *sums],
    }
    return exchanged(workload, instead)


def _times(reduction: Einsum, factor: TensorAccess) -> Einsum:
    """An Einsum that sums a temporary over blocks, each block times its factor."""
    part = _of_block(reduction)
    outputs = [access for access in reduction.accesses if access.output]
    accesses = [part, _at(reduction, factor), *outputs]
    return made(reduction, reduction.name, product_of([part.tensor, factor.tensor]), accesses)


# one block after the other


@dataclass(frozen=True)
class _Running:
    """A recurrence over the blocks, whose states are the largest score so far, the sum and the products."""

    parts: _Parts

    def workload(self) -> Workload:
        """The workload with the recurrence, and before it all that is not a part of it."""
        parts, workload = self.whole, self.parts.workload
        first = workload.by_name[workload.producers[self.parts.local.tensor]]
        inner = [workload.by_name[workload.producers[_of_block(e).tensor]] for e in (parts.total, parts.product)]
        ahead = self._ahead(first)
        seen = self._seen() if self.parts.maximum.cuts else ()
        steps = [self._before(), *ahead, first, *seen, *self._largest(), self._numerators(), *inner]
        for reduction in (parts.total, parts.product):
            steps.append(self._corrected(reduction))
        for reduction in (parts.total, parts.product):
            steps.append(self._sum(reduction))
        (last,) = workload.consumers[parts.softmax.products]
        gone = [e.name for e in (*ahead, first, parts.maximum, parts.exp, *inner, parts.total, parts.product)]
        instead = {**dict.fromkeys(gone, ()), last: (*steps, self._result(workload.by_name[last]))}
        return exchanged(workload, instead)

    @cached_property
    def whole(self) -> _Parts:
        """The parts with all blocks for each query: what bounds leave out is never written, and read as 0."""
        workload, softmax = self.parts.workload, self.parts.softmax
        names = [workload.producers[tensor] for tensor in (self.parts.largest, softmax.sums, softmax.products)]
        return replace(self.parts, workload=exchanged(workload, {n: [uncut(workload.by_name[n])] for n in names}))

    @cached_property
    def _step(self) -> RankVar:
        """The rank variable of the blocks. NotSupportedError where there are several."""
        parts = self.parts
        ends = (parts.maximum, parts.total, parts.product)
        found = {str(single_variable(dict(_of_block(e).projection)[parts.blocks])) for e in ends}
        if len(found) > 1:
            text = (
                f"an online softmax needs one rank variable for rank {parts.blocks}, found {', '.join(sorted(found))}"
            )
            raise NotSupportedError(text, hint="use split_softmax, or give the rank variables of the keys one name")
        return found.pop()

    @cached_property
    def _time(self) -> Rank:
        """A rank for the states: at each index what has been there before that block."""
        return free(self.parts.workload, "T")

    def _state(self, tensor: TensorName, einsum: Einsum, *, after: bool, output: bool = False) -> TensorAccess:
        """A state before or after a block, indexed as in an Einsum."""
        reduction = self.parts.workload.by_name[self.parts.workload.producers[tensor]]
        access = _at(einsum, as_input(reduction.by_tensor[tensor]))
        at = Affine(((self._step, 1),), int(after))
        return replace(access, projection=((self._time, at), *access.projection), output=output)

    @cached_property
    def _highest(self) -> TensorAccess:
        """The largest score before a block, as a tensor of its own that the block reads."""
        return as_input(self.parts.local, free(self.parts.workload, f"{self.parts.largest}_before"))

    @cached_property
    def _factor(self) -> TensorAccess:
        """The factor of sums and products of earlier blocks."""
        return as_input(self.parts.local, free(self.parts.workload, f"{self.parts.largest}_factor"))

    def _before(self) -> Einsum:
        """The largest score before a block, LOWEST where nothing has been summed."""
        maximum, largest, sums = self.whole.maximum, self.parts.largest, self.parts.softmax.sums
        states = [self._state(tensor, maximum, after=False) for tensor in (sums, largest)]
        chosen = Operation(Apply("select", (Operand(sums), Operand(largest), LOWEST)))
        return made(maximum, self._highest.tensor, chosen, [*states, written(self._highest)])

    def _largest(self) -> tuple[Einsum, Einsum]:
        """The largest score with a block, and the factor of what earlier ones have summed."""
        maximum, largest, local = self.whole.maximum, self.parts.largest, self.parts.local
        larger: MapExpression = Apply("max", (Operand(self._highest.tensor), Operand(local.tensor)))
        seen: list[TensorAccess] = []
        if self.parts.maximum.cuts:
            seen, local = [as_input(local, self._shown)], as_input(local, self._higher)
            larger = Apply("select", (Operand(self._shown), Operand(local.tensor), Operand(self._highest.tensor)))
        state = self._state(largest, maximum, after=True, output=True)
        correction = self.parts.correction(self._highest.tensor)
        accesses = [self._highest, self._state(largest, maximum, after=True), written(self._factor)]
        return (
            made(maximum, maximum.name, Operation(larger), [*seen, local, self._highest, state]),
            made(self.parts.exp, self._factor.tensor, correction, accesses, maximum),
        )

    @cached_property
    def _shown(self) -> TensorName:
        """Which queries have a key in a block: 1 there, and nothing is written elsewhere."""
        return free(self.parts.workload, f"{self.parts.largest}_seen")

    @cached_property
    def _higher(self) -> TensorName:
        """The largest score with a block, of queries that have a key in it."""
        return free(self.parts.workload, f"{self.parts.largest}_after")

    def _seen(self) -> tuple[Einsum, Einsum]:
        """Ones, and the largest score with a block, within the bounds of blocks and queries."""
        cut, local, one = self.parts.maximum, self.parts.local, Number(1.0)
        chosen = Operation(Apply("select", (Operand(local.tensor), one, one)))
        larger = Operation(Apply("max", (Operand(self._highest.tensor), Operand(local.tensor))))
        return (
            made(cut, self._shown, chosen, [local, written(local, self._shown)]),
            made(cut, self._higher, larger, [self._highest, local, written(local, self._higher)]),
        )

    def _numerators(self) -> Einsum:
        """Numerators by the largest score so far."""
        exp, largest = self.parts.exp, self.parts.largest
        state = self._state(largest, exp, after=True)
        return rebuilt_with(exp, {largest: state})

    def _corrected(self, reduction: Einsum) -> Einsum:
        """The sum of earlier blocks by the largest score so far."""
        (tensor,) = reduction.outputs
        state, factor = self._state(tensor, reduction, after=False), _at(reduction, self._factor)
        into = written(_of_block(reduction), self._rescaled(tensor))
        return made(reduction, into.tensor, product_of([tensor, factor.tensor]), [state, factor, into])

    def _sum(self, reduction: Einsum) -> Einsum:
        """The sum with a block."""
        (tensor,) = reduction.outputs
        part = _of_block(reduction)
        before = as_input(part, self._rescaled(tensor))
        both = Operation(Apply("add", (Operand(before.tensor), Operand(part.tensor))))
        state = self._state(tensor, reduction, after=True, output=True)
        return made(reduction, reduction.name, both, [before, part, state])

    def _rescaled(self, tensor: TensorName) -> TensorName:
        return free(self.parts.workload, f"{tensor}_before")

    def _result(self, division: Einsum) -> Einsum:
        """The division by what the last block has left."""
        last = (self._time, Affine((), self.parts.maximum.extents[self._step]))
        states = {self.parts.softmax.sums, self.parts.softmax.products}
        ended = {t: replace(a, projection=(last, *a.projection)) for t, a in division.by_tensor.items() if t in states}
        return rebuilt_with(division, ended)

    def _ahead(self, first: Einsum) -> list[Einsum]:
        """The Einsums that make the scores of a block of keys, and nothing else: they run step by step, too."""
        parts, workload = self.parts, self.parts.workload
        needed = {rank for rank, _ in parts.local.projection}
        inside, waiting = {first.name, parts.exp.name}, [parts.softmax.scores]
        found: set[str] = set()
        while waiting:
            einsum = workload.by_name.get(workload.producers.get(waiting.pop(), ""))
            if einsum is None or einsum.name in inside or einsum.is_copy or len(einsum.outputs) != 1:
                continue
            (output,) = (access for access in einsum.accesses if access.output)
            at = {rank: single_variable(index) for rank, index in output.projection}
            own = all(at.get(rank) for rank in needed) and at[parts.blocks] == self._step
            if own and inside.issuperset(workload.consumers[output.tensor]):
                inside.add(einsum.name)
                found.add(einsum.name)
                waiting += sorted(einsum.inputs)
        return [einsum for einsum in workload.einsums if einsum.name in found]


def rebuilt_with(einsum: Einsum, accesses: dict[TensorName, TensorAccess]) -> Einsum:
    """The Einsum with other accesses of some tensors."""
    return made(einsum, einsum.name, einsum.operation, [accesses.get(a.tensor, a) for a in einsum.accesses])


def uncut(einsum: Einsum) -> Einsum:
    """The Einsum within the extents of its rank variables alone."""
    return rebuilt(einsum, einsum.accesses, box(einsum, einsum.rank_variables))
