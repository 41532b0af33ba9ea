"""Compiled formulas on values of the objectives: what costs are worth, and which values are of no use.

Columns of cost are energy (J), then the busy time of each component (s).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from einmap.compiled import inner, kernel

ENERGY, LATENCY, PRODUCT, DYNAMIC, LEAK, USAGE = range(6)  # the codes of `metrics.METRICS`, then memories
BITS, KEPT, BUSY = 1_000, 2_000, 3_000
MOST_FORMS = 64
"""Objectives; USAGE + m is the used part of memory m, BITS + m what is used of it, KEPT + i a number that is given.

BUSY + MOST_FORMS * c + n is the largest of n columns of cost from column c on: of those of one component.
"""


@inner
def beaten(values: Any, archive: Any, n: int, slack: float, eased: int) -> bool:
    """Whether some point found is at most as large in everything, but for `slack` in the first `eased` values."""
    for row in range(n):
        worse = False
        for i in range(len(values)):
            limit = values[i] + abs(values[i]) * slack if i < eased else values[i]
            if archive[row, i] > limit:
                worse = True
                break
        if not worse:
            return True
    return False


@kernel
def objectives(costs: Any, leak: float, occupied: Any, capacity: Any, kept: Any, codes: Any, out: Any) -> None:
    """Values of the objectives with these codes from columns of cost; `kept`: numbers that are what they are."""
    latency = 0.0
    for column in range(1, len(costs)):
        latency = max(latency, costs[column])
    for i in range(len(codes)):
        goal = codes[i]
        if goal == ENERGY:
            out[i] = costs[0] + leak * latency
        elif goal == LATENCY:
            out[i] = latency
        elif goal == PRODUCT:
            out[i] = (costs[0] + leak * latency) * latency
        elif goal == DYNAMIC:
            out[i] = costs[0]
        elif goal == LEAK:
            out[i] = leak * latency
        elif goal < BITS:
            out[i] = occupied[goal - USAGE] / capacity[goal - USAGE]
        elif goal < KEPT:
            out[i] = occupied[goal - BITS]
        elif goal < BUSY:
            out[i] = kept[goal - KEPT]
        else:
            first = (goal - BUSY) // MOST_FORMS
            out[i] = 0.0
            for column in range(first, first + (goal - BUSY) % MOST_FORMS):
                out[i] = max(out[i], costs[column])


@kernel
def many_objectives(costs: Any, leak: Any, occupied: Any, capacity: Any, codes: Any, out: Any) -> None:
    """Objectives of many rows of costs that fill the memories alike."""
    for row in range(len(costs)):
        objectives(costs[row], leak[row], occupied, capacity, leak[:0], codes, out[row])


@kernel
def exceeds_cutoff(values: Any, remainder: Any, most: float) -> bool:
    """Whether the product of costs is above `most` with each of `remainder`, rows of what the other Einsums add.

    Rows have a column for each cost that the first values are; without rows nothing is known. With a negative `most`:
    whether some row is at most as large in everything.
    """
    if most >= 0 and remainder.shape[1] == 2:
        # the same as below, for what is asked most often
        for row in range(len(remainder)):
            if (values[0] + remainder[row, 0]) * (values[1] + remainder[row, 1]) <= most:
                return False
        return len(remainder) > 0
    for row in range(len(remainder)):
        product = 1.0
        beaten = True
        for i in range(remainder.shape[1]):
            product *= values[i] + remainder[row, i]
            beaten = beaten and remainder[row, i] <= values[i]
        if most < 0:
            if beaten:
                return True
        elif product <= most:
            return False
    return most >= 0 and len(remainder) > 0


@kernel
def many_exceed_cutoff(values: Any, remainder: Any, most: float) -> Any:
    """Whether each row of values exceeds the cutoff."""
    flags = np.empty(len(values), dtype=np.bool_)
    for i in range(len(values)):
        flags[i] = exceeds_cutoff(values[i], remainder, most)
    return flags


@kernel
def keep_least(rows: Any, n: int, values: Any) -> int:
    """Let each of `values` be no less than one of the first rows in everything; how many these are then.

    Rows that others make needless go. Where there is no room the last row becomes less.
    """
    for i in range(len(values)):
        kept, covered = 0, False
        for row in range(n):
            least, most = True, True
            for c in range(rows.shape[1]):
                least = least and rows[row, c] <= values[i, c]
                most = most and rows[row, c] >= values[i, c]
            covered = covered or least
            if covered or not most:
                for c in range(rows.shape[1]):
                    rows[kept, c] = rows[row, c]
                kept += 1
        n = kept
        if covered:
            continue
        full = n == len(rows)
        n += not full
        for c in range(rows.shape[1]):
            rows[n - 1, c] = min(rows[n - 1, c], values[i, c]) if full else values[i, c]
    return n


@kernel
def beyond(weights: Any, least: Any, remainder: Any, most: float) -> Any:
    """Least weighted costs of two kinds of what is beyond the cutoff with `most` >= 0 and not below `least`; unit
    weights first.

    With each of the others: the least of w0 x + w1 y where x y >= most, right of a and above b.
    """
    bounds = least.copy()
    for k in range(2, len(weights)):
        w0, w1 = weights[k]
        tangent = np.sqrt(w1 * most / w0)
        for row in range(len(remainder)):
            a, b = max(least[0] + remainder[row, 0], 1e-300), max(least[1] + remainder[row, 1], 1e-300)
            x = min(max(tangent, a), max(a, most / b))
            value = w0 * x + w1 * max(most / x, b) - (w0 * remainder[row, 0] + w1 * remainder[row, 1])
            bounds[k] = max(bounds[k], value)
    return bounds
