"""Input models of what an architecture asks of mappings: limits, fanout dimensions, tensors that are held."""

from __future__ import annotations

from typing import get_args

from pydantic import StrictBool

from einmap.arch.component import Skew
from einmap.arch.constraint import OPERATORS
from einmap.spec.schema.base import Expression, Input, SetExpression
from einmap.spec.schema.documented import documented


class ComparisonInput(Input):
    """A limit on rank variables, such as `{expression: ~m, operator: ==, value: 1}`; all limits of a list hold."""

    expression: SetExpression = documented(
        "The rank variables that the limit is about: a set of them, or the rank variables of tensors.",
        *("~m", "Outputs.rank_variables"),
        default=...,
    )
    operator: str = documented(
        "How the number of each selected rank variable compares with `value`; with `product` in front, how their "
        "product does. `multiple_of`: `value` times an integer; `one_of`: in the list `value`. In YAML, operators "
        "that begin with `>` need quotes.",
        *("==", "product<=", "multiple_of"),
        words=OPERATORS,
        default=...,
    )
    value: Expression | list[Expression] = documented(
        "The integer to compare with; for `one_of` a list of them.",
        *(1, "2 * 8", [1, 2, 4]),
        unit="iterations of a loop in `loop_bounds`, values of a tile in `tile_shape`",
        default=...,
    )


class SpatialInput(Input):
    """One dimension of a fanout: copies of its node and of everything below that on the path; dimensions multiply."""

    name: str = documented(
        "Name of the dimension, given once in its node. Spatial loops of mappings name it beside the node.",
        "X",
        default=...,
    )
    fanout: Expression = documented(
        "How many copies there are along this dimension, at least 1.", *(16, "4 * 8"), unit="copies", default=...
    )
    may_reuse: SetExpression | None = documented(
        "Tensors that the copies may have in common: one read serves all copies that need a value (multicast), and "
        "their partial results are added on the way up (spatial reduction). This changes costs, never which mappings "
        "are allowed.",
        *("Inputs", "~Outputs"),
        without="all tensors; in the newer dialect those of `reuse` where that is given",
    )
    reuse: SetExpression | None = documented(
        "Tensors that have to be the same in all copies: no spatial loop on this dimension iterates a rank variable "
        "that indexes one of them.",
        "Inputs",
        without="no tensors",
    )
    loop_bounds: list[ComparisonInput] = documented(
        "Limits on the iterations of the spatial loops on this dimension, by rank variable; a variable without such a "
        "loop counts as 1.",
        [{"expression": "~m", "operator": "==", "value": 1}],
        default=[],
    )
    min_usage: Expression = documented(
        "The part of the copies that a mapping has to use. Where none can reach it, the mapper uses as many as can be "
        "reached. Nothing is asked of copy Einsums.",
        0.5,
        unit="fraction, 0 to 1",
        default=0,
    )
    usage_scale: Expression = documented(
        "Factor on the usage, which is copies in use divided by `fanout`; the result may not exceed 1. With 2, at "
        "most half of the copies can be used.",
        2,
        default=1,
    )
    power_gateable: StrictBool = documented(
        "Whether copies that an Einsum does not use are switched off, with all that is below them: leakage counts "
        "times used copies / `fanout`.",
        True,
        default=False,
    )
    skew: str = documented(
        "Whether each copy begins one step of the compute after the one before, so that the last of n copies in use "
        "waits n - 1 steps: `once` in an Einsum, or in `each_fold`, a visit of the innermost storage node of a memory "
        "that the copies have.",
        "each_fold",
        words=get_args(Skew.__value__),
        default="none",
    )
    vector: StrictBool = documented(
        "Whether the copies are the lanes of one vector instruction, whose width is `fanout`: an innermost loop over "
        "neighbouring values of one rank variable, with `tile_shape` 1 and as many iterations as `min_usage: 1` asks "
        "for. For computes.",
        True,
        default=False,
    )


class TensorsInput(Input):
    """Which tensors a memory or toll holds, and how. The mapper keeps to it; other mappings that do not get a note."""

    keep: SetExpression | None = documented(
        "Tensors that must be held here.", *("Inputs", "~Intermediates"), without="no tensors"
    )
    may_keep: SetExpression | None = documented(
        "Tensors that may be held here or not, whichever costs less. What `keep` names must be held nevertheless.",
        "All",
        without="`All` where `keep` is not given either, else `Nothing`",
    )
    back: SetExpression = documented(
        "Tensors that must be held here and nowhere further out: this is their backing storage. Refused for tolls.",
        "Intermediates",
        default="Nothing",
    )
    tile_shape: list[ComparisonInput] = documented(
        "Limits on the tile that is held here, by rank variable: on the values that the loops above the memory's "
        "first storage node leave.",
        [{"expression": "m", "operator": "<=", "value": 64}],
        default=[],
    )
    no_refetch_from_above: SetExpression = documented(
        "Tensors that come in once: between their outermost storage node and the one here stands no temporal loop of "
        "several iterations that does not index them in full.",
        "Inputs",
        default="~All",
    )
    no_resend_to_below: SetExpression = documented(
        "Tensors that go down to the next holder once: as `no_refetch_from_above`, for the loops between the node "
        "here and the next one below it, or the compute. Newer dialect.",
        "Outputs",
        default="~All",
    )
    tensor_order_options: list[list[SetExpression]] = documented(
        "Orders of storage nodes in this memory, one of which must hold: each a list of sets, the outermost first. "
        "Tensors of one set, or of none, may be in any order.",
        [["Inputs", "Outputs"]],
        without="any order",
        default=[],
    )
    force_memory_hierarchy_order: StrictBool = documented(
        "Whether storage nodes keep to the hierarchy: none of this memory stands below one of a memory further in. "
        "Where both memories have false, that holds for each tensor by itself.",
        False,
        default=True,
    )
