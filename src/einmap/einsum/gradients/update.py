"""The step of an optimiser as Einsums: new weights from old ones and their gradients.

SGD: W_next = W - rate * d_W. Adam (Kingma and Ba, ICLR 2015, algorithm 1) in mixed precision (Micikevicius et al., ICLR
2018): the weights that compute and their gradients are as wide as the workload says; a master copy of the weights and
both moments have 32 bits, or as many as the weights where these are wider.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from einmap.einsum.einsum import Einsum, TensorAccess, TensorName
from einmap.einsum.gradients.names import Names
from einmap.einsum.operation import parse_operation
from einmap.einsum.rewrites.edit import rebuilt
from einmap.einsum.spaces.projection import Affine, Rank
from einmap.errors import SpecError
from einmap.visible import short

type Optimizer = Literal["sgd", "adam"]
OPTIMIZERS: tuple[Optimizer, ...] = ("sgd", "adam")

MASTER_BITS = 32
"""Bits of a value of a master weight or a moment, at least."""
BETA_1, BETA_2, EPSILON = 0.9, 0.999, 1e-8
"""Adam's decay rates and the number that keeps its quotient finite, as its authors propose."""


@dataclass(frozen=True, slots=True)
class Update:
    """The Einsums of an optimiser's step.

    `by_weight`: the names of the Einsums of each weight; `weights`: the new weights by the old ones; `state`: what
    further tensors the step reads, each with the one that it becomes in the next step, in the order master weights,
    first and second moment; `scalars`: graph inputs of one value: `rate`, the step size of SGD; for Adam `rate`,
    alpha / (1 - beta_1**t) in step t from 1 on, and `scale`, 1 / sqrt(1 - beta_2**t).
    """

    by_weight: Mapping[TensorName, tuple[str, ...]]
    einsums: tuple[Einsum, ...]
    weights: Mapping[TensorName, TensorName]
    state: Mapping[TensorName, Mapping[TensorName, TensorName]]
    scalars: Mapping[str, TensorName]


@dataclass(frozen=True, slots=True)
class Weight:
    """A weight to be updated: the sizes of its ranks, its width, how often it is there, and its gradient."""

    tensor: TensorName
    sizes: Mapping[Rank, int]
    bits: float
    n_instances: int
    gradient: TensorName


def update(optimizer: str, weights: list[Weight], names: Names) -> Update:
    """The step of an optimiser, `sgd` or `adam`. Raises SpecError for another name."""
    if optimizer not in OPTIMIZERS:
        raise SpecError(f"unknown optimizer {short(optimizer)}", hint=f"one of {', '.join(OPTIMIZERS)}")
    is_adam = optimizer == "adam"
    scalars = {"rate": names.free("rate")} | ({"scale": names.free("scale")} if is_adam else {})
    einsums: dict[TensorName, list[Einsum]] = {}
    following: dict[TensorName, TensorName] = {}
    state: dict[TensorName, Mapping[TensorName, TensorName]] = {}
    for weight in weights:
        following[weight.tensor] = names.free(f"{weight.tensor}_next")
        writer = _Step(weight, scalars, names)
        if is_adam:
            state[weight.tensor] = writer.state
            einsums[weight.tensor] = [*writer.adam(following[weight.tensor])]
        else:
            einsums[weight.tensor] = [*writer.sgd(following[weight.tensor])]
    by_weight = {tensor: tuple(einsum.name for einsum in listed) for tensor, listed in einsums.items()}
    every = tuple(einsum for listed in einsums.values() for einsum in listed)
    return Update(by_weight, every, following, state, scalars)


class _Step:
    """The Einsums of one weight."""

    def __init__(self, weight: Weight, scalars: Mapping[str, TensorName], names: Names) -> None:
        self.weight, self.scalars = weight, scalars
        fresh = [(rank, *names.variable(rank, size)) for rank, size in weight.sizes.items()]
        self.projection = tuple((rank, index) for rank, index, _ in fresh)
        self.bounds = [bound for _, _, bound in fresh]
        roles = ("master", "mean", "square")
        olds = [names.free(f"{weight.tensor}_{role}") for role in roles]
        self.state = {old: names.free(f"{old}_next") for old in olds}

    def sgd(self, target: TensorName) -> Iterator[Einsum]:
        """One Einsum."""
        weight = self.weight.tensor
        yield self._einsum(target, f"{weight} - {self.scalars['rate']} * {self.weight.gradient}", self.weight.bits)

    def adam(self, target: TensorName) -> Iterator[Einsum]:
        """Moments, the master weight, and its copy in the width of the weight."""
        (master, next_master), (mean, next_mean), (square, next_square) = self.state.items()
        rate, scale, d = self.scalars["rate"], self.scalars["scale"], self.weight.gradient
        wide = max(MASTER_BITS, self.weight.bits)
        yield self._einsum(next_mean, f"{BETA_1} * {mean} + {1 - BETA_1:.12g} * {d}", wide)
        yield self._einsum(next_square, f"{BETA_2} * {square} + {1 - BETA_2:.12g} * {d} * {d}", wide)
        root = f"sqrt({next_square}) * {scale} + {EPSILON}"
        yield self._einsum(next_master, f"{master} - {rate} * {next_mean} / ({root})", wide)
        yield self._einsum(target, next_master, self.weight.bits)

    def _einsum(self, target: TensorName, text: str, bits: float) -> Einsum:
        """An Einsum, element by element, of the tensors in a map expression."""
        weight, own = self.weight, {self.weight.tensor, self.weight.gradient}
        wide = max(MASTER_BITS, weight.bits)
        names = [*own, *self.state, *self.state.values(), *self.scalars.values()]
        operation = parse_operation(text, names)
        accesses = []
        for tensor in (t for t in names if t in text.replace("(", " ").replace(")", " ").split()):
            if tensor in self.scalars.values():
                accesses.append(TensorAccess(tensor, (("O", Affine(())),), False, MASTER_BITS))
            else:
                accesses.append(TensorAccess(tensor, self.projection, False, weight.bits if tensor in own else wide))
        accesses.append(TensorAccess(target, self.projection, True, bits))
        made = Einsum(target, tuple(accesses), (), operation, text in names, weight.n_instances, part="update")
        return rebuilt(made, accesses, self.bounds)
