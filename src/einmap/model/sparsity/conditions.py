"""When an exchange or an operation is saved, and how likely that is.

It is done if each tensor that is looked at has a nonzero in the box of each visit that asks for it. Boxes of one tensor
lie in one another, so that the innermost one decides; different tensors are independent.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from einmap.arrays import Amounts
from einmap.errors import NotSupportedError
from einmap.model.counting.path import EinsumPath, applies
from einmap.model.sparsity.visits import Around, Spans, boxes_of
from einmap.model.traffic.tensor_traffic import Exchange, TensorTraffic
from einmap.sparse.known import Known
from einmap.sparse.savings import SKIPPED, Sparsity


@dataclass(frozen=True)
class Condition:
    """A tensor that is looked at in the visits of a node. `skips`: whether what it saves takes no time.

    `at`: the memory or compute whose saving it is.
    """

    leader: str
    node: Around
    skips: bool
    at: str


def node_of(tensor: TensorTraffic, exchange: Exchange) -> Around:
    """The loops around the child of an exchange, and the lanes that are merged on the way to its parent."""
    path = tensor.path
    merged = [i for i in tensor.between(exchange.child, exchange.parent) if tensor.counts.merges(path.loops[i])]
    applied = frozenset([i for i, loop in enumerate(path.loops) if applies(loop, exchange.child)])
    return Around(applied, applied.intersection(merged))


def of_exchanges(sparsity: Sparsity, tensor: TensorTraffic, nodes: Sequence[Around]) -> list[list[Condition]]:
    """The conditions of each exchange of a tensor, from the compute outward, those further out included.

    `nodes`: `node_of` each exchange.
    """
    found: list[list[Condition]] = []
    outward: list[Condition] = []
    for exchange, node in reversed(list(zip(tensor.exchanges, nodes, strict=True))):
        own = _conditions(sparsity, exchange.parent.component.name, tensor.access.tensor, node)
        outward = [*own, *outward]
        found.append(outward)
    return found[::-1]


def of_operations(sparsity: Sparsity, path: EinsumPath) -> list[Condition]:
    """The conditions that the compute looks at; what its inputs are saved by is not among them."""
    return list(_conditions(sparsity, path.compute.component.name, None, everything(path)))


def everything(path: EinsumPath) -> Around:
    """All loops."""
    return Around(frozenset([i for i, loop in enumerate(path.loops) if not loop.absent]), frozenset())


def _conditions(sparsity: Sparsity, component: str, tensor: str | None, node: Around) -> Iterator[Condition]:
    for saving in sparsity.at(component, tensor):
        for leader in saving.on:
            yield Condition(leader, node, saving.state == SKIPPED, saving.component)


def innermost(conditions: Iterable[Condition]) -> dict[str, Condition]:
    """Of the conditions on each tensor the one whose boxes lie in those of all others. Raises NotSupportedError."""
    found: dict[str, Condition] = {}
    for condition in conditions:
        before = found.setdefault(condition.leader, condition)
        if condition.node.told >= before.node.told:
            found[condition.leader] = condition
        elif not condition.node.told <= before.node.told:
            raise NotSupportedError(
                f"zeros of {condition.leader!r} are looked at for different groups of lanes; that is not supported yet",
                hint="look at them at one place",
            )
    return found


def likely(path: EinsumPath, sparsity: Sparsity, condition: Condition, spans: Mapping[str, Spans]) -> Amounts:
    """Probability that a tensor has a nonzero in a visit's box: a number, or one axis for each rank variable."""
    density, access = sparsity.densities[condition.leader], path.einsum.by_tensor[condition.leader]
    boxes = boxes_of(path, access, sparsity.ranks[condition.leader], spans)
    n = len(path.einsum.rank_variables)
    if not isinstance(density, Known) and (boxes.alike > 1 or boxes.lanes):
        for _, index in access.projection:
            if len(index.terms) > 1 and any(spans[v].is_shared for v, _ in index.terms):
                raise NotSupportedError(
                    f"lanes share values of {condition.leader!r}, whose zeros are looked at for all of them together; "
                    "that is not supported yet",
                    hint="give its zeros position by position: a file, or a seed",
                )
    chance = density.nonempty(boxes.low, boxes.size, boxes.lanes, boxes.alike)
    return chance.reshape(chance.shape[:n]) if isinstance(chance, np.ndarray) else chance
