"""Energies of saved actions that no hardware has: what is left out costs more than what is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from einmap.arch.tree import Architecture
from einmap.errors import At, Note
from einmap.sparse.savings import Sparsity
from einmap.spec.raw import Path
from einmap.units import format_si


def costly_savings(
    sparsity: Mapping[str, Sparsity], archs: Mapping[str, Architecture], where: Callable[[Path], At]
) -> tuple[Note, ...]:
    """A note for each gated or skipped action that takes more energy than the action itself, often a slip of a unit."""
    notes: dict[Note, None] = {}
    for name, one in sparsity.items():
        for (component, saved), joules in one.energies.items():
            state, _, action = saved.partition("_")
            if state == "metadata":
                continue
            usual = archs[name].components[component].action(action).energy
            if joules > usual:
                text = f"{component}: {saved} takes {format_si(joules, 'J')}, more than {action}, which takes "
                text += f"{format_si(usual, 'J')}: what is saved costs more than what is done"
                notes[Note(text, where(("energies", component, saved)))] = None
    return tuple(notes)
