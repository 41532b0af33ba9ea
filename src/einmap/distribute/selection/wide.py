"""Problems that are too large for an integer program at once: bounds by messages, choices by local search and by parts,
and an integer program for the strategies that may still be in a better choice.
"""

from __future__ import annotations

import numpy as np

from einmap.distribute.selection.integer import solve_integer
from einmap.distribute.selection.least_excess import without_too_much
from einmap.distribute.selection.messages import ROUNDING, ROUNDS, Messages
from einmap.distribute.selection.problem import Choice, Selected, Selection
from einmap.distribute.selection.reduction import Reduced, reduce, restricted
from einmap.distribute.selection.windows import improved_by_parts
from einmap.progress import Progress

WIDE = 300_000
"""Entries of all edges together from which on an integer program is not begun with."""
MESSAGES, PARTS = 0.4, 0.4
"""Parts of the time when the first messages and the search by parts are over."""
LEFT = 250_000
"""Entries up to which an integer program is tried on what is left."""


def is_wide(problem: Selection) -> bool:
    """Whether an integer program of it is too large."""
    return sum(edge.costs.size for edge in problem.edges) > WIDE and problem.excess_cost is None


def solve_wide(problem: Selection, time_limit: float, progress: Progress | None = None) -> Selected:
    """The best choice within all limits that is found in `time_limit` seconds, with a bound."""
    asked = progress or Progress()
    whole = asked.within(time_limit)
    within = without_too_much(problem)
    reduced = None if within is None else reduce(within)
    if reduced is None:
        return Selected(None, np.inf, np.inf)
    messages = Messages(reduced.problem)
    messages.run(ROUNDS, whole.within(MESSAGES * time_limit))
    if messages.choice is not None and not messages.is_proven:
        until = whole.within(PARTS * time_limit)
        messages.take(np.array(improved_by_parts(reduced.problem, messages.choice, messages.reached, until)))
    messages.run(ROUNDS, whole.within(0.1 * time_limit))
    choice, bound = messages.choice, messages.bound
    if not messages.is_proven and not whole.stopped:
        choice, bound = _of_what_is_left(reduced.problem, messages, whole)
    if choice is None:
        return Selected(None, np.inf, bound)
    restored = reduced.restored(choice)
    cost = problem.cost(restored)
    return Selected(restored, cost, min(bound, cost))


def _of_what_is_left(problem: Selection, messages: Messages, progress: Progress) -> tuple[Choice | None, float]:
    """The best choice and a bound, by an integer program where few strategies may be in a better choice."""
    choice, cost, bound = messages.choice, messages.cost, messages.bound
    kept = [np.nonzero(reached <= cost * (1 + ROUNDING))[0] for reached in messages.reached]
    if sum(len(kept[edge.first]) * len(kept[edge.second]) for edge in problem.edges) > LEFT:
        return choice, bound
    if not all(map(len, kept)):
        return choice, cost
    left = Reduced(restricted(problem, kept), tuple(kept))
    reduced = reduce(left.problem)
    if reduced is None:
        return choice, cost
    selected = solve_integer(reduced.problem, progress.seconds_left(), progress)
    if selected.choice is not None:
        better = left.restored(reduced.restored(selected.choice))
        if (now := problem.cost(better)) < cost:
            choice, cost = better, now
    # what was left out costs as much as the choice before or more
    return choice, max(bound, min(selected.bound, cost))
