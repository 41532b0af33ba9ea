"""Names of Timeloop's files as names that expressions can use."""

from __future__ import annotations

import re
from collections.abc import Collection

from einmap.spec.names import RESERVED, is_name

LONGEST = 200
"""Characters of a name that are kept."""


def identifier(text: str, taken: Collection[str] = ()) -> str:
    """`text` in letters, digits and `_`, other than those in `taken`, and not the name of a set.

    >>> identifier("Inputs"), identifier("inter-PE spad", {"inter_PE_spad"}), identifier("2d")
    ('Input', 'inter_PE_spad_2', '_2d')
    """
    name = re.sub(r"\W", "_", text[:LONGEST], flags=re.ASCII) or "_"
    if name in RESERVED:
        name = name.removesuffix("s")
    if name in RESERVED or not is_name(name):
        name = f"_{name}" if name[0].isdigit() else f"{name}_"
    free, count = name, 1
    while free in taken:
        count += 1
        free = f"{name}_{count}"
    return free


def rank_variable(dimension: str, taken: Collection[str]) -> str:
    """The rank variable of a dimension: small letters, beginning with one."""
    name = identifier(dimension.lower()).lstrip("_") or "x"
    if not name[0].islower():
        name = f"d{name}"
    return identifier(name, taken)
