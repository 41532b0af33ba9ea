"""Real data for a plan, and whether what an engine found is right."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einmap.distribute.plans.lifetimes import peak_memory
from einmap.distribute.plans.plan import Dtype, Plan
from einmap.einsum.einsum import TensorName
from einmap.einsum.numeric import check_copy, check_executable, check_operation, graph_inputs, run, shapes
from einmap.einsum.workload import Workload
from einmap.errors import SpecError
from einmap.units import format_bytes

TOLERANCE: Mapping[Dtype, float] = {"float64": 1e-10, "float32": 1e-4}
"""Largest error that rounding may leave, as part of the largest value of a tensor: sums are taken in another order."""


@dataclass(frozen=True, slots=True)
class OutputCheck:
    """One output against the unpartitioned one: the largest error, and as part of the largest value.

    `checked`: how many of its `values` were compared.
    """

    tensor: TensorName
    max_abs_error: float
    max_relative_error: float
    agrees: bool
    checked: int
    values: int

    @property
    def is_whole(self) -> bool:
        """Whether every value was compared."""
        return self.checked == self.values


MAX_BYTES = 8 * 2**30
"""Bytes of all PEs together that one process holds at a time; more are refused."""


def check_memory(plan: Plan) -> None:
    """Raise SpecError when what all PEs hold together is at some time too large for one process."""
    needed = peak_memory(plan).bytes * plan.mesh.n_devices
    if needed > MAX_BYTES:
        raise SpecError(
            f"what {plan.mesh.n_devices:,} PEs hold needs {format_bytes(needed)} in one process; "
            f"at most {format_bytes(MAX_BYTES)} are held",
            hint="choose smaller rank sizes or a smaller mesh; --dry-run prints the plan without running it",
        )


def sample_inputs(
    workload: Workload, seed: int, dtype: Dtype = "float64", *, whole: bool = True
) -> dict[TensorName, NDArray[Any]]:
    """Random values for the graph inputs, the same for the same seed.

    Numbers between 0.5 and 1.5, for which log, root and division are harmless; the last input of a sum of products is
    divided by the number of its addends, so that values stay near 1 through any cascade and exp does not overflow.
    Raises SpecError for a workload that cannot be evaluated, and where `whole` for one that is too large for that.
    """
    for einsum in workload.einsums:
        if whole:
            check_executable(einsum)
        else:
            check_operation(einsum)
            check_copy(einsum)
    rng = np.random.default_rng(seed)
    size = shapes(workload, None if whole else graph_inputs(workload))
    addends = _addends(workload)
    return {
        tensor: (rng.uniform(0.5, 1.5, size[tensor]) / addends.get(tensor, 1)).astype(dtype)
        for tensor in graph_inputs(workload)
    }


def _addends(workload: Workload) -> dict[TensorName, int]:
    """For the last graph input that each Einsum reads, how many points are summed to one element of its result."""
    addends: dict[TensorName, int] = {}
    inputs = set(graph_inputs(workload))
    for einsum in workload.einsums:
        read = [access.tensor for access in einsum.accesses if access.tensor in inputs]
        kept = {v for access in einsum.accesses if access.output for v in access.variables}
        if read and not einsum.is_copy and einsum.operation.reduction == "sum":
            number = prod(extent for variable, extent in einsum.bounds if variable not in kept)
            addends[read[-1]] = max(number, addends.get(read[-1], 1))
    return addends


def check_outputs(
    workload: Workload,
    inputs: Mapping[TensorName, NDArray[Any]],
    outputs: Mapping[TensorName, NDArray[Any]],
    dtype: Dtype = "float64",
) -> tuple[OutputCheck, ...]:
    """Each output against `numeric.run` in float64, which knows nothing of any plan."""
    expected = run(workload, {tensor: values.astype(np.float64) for tensor, values in inputs.items()})
    return tuple(
        compared(tensor, values, expected[tensor], TOLERANCE[dtype], expected[tensor].size)
        for tensor, values in outputs.items()
    )


def compared(
    tensor: TensorName, values: NDArray[Any], expected: NDArray[np.float64], tolerance: float, whole: int
) -> OutputCheck:
    """Values of an output, which has `whole` of them in all, against those that are expected."""
    if values.shape != expected.shape:
        return OutputCheck(tensor, np.inf, np.inf, agrees=False, checked=expected.size, values=whole)
    # infinities and NaN that should be there are no errors, others are
    same = (values == expected) | (np.isnan(values) & np.isnan(expected))
    with np.errstate(invalid="ignore"):
        error = np.where(same, 0.0, np.abs(values - expected))
    worst = float(np.max(np.nan_to_num(error, nan=np.inf), initial=0.0))
    largest = float(np.max(np.abs(expected[np.isfinite(expected)]), initial=0.0))
    relative = worst / largest if largest else worst
    return OutputCheck(tensor, worst, relative, relative <= tolerance, expected.size, whole)
