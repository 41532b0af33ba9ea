"""A model that is trained: layers as Einsums, how often each is repeated, and the samples of a step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import groupby
from typing import Any

from einmap.distribute.placements.mesh import AxisName
from einmap.distribute.training.backward import Backward, Updated, updated, with_backward
from einmap.distribute.training.plan import Dim
from einmap.einsum.einsum import Einsum, TensorName
from einmap.einsum.gradients.update import OPTIMIZERS
from einmap.einsum.spaces.projection import Rank, RankVar
from einmap.einsum.workload import Workload
from einmap.errors import SpecError, did_you_mean
from einmap.visible import brief, short


@dataclass(frozen=True)
class Ranks:
    """Ranks whose splits have names. `batch`: samples, data parallel; `sequence`: positions, context and sequence
    parallel; `expert`: experts, expert parallel. A rank variable that indexes such a rank alone counts as well, and so
    does each rank that it indexes: queries and keys of attention are both positions. None: it has none.
    """

    batch: Rank = "B"
    sequence: Rank | None = "M"
    expert: Rank | None = None


@dataclass(frozen=True)
class Layer:
    """Einsums that are repeated `count` times, each time with weights of their own, and planned once.

    Weights are graph inputs that no batch variable indexes; other graph inputs come from the layer before.
    `product_bits`: of values as products with weights read them, which cost a cast of the others; None: as they are.
    """

    __repr__ = brief

    name: str
    workload: Workload
    ranks: Ranks
    count: int = 1
    product_bits: float | None = None

    @cached_property
    def batch(self) -> frozenset[RankVar]:
        """Rank variables of samples."""
        return variables_of(self.workload, self.ranks.batch)

    @cached_property
    def sequence(self) -> frozenset[RankVar]:
        """Rank variables of positions."""
        return variables_of(self.workload, self.ranks.sequence)

    @cached_property
    def experts(self) -> frozenset[RankVar]:
        """Rank variables of experts."""
        return variables_of(self.workload, self.ranks.expert)

    @cached_property
    def graph_inputs(self) -> tuple[TensorName, ...]:
        """Tensors that no Einsum writes."""
        return tuple(tensor for tensor in self.workload.tensors if tensor not in self.workload.producers)

    @cached_property
    def weights(self) -> tuple[TensorName, ...]:
        """Graph inputs that are trained."""
        return tuple(tensor for tensor in self.graph_inputs if not self._has_samples(tensor))

    @cached_property
    def arriving(self) -> tuple[TensorName, ...]:
        """Activations from the layer before."""
        return tuple(tensor for tensor in self.graph_inputs if self._has_samples(tensor))

    @cached_property
    def results(self) -> tuple[TensorName, ...]:
        """Activations for the layer after."""
        return tuple(tensor for tensor in self.workload.tensors if not self.workload.consumers[tensor])

    @cached_property
    def passing(self) -> frozenset[RankVar]:
        """Rank variables of results, and of activations of the same shape: samples, positions and their features."""
        shapes = {frozenset(self.workload.tensor_shape(tensor)) for tensor in self.results}
        every = (access for einsum in self.workload.einsums for access in einsum.accesses)
        return frozenset(v for a in every if frozenset(dict(a.projection)) in shapes for v in a.variables)

    def step(self, samples: int) -> Backward:
        """The Einsums of one layer for so many samples, with those of its backward pass."""
        return with_backward(_resized(self.workload, self.batch, samples), self.arriving)

    def placements(
        self,
        axes: Mapping[Dim, tuple[AxisName, ...]],  # noqa: ARG002
        sequence_parallel: bool,  # noqa: ARG002
    ) -> dict[TensorName, Any]:
        """How tensors lie whatever that costs, as `placements.request` reads it; `axes`: of each way."""
        return {}

    def _has_samples(self, tensor: TensorName) -> bool:
        users = (self.workload.by_name[name] for name in self.workload.users[tensor])
        return any(self.batch & einsum.by_tensor[tensor].variables for einsum in users)


MOST_LAYERS = 10_000
"""Layers of a model, repeated ones included: a cut into stages looks at each."""


@dataclass(frozen=True)
class TrainingModel:
    """Layers in order, and a step of training. `batch`: samples of a step, on all devices together.

    `gradient_bytes`: of the gradient of a weight; `optimizer`: `adam` or `sgd`; `state_bytes`: of what it keeps for a
    weight, None: of what its Einsums keep, such as 12 for Adam: weight, mean and variance in 32 bits. `table`: values
    of weights that the first stage looks up, such as those of an embedding.

    Raises SpecError for no layers, more than `MOST_LAYERS` or two of one name, for a batch below 1, and for bytes that
    are negative.
    """

    __repr__ = brief

    layers: tuple[Layer, ...]
    batch: int
    gradient_bytes: float = 2.0
    state_bytes: float | None = None
    table: int = 0
    optimizer: str = "adam"

    def __post_init__(self) -> None:
        if not self.layers:
            raise SpecError("a model has at least one layer")
        names = [layer.name for layer in self.layers]
        for name in dict.fromkeys(names):
            if names.count(name) > 1:
                raise SpecError(f"two layers have the name {name!r}", hint="rename one of them")
        count = sum(layer.count for layer in self.layers)
        if count > MOST_LAYERS:
            raise SpecError(f"the model has {count:,} layers; expected at most {MOST_LAYERS:,}")
        if self.batch < 1:
            raise SpecError(f"a step has {self.batch} samples; expected at least 1")
        if self.optimizer not in OPTIMIZERS:
            hint = did_you_mean(str(self.optimizer), OPTIMIZERS, listing="optimizers")
            raise SpecError(f"unknown optimizer {short(self.optimizer)}", hint=hint)
        if min(self.gradient_bytes, self.state_bytes or 0.0, self.table) < 0:
            raise SpecError("bytes of gradients, states and tables are not negative")

    def updated(self, bits: float) -> Updated:
        """Bytes for each value of a weight with so many bits that an update needs."""
        found = updated(self.optimizer, bits)
        if self.state_bytes is None:
            return found
        # what is kept is read and written
        return Updated(self.state_bytes, found.moved + 2 * (self.state_bytes - found.state))

    @cached_property
    def units(self) -> tuple[Layer, ...]:
        """Layers one after another, equal ones as often as they are repeated: a stage is a run of them."""
        return tuple(layer for layer in self.layers for _ in range(layer.count))

    @staticmethod
    def of(
        workload: Workload,
        batch: int,
        ranks: Ranks = Ranks(),
        *,
        layers: int | None = None,
        gradient_bytes: float = 2.0,
        state_bytes: float | None = None,
        table: int = 0,
        optimizer: str = "adam",
    ) -> TrainingModel:
        """The model of a workload. Successive Einsums with the same `n_instances` are a layer that is repeated so
        often; Einsums that run once are cut wherever a single tensor with samples goes on.

        `layers`: how often the whole workload is repeated as one layer. Raises SpecError where a rank is not one of the
        workload.
        """
        for rank in (ranks.batch, ranks.sequence, ranks.expert):
            if rank is not None and rank not in workload.rank_sizes and rank != "M":
                hint = did_you_mean(rank, workload.rank_sizes, listing="ranks")
                raise SpecError(f"the workload has no rank {rank!r}", hint=hint)
        if layers is not None:
            whole = Layer("layer", replace(workload, n_instances=1), ranks, layers)
            return TrainingModel((whole,), batch, gradient_bytes, state_bytes, table, optimizer)
        made: list[Layer] = []
        for count, group in groupby(workload.einsums, key=lambda einsum: einsum.n_instances * workload.n_instances):
            for einsums in _pieces(workload, list(group)) if count == 1 else [list(group)]:
                once = Workload(tuple(replace(einsum, n_instances=1) for einsum in einsums))
                made.append(Layer(f"{einsums[0].name} to {einsums[-1].name}", once, ranks, count))
        return TrainingModel(tuple(made), batch, gradient_bytes, state_bytes, table, optimizer)


def _pieces(workload: Workload, einsums: Sequence[Einsum]) -> Iterator[list[Einsum]]:
    """Einsums cut wherever one tensor that some of them writes, and nothing else that is read later, goes on."""
    piece: list[Einsum] = []
    for position, einsum in enumerate(einsums):
        piece.append(einsum)
        done = {tensor for one in einsums[: position + 1] for tensor in one.outputs}
        rest = einsums[position + 1 :]
        going_on = {tensor for one in rest for tensor in one.inputs if tensor in done}
        given = {tensor for one in einsums[: position + 1] for tensor in one.inputs if tensor not in workload.producers}
        if len(going_on) == 1 and not any(given & one.inputs for one in rest):
            yield piece
            piece = []
    if piece:
        yield piece


@lru_cache(maxsize=1000)
def variables_of(workload: Workload, rank: Rank | None) -> frozenset[RankVar]:
    """The rank variables that index a rank alone, and those that index the ranks that these index as well."""
    ranks, variables = {rank}, set[RankVar]()
    while rank is not None:
        found = set(variables)
        for einsum in workload.einsums:
            for access in einsum.accesses:
                for name, index in access.projection:
                    if len(index.terms) == 1 and (name in ranks or index.terms[0][0] in found):
                        found.add(index.terms[0][0])
                        ranks.add(name)
        if found == variables:
            break
        variables = found
    return frozenset(variables)


@lru_cache(maxsize=1000)
def _resized(workload: Workload, variables: frozenset[RankVar], size: int) -> Workload:
    """The workload with so many values of these rank variables."""

    def resized(einsum: Einsum) -> Einsum:
        bounds = tuple((name, size if name in variables else bound) for name, bound in einsum.bounds)
        points = einsum.n_points
        for name, bound in einsum.bounds:
            if points is not None and name in variables:
                points = points * size // bound
        return replace(einsum, bounds=bounds, n_points=points)

    return Workload(tuple(map(resized, workload.einsums)))
