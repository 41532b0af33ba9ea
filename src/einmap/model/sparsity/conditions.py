"""When an exchange or an operation is saved, and how likely that is.

It is done if each tensor that is looked at has a nonzero in the box of each visit that asks for it. Boxes of one tensor
lie in one another, so that the innermost one decides; different tensors are independent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from einmap.arrays import Floats
from einmap.errors import NotSupportedError
from einmap.model.counting.path import EinsumPath, applies
from einmap.model.sparsity.visits import Around, Spans, boxes_of
from einmap.model.traffic.tensor_traffic import Exchange, TensorTraffic
from einmap.sparse.densities import Known
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
    applied = frozenset(i for i, loop in enumerate(path.loops) if applies(loop, exchange.child))
    return Around(applied, applied & frozenset(merged))


def of_exchange(sparsity: Sparsity, tensor: TensorTraffic, exchange: Exchange) -> list[Condition]:
    """The conditions of an exchange, those of the exchanges further out included."""
    outward = tensor.exchanges[tensor.exchanges.index(exchange) :]
    return [
        Condition(leader, node_of(tensor, here), saving.state == SKIPPED, saving.component)
        for here in outward
        for saving in sparsity.at(here.parent.component.name, tensor.access.tensor)
        for leader in saving.on
    ]


def of_operations(sparsity: Sparsity, path: EinsumPath, tensors: Iterable[TensorTraffic]) -> list[Condition]:
    """The conditions of operations: what they look at, and what their inputs are saved by."""
    everything = Around(frozenset(i for i, loop in enumerate(path.loops) if not loop.absent), frozenset())
    found = [
        Condition(leader, everything, saving.state == SKIPPED, saving.component)
        for saving in sparsity.at(path.compute.component.name, None)
        for leader in saving.on
    ]
    for tensor in tensors:
        if not tensor.access.output:
            found += of_exchange(sparsity, tensor, tensor.exchanges[0])
    return found


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


def likely(path: EinsumPath, sparsity: Sparsity, condition: Condition, spans: Mapping[str, Spans]) -> Floats:
    """Probability that a tensor has a nonzero in a visit's box, one axis for each rank variable."""
    density, access = sparsity.densities[condition.leader], path.einsum.by_tensor[condition.leader]
    boxes = boxes_of(path, access, sparsity.ranks[condition.leader], spans)
    n = len(path.einsum.rank_variables)
    if not isinstance(density, Known):
        for _, index in access.projection:
            lanes = [v for v, _ in index.terms if spans[v].size.shape[1] > 1]
            if lanes and len(index.terms) > 1:
                raise NotSupportedError(
                    f"lanes share values of {condition.leader!r}, whose zeros are looked at for all of them together; "
                    "that is not supported yet",
                    hint="give its zeros position by position: a file, or a seed",
                )
    chance = density.nonempty(boxes.low, boxes.size, boxes.lanes)
    return np.asarray(chance).reshape(np.asarray(chance).shape[:n])
