"""The compiled part of counting links of networks that are trees. The kernel is generic, as all are."""

from __future__ import annotations

from typing import Any

import numpy as np

from einmap.compiled import kernel


@kernel
def links_to_groups(n: Any, steps: Any, shared: Any, depth: int) -> Any:
    """Links from the root of a binary tree to groups of its leaves, and groups behind each of its two links, by row.

    Rows have loops of `n` lanes, outermost first: lane `i` of one is `i * steps` leaves further. Lanes of the loops
    that are `shared` are one group, whose links count once. Of leaves in order each one has as many links of its own
    as it differs in from the one before it.

    `n`, `steps`: int64 (rows, loops); `shared`: bool (rows, loops); `depth`: links from the root to a leaf. Gives
    float64 (rows,) and (rows, 2).
    """
    rows, loops = n.shape
    links, behind = np.zeros(rows), np.zeros((rows, 2))
    half = (1 << depth) // 2
    for row in range(rows):
        first_leaf, groups = 0, 1
        at = np.zeros(loops, dtype=np.int64)
        last_leaf = 0
        for loop in range(loops):
            if shared[row, loop]:
                last_leaf += (n[row, loop] - 1) * steps[row, loop]
            else:
                groups *= n[row, loop]
        for _ in range(groups):
            if depth > 0:
                behind[row, 0] += first_leaf < half
                behind[row, 1] += first_leaf + last_leaf >= half
            links[row] += depth
            leaf = first_leaf
            # the leaves of a group, in order
            while True:
                before = leaf
                loop = loops - 1
                while loop >= 0:
                    if shared[row, loop]:
                        if at[loop] + 1 < n[row, loop]:
                            at[loop] += 1
                            leaf += steps[row, loop]
                            break
                        leaf -= at[loop] * steps[row, loop]
                        at[loop] = 0
                    loop -= 1
                if loop < 0:
                    break
                differing = before ^ leaf
                while differing:
                    links[row] += 1
                    differing >>= 1
            loop = loops - 1
            while loop >= 0:
                if not shared[row, loop]:
                    if at[loop] + 1 < n[row, loop]:
                        at[loop] += 1
                        first_leaf += steps[row, loop]
                        break
                    first_leaf -= at[loop] * steps[row, loop]
                    at[loop] = 0
                loop -= 1
    return links, behind
