"""The kernel itself; a module of its own so that importing einmap does not import Numba."""

from __future__ import annotations

import math
from typing import Any

import numba
import numpy as np

from einmap.einsum.functions import Code


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _apply(code: int, a: float, b: float, c: float) -> float:  # noqa: PLR0912 - a compiled kernel is one function
    if code == Code.MULTIPLY:
        return a * b
    if code == Code.ADD:
        return a + b
    if code == Code.SUBTRACT:
        return a - b
    if code == Code.DIVIDE:
        return a / b
    if code == Code.MAX:
        return max(a, b)
    if code == Code.MIN:
        return min(a, b)
    if code == Code.POWER:
        return float(a**b)
    if code == Code.EXP:
        return math.exp(a)
    if code == Code.LOG:
        return math.log(a)
    if code == Code.SQRT:
        return math.sqrt(a)
    if code == Code.RSQRT:
        return 1.0 / math.sqrt(a)
    if code == Code.ABS:
        return abs(a)
    if code == Code.TANH:
        return math.tanh(a)
    if code == Code.SIGMOID:
        return 1.0 / (1.0 + math.exp(-a))
    if code == Code.RELU:
        return max(a, 0.0)
    if code == Code.ERF:
        return math.erf(a)
    if code == Code.GELU:
        return 0.5 * a * (1.0 + math.erf(a * 0.7071067811865476))
    if code == Code.SIN:
        return math.sin(a)
    if code == Code.COS:
        return math.cos(a)
    if code == Code.FLOOR:
        return float(np.floor(a))
    if code == Code.CEIL:
        return float(np.ceil(a))
    if code == Code.ROUND:
        return float(np.rint(a))
    if code == Code.SIGN:
        return float(np.sign(a))
    if code == Code.LESS:
        return 1.0 if a < b else 0.0
    if code == Code.EQUAL:
        return 1.0 if a == b else 0.0
    if code == Code.SELECT:
        return b if a != 0.0 else c
    return -a


@numba.njit(cache=True, nogil=True, error_model="numpy")
def run_leaf(  # noqa: PLR0912, PLR0915 - a compiled kernel is one function
    trips: Any, loop_variable: Any, radix: Any,
    table: Any, table_start: Any, lane_width: Any, lane_part: Any,
    linear: Any, constant: Any, n_inputs: int,
    values: Any, present: Any, live: Any,
    code: Any, products_only: bool, reduction: int, takes_part: Any, added: Any, points: Any,
    mask: Any, mask_step: Any,
    executed: Any, read_live: Any, read_fresh: Any, completed: Any,
) -> int:  # fmt: skip
    """Run all points of one visit in time order, lane by lane; counts go into the last four arrays.

    `trips`, `loop_variable`, `radix`: temporal loops, their variables, and their step in the variable's time index.
    `table`: value of each variable for a time index and a lane index, -1 where there is no such point.
    `linear[t, lane, v]`, `constant[t, lane]`: heap offset of tensor t (inputs first, then outputs).
    `takes_part[o, lane]`: whether a lane reads the output, being the first of its merged group.
    `added`: how many points have gone into each value of the heap, counted for an output with `points[o]` > 0, which
    is how many make up a result; `completed[o, lane]`: results to which the lane adds the last one.
    `mask`: which points of the box belong to the iteration space, empty where all do; `mask_step[v]`: step of each
    variable in it. A point outside takes its time and its traffic, but reads and reduces nothing.
    Returns -1, or the number of the input tensor that was read where no value is.
    """
    n_loops = trips.shape[0]
    n_variables = table_start.shape[0]
    n_lanes = constant.shape[1]
    n_tensors = constant.shape[0]
    has_mask = mask.shape[0] > 0
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
            if has_mask:
                offset = 0
                for v in range(n_variables):
                    offset += mask_step[v] * point[v]
                inside = mask[offset] != 0
            for t in range(n_inputs if inside else 0):
                offset = constant[t, lane]
                for v in range(n_variables):
                    offset += linear[t, lane, v] * point[v]
                if not present[offset]:
                    return t
                operands[t] = values[offset]
            result = 0.0
            if not inside:
                pass
            elif products_only:
                result = 1.0
                for t in range(n_inputs):
                    result *= operands[t]
            else:
                top = 0
                for step in range(code.shape[0]):
                    what = int(code[step, 0])
                    if what == Code.CONSTANT:
                        stack[top] = code[step, 1]
                        top += 1
                    elif what == Code.OPERAND:
                        stack[top] = operands[int(code[step, 1])]
                        top += 1
                    else:
                        # what an argument leaves out does not count
                        top -= int(code[step, 1]) - 1
                        second = stack[top] if code[step, 1] > 1 else 0.0
                        third = stack[top + 1] if code[step, 1] > 2 else 0.0
                        stack[top - 1] = _apply(what, stack[top - 1], second, third)
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
                if not inside:
                    pass
                elif not present[offset]:
                    values[offset] = result
                    present[offset] = 1
                elif reduction == 0:
                    values[offset] += result
                elif reduction == 1:
                    values[offset] = max(values[offset], result)
                else:
                    values[offset] = min(values[offset], result)
                live[offset] = 1
                if points[o - n_inputs]:
                    added[offset] += 1
                    if added[offset] == points[o - n_inputs]:
                        completed[o - n_inputs, lane] += 1
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
