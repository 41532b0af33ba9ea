"""Lower bounds of the cost of a plan, in all and for each way of an Einsum and each home of a tensor.

Costs are shifted between Einsums and tensors so that the sum of what each of them costs at least, which no plan is
below, grows. Parts are taken in the order of the cascade and back; each spreads what it costs over what comes next, as
in Kolmogorov, "Convergent tree-reweighted message passing for energy minimization", IEEE PAMI 2006. No bound gets
smaller.

Equal layers are worked out once: results are remembered by part and shifts. In layers that are far from the ends shifts
differ little, and are made the same: whatever is shifted, the sum is a bound.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np

from einmap.distribute.search.homes import Costs, Numbers
from einmap.distribute.search.parts import EinsumPart, TensorPart
from einmap.distribute.search.space import SearchSpace, Ways
from einmap.einsum.einsum import TensorName

type Part = EinsumPart | TensorPart
type Key = str | tuple[TensorName]
"""An Einsum by its name, a tensor as a tuple of its name."""
type Access = tuple[str, TensorName]

MAX_SWEEPS = 40
ENOUGH = 1e-6
"""Growth of the bound in one sweep, as a part of it, below which no other follows."""
ALIKE = 1e-4
"""Difference between shifts that are made the same, as a part of what a part costs on average."""
RECENT = 8
"""Shifts that a new one is compared with."""


@dataclass(frozen=True, eq=False)
class Slack:
    """`bound`: what every plan costs at least; `slack`: by how much a plan exceeds it at least, for each Einsum by way,
    for each tensor by home (by first home and placement where pairs are not listed).
    """

    bound: float
    slack: Mapping[Key, Costs]


def slack_of(space: SearchSpace, stopped: Callable[[], bool] = lambda: False, sweeps: int = MAX_SWEEPS) -> Slack:
    """The bounds of a space in which every way and home goes with one of each neighbour's, limits on memory left out,
    after at most so many sweeps forward and back.
    """
    state = _State(space)
    bound = state.bound()
    for _ in range(sweeps):
        state.sweep(1)
        state.sweep(-1)
        before, bound = bound, state.bound()
        if bound - before <= ENOUGH * abs(bound) or stopped():
            break
    # a part knows most of the others when its turn has come and it has not spread its costs yet
    state.sweep(1)
    before, state.lost = state.bound(), 0.0
    slack: dict[Key, Costs] = {}
    state.sweep(-1, lambda key: slack.update({key: state.slack(key) - state.lost}))
    # every plan has one of the strategies of each part
    bound = max(state.bound(), before + max(float(some.min()) for some in slack.values()))
    return Slack(bound, {key: slack[key] - (bound - before) for key in state.order})


def possible(space: SearchSpace) -> dict[Key, Costs]:
    """For each Einsum by way and each tensor by home: whether it goes with its neighbours, 0 or inf."""
    state = _State(space, shift_leaves=False)
    return {key: np.where(np.isfinite(state.slack(key)), 0.0, np.inf) for key in state.order}


class _State:
    """Parts, and what is shifted at each access. Equal arrays are one object, which results are remembered by."""

    def __init__(self, space: SearchSpace, shift_leaves: bool = True) -> None:
        self._arrays: dict[tuple[tuple[int, ...], bytes], Costs] = {}
        self._known: dict[object, tuple[Costs, ...]] = {}
        self._parts = _parts(space)
        self.order = tuple(self._parts)
        self._rank = {key: number for number, key in enumerate(self.order)}
        self._accesses = _accesses(space)
        self._shifted: dict[Access, Costs] = {
            (einsum.name, access.tensor): self._one(np.zeros(len(used)))
            for einsum in space.context.workload.einsums
            for access, used in zip(einsum.accesses, space.ways[einsum.name].used, strict=True)
        }
        self._leaves = {key for key, some in self._accesses.items() if isinstance(key, tuple) and len(some) == 1}
        self._recent: dict[object, list[Costs]] = {}
        self._alike = 0.0
        self.lost = 0.0
        """By how much the bound may have become less where shifts were made the same."""
        if shift_leaves:
            for key in sorted(self._leaves):
                (access,) = self._accesses[key]
                self._shifted[access] = self._one(self._shifted[access] - self._least(key)[0])
            self._alike = abs(self.bound()) * ALIKE / len(self.order)

    def bound(self) -> float:
        """The sum of what each part costs at least."""
        return sum(float(self._costs(key).min()) for key in self.order)

    def sweep(self, step: int, before: Callable[[Key], None] | None = None) -> None:
        """Forward (1) or backward (-1): each part spreads its costs over what follows. `before` is called first."""
        for key in self.order[::step]:
            if before is not None:
                before(key)
            if key in self._leaves:
                continue
            near = [access for access in self._accesses[key] if self._other(key, access) not in self._leaves]
            ahead = [a for a in near if (self._rank[self._other(key, a)] - self._rank[key]) * step > 0]
            if not ahead:
                continue
            share = 1 / max(len(ahead), len(near) - len(ahead))
            sign = share if isinstance(key, str) else -share
            least = dict(zip(self._accesses[key], self._least(key), strict=True))
            for access in ahead:
                self._shifted[access] = self._moved(access, least[access], sign)

    def slack(self, key: Key) -> Costs:
        """By how much plans exceed the bound at least: what this part and its neighbours cost above their least."""
        above = [self._above(self._other(key, access), access) for access in self._accesses[key]]
        shifted = self._shifts(key)

        def total() -> tuple[Costs, ...]:
            part = self._parts[key]
            if isinstance(part, EinsumPart):
                costs = part.with_neighbours(shifted, above)
            else:
                costs = part.costs([a + b for a, b in zip(shifted, above, strict=True)])
            return (costs - float(self._costs(key).min()),)

        return self._remembered(("slack", *self._key(key), *map(id, above)), total)[0]

    def _above(self, key: Key, access: Access) -> Costs:
        """By how much this part exceeds its least cost, by the placement of the access."""
        position = self._accesses[key].index(access)
        least = self._least(key)[position]
        return self._remembered(("above", *self._key(key), position), lambda: (least - least.min(),))[0]

    def _moved(self, access: Access, least: Costs, sign: float) -> Costs:
        """The shifts at an access after `sign` times a part's least cost has been added."""
        shifted = self._shifted[access]
        alike = self._parts[access[0]], self._parts[access[1],], self._accesses[access[0]].index(access)

        def made() -> tuple[Costs, ...]:
            moved = shifted + sign * (least - least.min())
            moved -= moved.min()
            recent = self._recent.setdefault(alike, [])
            for other in recent:
                difference = float(np.abs(moved - other).max())
                if difference <= self._alike:
                    return other, np.array(2 * difference)
            moved = self._one(moved)
            self._recent[alike] = [moved, *recent[: RECENT - 1]]
            return moved, np.array(0.0)

        moved, lost = self._remembered(("moved", *alike, id(shifted), id(least), sign), made)
        self.lost += float(lost)
        return moved

    def _other(self, key: Key, access: Access) -> Key:
        return (access[1],) if isinstance(key, str) else access[0]

    def _shifts(self, key: Key) -> list[Costs]:
        return [self._shifted[access] for access in self._accesses[key]]

    def _key(self, key: Key) -> tuple[object, ...]:
        return (self._parts[key], *map(id, self._shifts(key)))

    def _costs(self, key: Key) -> Costs:
        shifted = self._shifts(key)
        return self._remembered(("costs", *self._key(key)), lambda: (self._parts[key].costs(shifted),))[0]

    def _least(self, key: Key) -> tuple[Costs, ...]:
        shifted = self._shifts(key)
        return self._remembered(("least", *self._key(key)), lambda: self._parts[key].least_by_placement(shifted))

    def _remembered(self, key: object, make: Callable[[], Iterable[Costs]]) -> tuple[Costs, ...]:
        if key not in self._known:
            self._known[key] = tuple(self._one(array) for array in make())
        return self._known[key]

    def _one(self, array: Costs) -> Costs:
        return self._arrays.setdefault((array.shape, blake2b(array.tobytes()).digest()), array)


def _accesses(space: SearchSpace) -> dict[Key, tuple[Access, ...]]:
    """The accesses of each part in the order of the part."""
    workload = space.context.workload
    made: dict[Key, tuple[Access, ...]] = {
        einsum.name: tuple((einsum.name, access.tensor) for access in einsum.accesses) for einsum in workload.einsums
    }
    for tensor in workload.tensors:
        writer = workload.producers.get(tensor)
        users = (*(() if writer is None else (writer,)), *workload.consumers[tensor])
        made[tensor,] = tuple((user, tensor) for user in users)
    return made


def _parts(space: SearchSpace) -> dict[Key, Part]:
    """All parts in the order of the cascade: graph inputs before their first reader. Equal parts are one object."""
    workload = space.context.workload
    einsums: dict[Ways, EinsumPart] = {}
    tensors: dict[tuple[object, ...], TensorPart] = {}
    of_einsum = {
        name: einsums.setdefault(space.ways[name], EinsumPart(space.ways[name])) for name in workload.einsum_names
    }

    def used(einsum: str, tensor: TensorName) -> Numbers:
        position = [access.tensor for access in workload.by_name[einsum].accesses].index(tensor)
        return space.ways[einsum].used[position]

    def tensor_part(tensor: TensorName) -> TensorPart:
        writer = workload.producers.get(tensor)
        written = None if writer is None else used(writer, tensor)
        read = tuple(used(reader, tensor) for reader in workload.consumers[tensor])
        key = (space.homes[tensor], id(written), *map(id, read))
        return tensors.setdefault(key, TensorPart(space.homes[tensor], written, read))

    made: dict[Key, Part] = {}
    for einsum in workload.einsums:
        for access in einsum.accesses:
            if not access.output and (access.tensor,) not in made:
                made[access.tensor,] = tensor_part(access.tensor)
        made[einsum.name] = of_einsum[einsum.name]
        for access in einsum.accesses:
            if access.output:
                made[access.tensor,] = tensor_part(access.tensor)
    return made
