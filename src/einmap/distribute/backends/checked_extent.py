"""Whether the whole result is checked, a sample, or nothing, and why."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from einmap.distribute.backends.check import TOLERANCE, OutputCheck, check_outputs, compared
from einmap.distribute.backends.checked_sample import drawn_sample
from einmap.distribute.plans.plan import Dtype
from einmap.einsum.einsum import TensorName
from einmap.einsum.numeric import MAX_VALUES, rank_sizes
from einmap.einsum.slices import Needed, evaluate_slices
from einmap.einsum.workload import Workload
from einmap.errors import SpecError, did_you_mean

type Extent = Literal["whole", "sample", "none"]
EXTENTS: tuple[Extent, ...] = get_args(Extent.__value__)

WHOLE_POINTS = 2 * 10**8
"""Points of all Einsums up to which the whole result is checked without being asked for: some seconds."""


@dataclass(frozen=True)
class Check:
    """The checked part of a result. `sample`: what is drawn, for `extent` sample; `seed`: by which it is drawn; `why`:
    in words, where nobody asked for it.
    """

    workload: Workload
    extent: Extent
    seed: int
    sample: Needed | None = None
    why: str = ""

    def outputs(
        self,
        inputs: Mapping[TensorName, NDArray[Any]],
        outputs: Mapping[TensorName, NDArray[Any]],
        dtype: Dtype = "float64",
    ) -> tuple[OutputCheck, ...]:
        """Each output against what its definition gives for the same inputs; none where nothing is checked."""
        if self.extent == "whole":
            return check_outputs(self.workload, inputs, outputs, dtype)
        if self.sample is None:
            return ()
        expected = evaluate_slices(self.sample, inputs)
        made = []
        for tensor, values in outputs.items():
            coordinates = self.sample.tensors[tensor].values()
            sizes = rank_sizes(self.workload)[tensor].values()
            drawn = values[np.ix_(*coordinates)] if values.shape == tuple(sizes) else values
            made.append(compared(tensor, drawn, expected[tensor], TOLERANCE[dtype], math.prod(sizes)))
        return tuple(made)


def chosen_check(workload: Workload, extent: str | None, seed: int) -> Check:
    """The check that is asked for; without, the whole result where that takes little, else a sample.

    Raises SpecError for another word, and where a sample takes too much.
    """
    match extent:
        case None:
            why = _too_large(workload)
            if not why:
                return Check(workload, "whole", seed)
            return Check(workload, "sample", seed, drawn_sample(workload, seed), why)
        case "sample":
            return Check(workload, "sample", seed, drawn_sample(workload, seed))
        case "whole" | "none":
            return Check(workload, extent, seed)
    raise SpecError(f"--check {extent}: no such extent", hint=did_you_mean(extent, EXTENTS, listing="extents"))


def _too_large(workload: Workload) -> str:
    points = sum(math.prod(einsum.extents.values()) for einsum in workload.einsums)
    if points > WHOLE_POINTS:
        return f"the whole has {points:,} points of iteration spaces, more than {WHOLE_POINTS:,}"
    for tensor, ranks in rank_sizes(workload).items():
        values = math.prod(ranks.values())
        if values > MAX_VALUES:
            return f"{tensor!r} has {values:,} values, more than {MAX_VALUES:,}"
    return ""
