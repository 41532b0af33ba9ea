"""Costs of the products of a layer that are not those of one kernel on the values of its tensors: products that read
narrower values, as training with 8 bits does, and products of experts, which a host starts one by one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from einmap.distribute.costs.cluster import Cluster, ProcessingElement
from einmap.distribute.costs.cost_model import ClusterCost, EinsumCost, LocalWork
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.training.backward import Backward
from einmap.distribute.training.model import Layer
from einmap.einsum.einsum import Einsum


def cost_of_products(layer: Layer, backward: Backward, cluster: Cluster) -> ClusterCost:
    """Seconds of the Einsums of a layer and of its backward pass."""
    plain = ClusterCost(cluster, "time")
    gradients = {backward.gradients[weight] for weight in layer.weights if weight in backward.gradients}
    own: dict[str, EinsumCost] = {}
    for einsum in backward.workload.einsums:
        weights = [access for access in einsum.accesses if access.tensor in {*layer.weights} | gradients]
        if layer.product_bits is not None and len(einsum.inputs) == 2 and weights:
            own[einsum.name] = _product(einsum, frozenset(layer.weights), gradients, layer.product_bits, cluster.pe)
        experts = {variable for access in weights for variable in access.variables & layer.experts}
        if experts and cluster.pe.dispatch:
            places = tuple(n for n, variable in enumerate(einsum.rank_variables) if variable in experts)
            own[einsum.name] = _Experts(own.get(einsum.name) or plain.of(einsum), places, cluster.pe.dispatch)
    return _WithProducts(cluster, "time", tuple(own.items())) if own else plain


@dataclass(frozen=True, slots=True)
class _Experts:
    """A product with weights of experts: a kernel for each expert of the device, as grouped products of Transformer
    Engine are, each of which takes a host `dispatch` s. `places`: of the rank variables of experts.
    """

    whole: EinsumCost
    places: tuple[int, ...]
    dispatch: float

    def compute(self, mesh: Mesh, work: LocalWork) -> float:
        """Seconds of all of them together."""
        kernels = math.prod(work.extents[place] for place in self.places)
        return max(self.whole.compute(mesh, work), kernels * self.dispatch)


@dataclass(frozen=True, slots=True)
class _WithProducts(ClusterCost):
    """Seconds on a cluster; some Einsums, by name, have costs of their own."""

    products: tuple[tuple[str, EinsumCost], ...] = ()

    def of(self, einsum: Einsum) -> EinsumCost:
        """Cost of an Einsum by the work of a PE."""
        own = dict(self.products).get(einsum.name)
        return ClusterCost.of(self, einsum) if own is None else own


@dataclass(frozen=True, slots=True)
class _Product:
    """A product of narrow values. `operands`: positions of the variables of each, and bits of its values where it is
    cast first; `result`: the same, as it is written.

    What is cast is read once and written twice, by rows and by columns, as both passes of the backward pass read it;
    gradients of weights read what has been cast before, and weights are cast once a step.
    """

    pe: ProcessingElement
    bits: float
    operands: tuple[tuple[tuple[int, ...], float | None], ...]
    result: tuple[tuple[int, ...], float]

    def compute(self, mesh: Mesh, work: LocalWork) -> float:  # noqa: ARG002
        """Seconds of the casts and of the product."""

        def values(variables: tuple[int, ...]) -> float:
            size = 1.0
            for variable in variables:
                size *= work.extents[variable]
            return size

        read = sum(values(variables) for variables, _ in self.operands) * self.bits / 8
        written = values(self.result[0]) * self.result[1] / 8
        seconds = self.pe.seconds(work.operations, read + written, self.bits)
        for variables, wide in self.operands:
            if wide is not None:
                seconds += self.pe.seconds(0.0, values(variables) * (wide + 2 * self.bits) / 8, wide)
        return seconds


def _product(
    einsum: Einsum, weights: frozenset[str], gradients: set[str], bits: float, pe: ProcessingElement
) -> _Product:
    place = {variable: number for number, variable in enumerate(einsum.rank_variables)}
    (written,) = (access for access in einsum.accesses if access.output)
    is_cast = written.tensor not in gradients
    operands = tuple(
        (
            tuple(sorted(place[variable] for variable in access.variables)),
            access.bits_per_value if is_cast and access.tensor not in weights else None,
        )
        for access in einsum.accesses
        if not access.output
    )
    result = tuple(sorted(place[variable] for variable in written.variables)), written.bits_per_value
    return _Product(pe, bits, operands, result)
