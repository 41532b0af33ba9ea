"""Ranks of samples, positions and experts, as options say them."""

from __future__ import annotations

import typer

from einmap.distribute.training.model import Ranks


def ranks_of(text: str, flag: str = "--ranks") -> Ranks:
    """Ranks of samples, of positions and of experts; an empty word: there is none. A usage error for anything else."""
    names = [name.strip() for name in text.split(",")]
    named = [name for name in names if name]
    if not names[0] or len(names) > 3 or len({*named}) < len(named):
        raise typer.BadParameter("one to three different ranks, joined by commas: B,M,E", param_hint=flag)
    samples, positions, experts = [*names, "", ""][:3]
    return Ranks(samples, positions or None, experts or None)
