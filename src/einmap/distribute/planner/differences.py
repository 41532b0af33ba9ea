"""Why one plan costs more than another, in a sentence."""

from __future__ import annotations

from collections.abc import Callable

from einmap.distribute.placements.request import Turns
from einmap.distribute.planner.chosen import ChosenPlan

type Amount = Callable[[float], str]
"""A cost as text with its unit."""


def why_dearer(best: ChosenPlan, other: ChosenPlan, amount: Amount) -> str:
    """`+12 %: 2.1 ms more for the all-reduce of Z, 0.4 ms less for computing XN`: the largest differences."""
    changes = _changes(best, other)
    more = sorted((item for item in changes.items() if item[1] > 0), key=lambda item: -item[1])
    less = sorted((item for item in changes.items() if item[1] < 0), key=lambda item: item[1])
    said = [f"{amount(change)} more for {what}" for what, change in more[:2]]
    said += [f"{amount(-change)} less for {what}" for what, change in less[:1]]
    excess = other.cost - best.cost
    share = f"{100 * excess / best.cost:+.3g} %" if best.cost else f"+{amount(excess)}"
    return f"{share}: {', '.join(said) or 'the same cost in other steps'}"


def _changes(best: ChosenPlan, other: ChosenPlan) -> dict[str, float]:
    changes: dict[str, float] = {}
    for sign, chosen in ((1, other), (-1, best)):
        for part in chosen.parts:
            changes[part.what] = changes.get(part.what, 0.0) + sign * part.cost
    least = 1e-6 * max(best.cost, 1e-300)
    return {what: change for what, change in changes.items() if abs(change) > least}


def what_differs(best: ChosenPlan, other: ChosenPlan) -> str:
    """`Z over m: x (not k: x), K over p: x (not h: x)`: the Einsums that are spread in another way, at most three, and
    those that run in turns.
    """
    said = []
    for name, loops in other.loops.items():
        if loops != best.loops[name]:
            said.append(f"{name} over {_loops(loops)} (not {_loops(best.loops[name])})")
    more = f" and {len(said) - 3} more" if len(said) > 3 else ""
    turned = [] if other.turns in (None, best.turns) else [f"in turns {turns_in_words(other.turns)}"]
    return ", ".join([*said[:2], *([said[2] + more] if said[2:] else []), *turned])


def turns_in_words(turns: Turns) -> str:
    """`QK, GM over p: x as a ring`: what runs in turns, and how."""
    how = "as a ring" if turns.panels is None else f"in {turns.panels} panels"
    return f"{', '.join(turns.einsums)} over {turns.variable}: {'*'.join(turns.axes)} {how}"


def _loops(loops: object) -> str:
    assert isinstance(loops, dict)
    return ", ".join(f"{variable}: {'*'.join(axes)}" for variable, axes in loops.items()) or "nothing"
