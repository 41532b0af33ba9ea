"""Input models of the workload and of renames."""

from __future__ import annotations

from typing import Annotated

from pydantic import StrictBool

from einmap.einsum.einsum import PARTS
from einmap.einsum.operation import REDUCTIONS
from einmap.spec.schema.base import Expression, Input, SetExpression
from einmap.spec.schema.documented import documented, one_of

_SHAPE = "an older format called `iteration_space_shape` so: rename it"
_VERSION = "an older format had it: leave it out"

type Reduction = Annotated[str, one_of(REDUCTIONS)]
type Part = Annotated[str, one_of(PARTS)]


class AccessInput(Input):
    """One tensor of an Einsum: all of it in the long form, more about it beside a string in `einsum`."""

    name: str = documented("Name of the tensor: letters, digits and `_`.", "A", default=...)
    projection: list[str] | dict[str, str | int] | None = documented(
        "How rank variables index the tensor: a list of variables, each for the rank with its name in capitals, or a "
        "dictionary of ranks and their indices: sums of variables times integers, or values of another tensor, "
        "`Ids[t]`.",
        *(["m", "k"], {"M": "m", "H": "2*p + r"}, {"V": "Ids[t]", "D": "d"}),
        without="an error in the long form",
    )
    output: StrictBool | None = documented(
        "Whether the Einsum writes the tensor; at least one is written. A string in `einsum` says it already.",
        True,
        without="read",
    )
    persistent: StrictBool = documented(
        "Whether the tensor stays in its outermost storage during the whole run, as weights on a chip do: it takes "
        "room there at all times, once for each of `n_instances`. The set `Persistent` has it.",
        True,
        default=False,
    )
    bits_per_value: Expression | None = documented(
        "Bits of one value.", 8, unit="bits", without="what `bits_per_value` of the workload says"
    )
    partial_bits_per_value: Expression | None = documented(
        "Bits of a value of an output while products are still to be added to it.",
        32,
        unit="bits",
        without="what `partial_bits_per_value` of the workload says",
    )
    backing_storage_size_scale: Expression = documented(
        "A field of other tools without effect there. Only 1 is accepted.", 1, default=1
    )


class RenameInput(Input):
    """A name for a set of tensors or rank variables."""

    name: str = documented("The new name; not that of a built-in set such as `All`.", "weight", default=...)
    source: SetExpression = documented(
        "What it stands for: a set, which may use the renames before it.", *("B", "Inputs & Persistent"), default=...
    )
    expected_count: Expression | None = documented(
        "How many there have to be; any other number is an error.",
        *(1, "len(Inputs) - 1"),
        unit="tensors or rank variables",
        without="any number",
    )


class EinsumInput(Input):
    """One Einsum: `einsum` with a string, or `name` and `tensor_accesses`. The string alone will do in a list."""

    former = {"shape": _SHAPE}

    name: str | None = documented(
        "Name of the Einsum, given once in the workload; not `Total`.",
        "Scores",
        without="the name of the output, where `einsum` gives it; else an error",
    )
    einsum: str | None = documented(
        "The Einsum as a string: the output, `=`, and a map expression over the inputs. Rank variables that the "
        "output lacks are reduced. In YAML it needs quotes where it contains `: `.",
        *("Z[m, n] = A[m, k] * B[k, n]", "O[p] = I[W: p + r] * F[r]", "X[t, d] = Table[V: Ids[t], d]"),
        without="`name` and `tensor_accesses` are needed",
    )
    tensor_accesses: list[AccessInput] = documented(
        "The tensors in the long form, or what else there is to say of tensors in the string.",
        [{"name": "A", "projection": ["m", "k"]}, {"name": "Z", "projection": ["m"], "output": True}],
        default=[],
    )
    iteration_space_shape: list[str] = documented(
        "Bounds of rank variables in this Einsum; they hold beside those of the workload.",
        ["0 <= m < 4"],
        unit="values of the rank variables",
        default=[],
    )
    rank_sizes: dict[str, Expression] = documented(
        "Sizes of ranks in this Einsum, in place of the workload's.",
        {"M": "2 * 32"},
        unit="values of the index",
        default={},
    )
    is_copy_operation: StrictBool = documented(
        "Whether the Einsum only copies its one input: values move and nothing is computed. Where source and copy are "
        "in one memory it costs nothing.",
        True,
        default=False,
    )
    renames: dict[str, SetExpression] | list[RenameInput] = documented(
        "Names for sets of tensors of this Einsum, by which an architecture speaks of them. They win over renames of "
        "the top level.",
        *({"weight": "B"}, [{"name": "weight", "source": "B", "expected_count": 1}]),
        default=[],
    )
    n_instances: Expression = documented(
        "How often the Einsum is there, times that of the workload. Energy, time and counts multiply; room does not, "
        "but for persistent tensors.",
        12,
        unit="repetitions",
        default=1,
    )
    compute: str | list[str] | None = documented(
        "The `!Compute` that does the Einsum, or those that may; `enabled` of the computes is not asked then.",
        *("MAC", ["MAC", "ALU"]),
        without="all computes that are enabled for the Einsum are tried",
    )
    operation: str | None = documented(
        "What the long form computes at each point: a map expression over names of inputs. It is what runs on data, "
        "and changes no cost.",
        "exp(A - B)",
        without="the product of all inputs",
    )
    reduction: Reduction | None = documented(
        "How values for the same place of the output become one, over the rank variables that the output lacks.",
        "max",
        without="`sum`",
    )
    part: Part | None = documented(
        "The part of a training step that the Einsum is in: the forward pass, the backward pass that others wait for "
        "(`input`) or that only gradients of weights come of (`weight`), the step of the optimiser (`update`). "
        "`einmap gradient` writes it; it changes no cost.",
        "weight",
        without="not a training step",
    )


class WorkloadInput(Input):
    """The top-level key `workload`: a cascade of Einsums, and what their tensors have in common."""

    former = {"shape": _SHAPE, "version": _VERSION}

    rank_sizes: dict[str, Expression] = documented(
        "Sizes of ranks, which may use other sizes and `variables`; points whose index is outside are not computed. "
        "Every rank variable needs a bound, from here or from `iteration_space_shape`.",
        {"M": 64, "K": "2 * M"},
        unit="values of the index",
        default={},
    )
    iteration_space_shape: dict[str, str] = documented(
        "Bounds of rank variables, for all Einsums that have them.",
        {"m": "0 <= m < 64"},
        unit="values of the rank variable",
        default={},
    )
    bits_per_value: dict[str, Expression] = documented(
        "Bits of one value, by set of tensors. Each tensor needs a number from one key here, or at its access; "
        "`Other` stands for tensors that no other key has.",
        *({"All": 8}, {"Inputs": 4, "Other": 16}),
        unit="bits",
        default={},
    )
    partial_bits_per_value: dict[str, Expression] = documented(
        "Bits of a value of an output while products are still to be added to it, by set of tensors: as it moves, and "
        "in memories, unless these have `bits_per_value` for it. Without effect where nothing is summed.",
        {"Outputs": 32},
        unit="bits",
        without="as many as results have",
        default={},
    )
    persistent_tensors: SetExpression | None = documented(
        "Tensors that are `persistent`, beside those whose access says so.",
        "Inputs - Intermediates",
        without="no further tensors",
    )
    n_instances: Expression = documented(
        "How often the whole workload is done. Energy, time and counts multiply; room does not, but for persistent "
        "tensors.",
        32,
        unit="repetitions",
        default=1,
    )


class EinsumRenamesInput(Input):
    """Renames of one Einsum, or of all under the name `default`."""

    name: str = documented(
        "The Einsum, or `default` for all of them; a name given for one Einsum wins.", "default", default=...
    )
    tensor_accesses: dict[str, SetExpression] | list[RenameInput] = documented(
        "Names for sets of tensors.", *({"output": "Outputs"}, [{"name": "input", "source": "Inputs"}]), default=[]
    )
    rank_variables: dict[str, SetExpression] | list[RenameInput] = documented(
        "Names for sets of rank variables.", {"reduced": "All.rank_variables - Outputs.rank_variables"}, default=[]
    )


class RenamesInput(Input):
    """The top-level key `renames`: other names for tensors and rank variables, by which an architecture speaks."""

    einsums: list[EinsumRenamesInput] = documented(
        "Renames by Einsum, each named once.",
        [{"name": "default", "tensor_accesses": {"output": "Outputs"}}],
        default=[],
    )
