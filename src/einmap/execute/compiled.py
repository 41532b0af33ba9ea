"""The kernel itself; a module of its own so that importing einmap does not import Numba."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np


@numba.njit(cache=True, nogil=True)
def _apply(code: int, a: float, b: float) -> float:
    if code == 2:
        return a * b
    if code == 3:
        return a + b
    if code == 4:
        return a - b
    if code == 5:
        return a / b
    if code == 6:
        return max(a, b)
    if code == 7:
        return min(a, b)
    if code == 8:
        return float(a**b)
    if code == 9:
        return math.exp(a)
    if code == 10:
        return math.log(a)
    if code == 11:
        return math.sqrt(a)
    if code == 12:
        return 1.0 / math.sqrt(a)
    if code == 13:
        return abs(a)
    if code == 14:
        return math.tanh(a)
    if code == 15:
        return 1.0 / (1.0 + math.exp(-a))
    if code == 16:
        return max(a, 0.0)
    return -a


@numba.njit(cache=True, nogil=True)
def run_leaf(  # noqa: PLR0912, PLR0915 - a compiled kernel is one function
    trips: Any, loop_variable: Any, radix: Any,
    table: Any, table_start: Any, lane_width: Any, lane_part: Any,
    linear: Any, constant: Any, n_inputs: int,
    values: Any, present: Any, live: Any,
    code: Any, products_only: bool, reduction: int, takes_part: Any,
    executed: Any, read_live: Any, read_fresh: Any,
) -> int:  # fmt: skip
    """Run all points of one visit in time order, lane by lane; counts go into the last three arrays.

    `trips`, `loop_variable`, `radix`: temporal loops, their variables, and their step in the variable's time index.
    `table`: value of each variable for a time index and a lane index, -1 where there is no such point.
    `linear[t, lane, v]`, `constant[t, lane]`: heap offset of tensor t (inputs first, then outputs).
    `takes_part[o, lane]`: whether a lane reads the output, being the first of its merged group.
    Returns -1, or the number of the input tensor that was read where no value is.
    """
    n_loops = trips.shape[0]
    n_variables = table_start.shape[0]
    n_lanes = constant.shape[1]
    n_tensors = constant.shape[0]
    counter = np.zeros(n_loops, np.int64)
    time = np.zeros(n_variables, np.int64)
    point = np.zeros(n_variables, np.int64)
    operands = np.zeros(n_inputs, np.float64)
    stack = np.zeros(code.shape[0] + 1, np.float64)
    while True:
        for lane in range(n_lanes):
            inside = True
            for v in range(n_variables):
                point[v] = table[table_start[v] + time[v] * lane_width[v] + lane_part[lane, v]]
                if point[v] < 0:
                    inside = False
                    break
            if not inside:
                continue
            executed[lane] += 1
            for t in range(n_inputs):
                offset = constant[t, lane]
                for v in range(n_variables):
                    offset += linear[t, lane, v] * point[v]
                if not present[offset]:
                    return t
                operands[t] = values[offset]
            if products_only:
                result = 1.0
                for t in range(n_inputs):
                    result *= operands[t]
            else:
                top = 0
                for step in range(code.shape[0]):
                    what = int(code[step, 0])
                    if what == 0:
                        stack[top] = code[step, 1]
                        top += 1
                    elif what == 1:
                        stack[top] = operands[int(code[step, 1])]
                        top += 1
                    elif what < 9:
                        top -= 1
                        stack[top - 1] = _apply(what, stack[top - 1], stack[top])
                    else:
                        stack[top - 1] = _apply(what, stack[top - 1], 0.0)
                result = stack[0]
            for o in range(n_inputs, n_tensors):
                offset = constant[o, lane]
                for v in range(n_variables):
                    offset += linear[o, lane, v] * point[v]
                if takes_part[o - n_inputs, lane]:
                    if live[offset]:
                        read_live[o - n_inputs, lane] += 1
                    else:
                        read_fresh[o - n_inputs, lane] += 1
                if not present[offset]:
                    values[offset] = result
                    present[offset] = 1
                elif reduction == 0:
                    values[offset] += result
                elif reduction == 1:
                    values[offset] = max(values[offset], result)
                else:
                    values[offset] = min(values[offset], result)
                live[offset] = 1
        loop = n_loops - 1
        while loop >= 0:
            counter[loop] += 1
            time[loop_variable[loop]] += radix[loop]
            if counter[loop] < trips[loop]:
                break
            time[loop_variable[loop]] -= radix[loop] * trips[loop]
            counter[loop] = 0
            loop -= 1
        if loop < 0:
            return -1
