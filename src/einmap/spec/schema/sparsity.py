"""Input models of the key `sparsity`: which values are zero, how they are stored, and what hardware saves."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Discriminator, Tag

from einmap.sparse.formats import NAMED
from einmap.spec.schema.base import Expression, Input, SetExpression
from einmap.spec.schema.documented import documented


class DensityInput(Input):
    """Which values of a tensor are nonzero; one of the fields, or a number for `uniform`."""

    uniform: Expression | None = documented(
        "Part of the values that is nonzero; all places are equally likely.",
        0.1,
        unit="part of the values",
        without="one of the others",
    )
    structured: list[Expression] | None = documented(
        "`[n, m]`: of each `m` neighbours along the rank `along`, beginning with the first ones, `n` are nonzero.",
        [2, 4],
        unit="values",
        without="one of the others",
    )
    even: Expression | None = documented(
        "Part of every tile that is nonzero, rounded to whole values so that this is the mean: Sparseloop's "
        "`fixed_structured`. A model of expected counts, of which no mask is drawn.",
        0.25,
        unit="part of the values",
        without="one of the others",
    )
    along: str | None = documented("The rank of `structured`.", "K", without="the last rank")
    band: list[Expression] | None = documented(
        "`[below, above]`: nonzeros are so many places below and above the diagonal of the last two ranks, or nearer.",
        [1, 1],
        unit="values",
        without="one of the others",
    )
    file: str | None = documented(
        "A file with the tensor itself, or with a mask: `.npy`, `.npz` with one array, `.mtx` (Matrix Market), `.txt` "
        "(digits 0 and 1, the first index fastest). It stands in the folder of the specification or below.",
        "weights.npy",
        without="one of the others",
    )
    seed: Expression | None = documented(
        "With `uniform` or `structured`: one mask is drawn with this seed, and counted position by position.",
        1,
        without="counts are means over all masks",
    )


def _kind_of_density(value: Any) -> str:
    """Form of a density, as the name of the type."""
    return "dict[density]" if isinstance(value, dict | DensityInput) else "float"


AnyDensityInput = Annotated[
    Annotated[Expression, Tag("float")] | Annotated[DensityInput, Tag("dict[density]")], Discriminator(_kind_of_density)
]
"""A density: a number, or a dictionary with more about it."""


class FormatLevelInput(Input):
    """One level of a format, for one rank or for several flattened ones."""

    format: str = documented(
        "How the level says which positions have something: `U`, all have; `CP`, coordinates; `B`, a bitmask; `RLE`, "
        "lengths of runs of zeros; `UOP`, offsets of the fibers; `ELL`, a fixed number of coordinates, with padding.",
        "CP",
        words=("U", "CP", "B", "RLE", "UOP", "ELL"),
        default=...,
    )
    ranks: list[str] = documented(
        "Ranks of the level; several are flattened. A rank in blocks has two parts, `K / 4` (which block of 4) and "
        "`K % 4` (where in it).",
        *(["M", "K"], ["K / 4"]),
        default=...,
    )
    bits: Expression | None = documented(
        "Bits of one coordinate, run or offset, or of each position of a bitmask.",
        14,
        unit="bits",
        without="what places of the whole tensor need; 1 in a bitmask",
    )
    entries: Expression | None = documented(
        "With `ELL`: coordinates of each fiber, those that are not used included.",
        4,
        without="as many as the fullest fiber of the tensor needs that can occur",
    )


class NamedFormatInput(Input):
    """A format by its name, of single values or of blocks."""

    name: str = documented("The name.", *("csr", "ellpack"), words=tuple(NAMED), default=...)
    block: dict[str, Expression] = documented(
        "Length of blocks by rank. Levels are then those of blocks, and a block that has a nonzero is stored whole: "
        "`csr` is BCSR, `ellpack` is blocked ELLPACK.",
        {"M": 4, "K": 4},
        unit="values",
        kind="dictionary of lengths",
        without="single values",
        default={},
    )
    entries: Expression | None = documented(
        "With `ellpack`: values, or blocks, of each row, padding included.",
        4,
        without="as many as the fullest row needs that can occur",
    )


def _kind(value: Any) -> str:
    """Which of its forms a format is written in, as the name of the type; lists of dictionaries are levels."""
    match value:
        case dict() if _is_level(value):
            return "list[level]"
        case dict() | NamedFormatInput():
            return "dict[format]"
        case list() if any(not isinstance(one, dict | FormatLevelInput) or _is_named(one) for one in value):
            return "list[format]"
        case list():
            return "list[level]"
        case _:
            return "str"


def _kind_of_one(value: Any) -> str:
    """Form of one format, where a list is one of levels, as the name of the type."""
    return "list[level]" if isinstance(value, list) else _kind(value)


def _is_named(value: Any) -> bool:
    return isinstance(value, dict) and "name" in value and "format" not in value


def _is_level(value: Any) -> bool:
    return "name" not in value and ("format" in value or "ranks" in value)


def _as_levels(value: Any) -> Any:
    """Refuse a level that stands where levels are expected."""
    if isinstance(value, dict):
        raise ValueError("levels of a format are a list, such as [{format: CP, ranks: [M, K]}]")
    return value


_Text = Annotated[str, Tag("str")]
_Named = Annotated[NamedFormatInput, Tag("dict[format]")]
_Levels = Annotated[list[FormatLevelInput], BeforeValidator(_as_levels), Tag("list[level]")]
FormatInput = Annotated[_Text | _Named | _Levels, Discriminator(_kind_of_one)]
"""One format: a name, a name with blocks, or levels."""
_Choice = Annotated[list[FormatInput], Tag("list[format]")]
AnyFormatInput = Annotated[_Text | _Named | _Levels | _Choice, Discriminator(_kind)]
"""One format, or a list of formats among which one is to be chosen."""


class SavingInput(Input):
    """Something that hardware saves where values are zero."""

    at: str = documented("The memory or the compute that saves.", "Buffer", default=...)
    do: str = documented(
        "`gate`: what is saved takes its time, and the energy of a gated action; `skip`: it takes no time.",
        "skip",
        words=("gate", "skip"),
        default=...,
    )
    tensors: SetExpression | None = documented(
        "At a memory: tensors whose values do not pass between it and the next holder inward.",
        "B",
        without="an error at a memory; a compute saves operations",
    )
    on: SetExpression = documented(
        "Tensors that are looked at. A tile does not pass when the visit that needs it uses only zeros of one of them; "
        "an operation is saved when one of its values of them is zero.",
        *("A", "A | B"),
        default=...,
    )


class SavingEnergiesInput(Input):
    """Energies of saved actions, and of metadata, at one component."""

    gated_read: Expression = documented("Energy of one gated read.", "1e-13", unit="J", default=0)
    gated_write: Expression = documented("Energy of one gated write.", "1e-13", unit="J", default=0)
    skipped_read: Expression = documented("Energy of one skipped read.", "1e-14", unit="J", default=0)
    skipped_write: Expression = documented("Energy of one skipped write.", "1e-14", unit="J", default=0)
    gated_compute: Expression = documented("Energy of one gated operation.", "1e-13", unit="J", default=0)
    skipped_compute: Expression = documented("Energy of one skipped operation.", "1e-14", unit="J", default=0)
    metadata_read: Expression | None = documented(
        "Energy of reading one bit of metadata from a store of its own, which takes none of the memory's time.",
        "1e-14",
        unit="J",
        without="metadata is read as values are, by its bits",
    )
    metadata_write: Expression | None = documented(
        "Energy of writing one bit of metadata into a store of its own.",
        "1e-14",
        unit="J",
        without="metadata is written as values are, by its bits",
    )


class SparsityInput(Input):
    """The top-level key `sparsity`: zeros of tensors, and what is gained by them. Without it all tensors are dense."""

    densities: dict[str, AnyDensityInput] = documented(
        "Which values are nonzero, by set of tensors: a number, or more about it. Of others what an Einsum writes "
        "follows from its inputs, and the rest is dense.",
        *({"A": 0.1}, {"A": {"structured": [2, 4], "along": "K"}, "Other": 0.5}),
        kind="dictionary of expressions or densities",
        default={},
    )
    formats: dict[str, dict[str, AnyFormatInput]] = documented(
        "How memories store tensors, by name of the memory and set of tensors: a name, a name with blocks, or levels "
        "from the outermost one. Names: `uncompressed`, `bitmask`, `rle`, `coo`, `csr`, `csc`, `csf`, `ellpack`. Of a "
        "list of formats `einmap map` chooses one for each tensor.",
        {"Buffer": {"A": "csr"}},
        {"Buffer": {"A": {"name": "ellpack", "block": {"M": 4, "K": 4}, "entries": 2}}},
        {"Buffer": {"A": [{"format": "CP", "ranks": ["M", "K"], "bits": 14}]}},
        {"Buffer": {"A": ["csr", "coo", "bitmask"]}},
        kind="dictionary of dictionaries of names, of lists of levels, or of lists of these",
        without="all values are stored, without metadata",
        default={},
    )
    chosen: dict[str, dict[str, FormatInput]] = documented(
        "Formats chosen where `formats` has lists of them, by memory and tensor: what the mapper found.",
        {"Buffer": {"A": "csr"}},
        kind="dictionary of dictionaries of names, or of lists of levels",
        without="evaluation of what is open is an error",
        default={},
    )
    metadata: str = documented(
        "How much metadata a transfer brings: `own`, as much as its tile would have by itself; `share`, its part of "
        "the metadata of the tile that the memory holds, as Sparseloop counts; `share_all`, that of skipped transfers "
        "as well, as its first versions do (the simulator knows `own` alone).",
        "share",
        words=("own", "share", "share_all"),
        default="own",
    )
    fills: str = documented(
        "Which fills of outputs count: `live`, values that come from further out; `lanes`, also those of lanes that "
        "add into one sum and begin it again; `all`, also sums that begin. Sparseloop counts `all` in its first "
        "versions, and `lanes` since (the simulator knows `live` alone).",
        "all",
        words=("live", "lanes", "all"),
        default="live",
    )
    lanes: str = documented(
        "How long lanes take where zeros are random: `mean`, as long as the lane that has most to do on average over "
        "masks, as Sparseloop counts; `slowest`, as long as on average the busiest one of each mask.",
        "slowest",
        words=("mean", "slowest"),
        default="mean",
    )
    savings: list[SavingInput] = documented(
        "What is gated and skipped.",
        [{"at": "Buffer", "do": "skip", "tensors": "B", "on": "A"}, {"at": "MAC", "do": "gate", "on": "A"}],
        kind="list of savings",
        default=[],
    )
    energies: dict[str, SavingEnergiesInput] = documented(
        "Energies of saved actions and of metadata, by component.",
        {"Buffer": {"gated_read": "1e-13"}},
        kind="dictionary of energies",
        without="saved actions cost nothing",
        default={},
    )
