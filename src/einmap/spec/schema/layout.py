"""Input models of how tensors lie in a memory."""

from __future__ import annotations

from einmap.spec.schema.base import Expression, Input, SetExpression
from einmap.spec.schema.documented import documented


class LayoutInput(Input):
    """`layout` of a memory: its accesses move whole lines of the tensors in `order` or `block`."""

    line: Expression = documented(
        "Bits of one line: what an access moves, however little of it is asked for.", 512, unit="bits", default=...
    )
    order: dict[str, str | list[str | list[str] | dict[str, Expression]]] = documented(
        "Ranks from the slowest to the fastest, by set of tensors. A line holds as many values along the fastest rank "
        "as it has room for, and of a rank that it holds whole goes on along the next slower one. `best`: the mapper "
        "chooses the order; or a list of orders, and of blocks as in `block`, among which it chooses.",
        *({"A": ["M", "K"]}, {"A": "best", "B": [["K", "N"], {"K": 8, "N": 8}]}),
        without="of tensors in `block`, ranks in the order in which the workload writes them",
        default={},
    )
    block: dict[str, dict[str, Expression]] = documented(
        "Values that a line holds along each rank, by set of tensors, in place of what `order` says; 1 along ranks "
        "that are left out.",
        {"A": {"M": 8, "K": 8}},
        unit="values",
        without="lines are filled by `order`",
        default={},
    )
    chosen: dict[str, list[str] | dict[str, Expression]] = documented(
        "What is chosen of what `order` leaves open, by set of tensors: an order of ranks, or a block; an empty list "
        "for values moved one by one. The mapper writes it.",
        {"A": ["M", "K"], "B": {"K": 8, "N": 8}},
        default={},
    )
    lanes: str = documented(
        "How lanes further in are served that need different parts of a tensor: `apart`, each tile is an access of "
        "its own; `together`, a line that several of them need at a time moves once, along dimensions whose "
        "`may_reuse` has the tensor.",
        "together",
        words=("apart", "together"),
        default="apart",
    )


class MemoryLayoutInput(Input):
    """How tensors lie in a memory."""

    layout: LayoutInput | None = documented(
        "How tensors lie in the memory. Accesses then move whole lines of them: a tile that covers a part of a line "
        "moves all of it.",
        {"line": 512, "order": {"A": ["M", "K"]}},
        without="accesses move the values that are asked for, and no others",
    )
    replicate: SetExpression = documented(
        "Inputs of which every unit that needs them has a copy of its own; other tensors are dealt out over these "
        "units, and lanes read from all of them. An output that several units need is refused. For a memory inside an "
        "`!Array`.",
        "Inputs",
        without="no tensors",
        default="Nothing",
    )
