"""A workload and a request for a plan, and the space of plans."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from einmap.distribute.costs.cluster import Cluster
from einmap.distribute.costs.cost_model import PLAN_METRICS, ClusterCost, PlanMetric
from einmap.distribute.costs.magnitudes import LARGEST
from einmap.distribute.derive import context_of
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.placements.request import Context, Request, checked_request
from einmap.distribute.planner.matching_ends import matching_ends
from einmap.distribute.search.space import Options, SearchSpace, search_space
from einmap.distribute.selection.solve import TIME_LIMIT
from einmap.einsum.einsum import TensorName
from einmap.einsum.workload import Workload
from einmap.errors import EinmapError, SpecError, did_you_mean, raise_all
from einmap.progress import Progress
from einmap.visible import brief, short


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A request for a plan. `memory`: bytes on each PE, None: the memory of the cluster's PE; `placements`: tensors
    that lie where they are told, as in `distribute_workload`; `time_limit`: seconds for the best plan, and as many for
    the plans that differ; `same`: results that lie as graph inputs do, so that layers can follow one another, None: the
    default (`matching_ends`).

    Raises SpecError (several problems together) for an unknown metric, and for memory and seconds that are not above 0.
    """

    mesh: Mesh
    cluster: Cluster
    metric: PlanMetric = "time"
    memory: float | None = None
    placements: Mapping[TensorName, Any] | None = None
    time_limit: float = TIME_LIMIT
    same: Mapping[TensorName, TensorName] | None = None

    def __post_init__(self) -> None:
        problems: list[EinmapError] = []
        if self.metric not in PLAN_METRICS:
            hint = did_you_mean(str(self.metric), PLAN_METRICS, listing="metrics")
            problems.append(SpecError(f"no metric {short(self.metric)}", hint=hint))
        if self.memory is not None and not self.memory >= 1:
            problems.append(SpecError(f"{self.memory:g} bytes of memory; expected at least 1"))
        if not self.time_limit > 0:
            problems.append(SpecError(f"a time limit of {self.time_limit:g} s; expected more than 0"))
        raise_all(problems)

    @property
    def limit(self) -> float | None:
        """Bytes that no plan exceeds on any PE; None: no limit."""
        memory = self.memory if self.memory is not None else self.cluster.pe.memory
        return memory if np.isfinite(memory) else None


@dataclass(frozen=True)
class Planning:
    """A workload and what to plan for, checked. Raises SpecError where the mesh does not fit the cluster, a placement
    is wrong, or a tensor has more bytes than there can be (`magnitudes.LARGEST`).
    """

    __repr__ = brief

    workload: Workload
    request: PlanRequest

    def __post_init__(self) -> None:
        self.request.cluster.check(self.request.mesh)
        if self.request.metric == "energy" and not self.request.cluster.has_energies(self.request.mesh):
            raise SpecError(
                "the cluster gives no energy: of operations, of a PE's memory or of a link",
                hint="give `energy_per_operation` and `energy_per_bit` to the PE, `energy_per_bit` to axes",
            )
        raise_all([problem for tensor in self.context.sizes for problem in self._too_large(tensor)])

    def _too_large(self, tensor: TensorName) -> Iterator[EinmapError]:
        size = math.prod(self.context.sizes[tensor].values()) * self.bits[tensor] / 8
        if not size <= LARGEST:
            what = f"{tensor!r} has {size:g} bytes; at most {LARGEST:g} can be planned for"
            yield SpecError(what, hint="look at bits_per_value and the sizes of its ranks")

    @cached_property
    def model(self) -> ClusterCost:
        """Costs of moves and Einsums."""
        return ClusterCost(self.request.cluster, self.request.metric)

    @cached_property
    def context(self) -> Context:
        """The context that requests are checked against."""
        return context_of(self.workload, self.request.mesh)

    @cached_property
    def asked(self) -> Request:
        """The placements that are asked for."""
        asked = checked_request(self.context, self.request.placements)
        return replace(asked, same=matching_ends(self.context, self.request.same))

    @cached_property
    def bits(self) -> Mapping[TensorName, float]:
        """Of a value of each tensor."""
        return {
            access.tensor: access.bits_per_value
            for einsum in reversed(self.workload.einsums)
            for access in reversed(einsum.accesses)
        }

    def space(self, limited: bool = False, progress: Progress | None = None) -> SearchSpace:
        """All that may be chosen, graph inputs wherever they serve best; `limited`: within a limit on memory."""
        return search_space(self.context, self.asked, self.model, self.bits, Options(True, limited), progress)
