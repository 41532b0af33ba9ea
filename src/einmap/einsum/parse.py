"""The concise notation: `Z[m, n] = A[m, k] * B[k, n]` <-> accesses and operation."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from einmap.einsum.operation import Operation, parse_operation
from einmap.einsum.projection import Affine, Projection, parse_affine
from einmap.errors import SpecError
from einmap.expressions.syntax import check_text_length, shortened

# possessive, and only at the start of a word: linear in the length of any text
_TENSOR = re.compile(r"(?<!\w)([A-Za-z_]\w*+)\s*+\[([^\[\]]*+)\]")
_NAME = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass(frozen=True, slots=True)
class ParsedEinsum:
    """What a concise string says: `(tensor, projection)` of the output and of the inputs in written order.

    An input that the operation uses several times, by the same indices, is there once.
    """

    output: tuple[str, Projection]
    inputs: tuple[tuple[str, Projection], ...]
    operation: Operation


def parse_einsum(text: str, reduction: str = "sum") -> ParsedEinsum:
    """Read a concise Einsum. Raises SpecError that says what is wrong with which part."""
    check_text_length(text)
    if text.count("=") != 1:
        raise SpecError(f"an Einsum needs exactly one '=', found {text.count('=')}: {shortened(text)}")
    left, right = text.split("=")
    written = _TENSOR.fullmatch(left.strip())
    if written is None:
        raise SpecError(f"the left side of {shortened(text)} must be one tensor, such as Z[m, n]")
    found = list(dict.fromkeys((match[1], match[2]) for match in _TENSOR.finditer(right)))
    if not found:
        raise SpecError(f"no tensor on the right side of {shortened(text)}; write tensors as A[m, k]")
    output = written[1]
    for name, _ in found:
        if name == output:
            raise SpecError(f"tensor {name!r} is both input and output of {shortened(text)}", hint="rename one of them")
    operation = parse_operation(_TENSOR.sub(lambda m: m[1], right), [name for name, _ in found], reduction)
    inputs = once_each([(name, _entries(entries, name, text)) for name, entries in found], output)
    return ParsedEinsum((output, _entries(written[2], output, text)), inputs, operation)


def once_each(inputs: Sequence[tuple[str, Projection]], einsum: str) -> tuple[tuple[str, Projection], ...]:
    """The inputs of an Einsum, one that is used several times by the same indices once: each operation reads it once.

    Raises SpecError for a tensor that is used by different indices, and says how to give it a second name.
    """
    found: dict[str, Projection] = {}
    for name, projection in inputs:
        first = found.setdefault(name, projection)
        if not same_indices(first, projection):
            raise _used_by_different_indices(name, first, projection, einsum)
    return tuple(found.items())


def same_indices(first: Projection, second: Projection) -> bool:
    """Whether two projections index a tensor alike, in whatever order ranks and terms are written."""

    def plain(projection: Projection) -> dict[str, tuple[frozenset[tuple[str, int]], int]]:
        return {rank: (frozenset(index.terms), index.constant) for rank, index in projection}

    return plain(first) == plain(second)


def _used_by_different_indices(name: str, first: Projection, second: Projection, einsum: str) -> SpecError:
    text = (
        f"tensor {name!r} is used twice in Einsum {einsum!r}, by different indices: "
        f"{name}[{format_projection(first)}] and {name}[{format_projection(second)}]"
    )
    if len(first) != len(second):
        return SpecError(text, hint="its ranks must be the same wherever it is used")
    by_rank = dict(second)
    indices = [by_rank.get(rank, index) for (rank, _), (_, index) in zip(first, second, strict=True)]
    again = format_projection(tuple((rank, index) for (rank, _), index in zip(first, indices, strict=True)))
    plain = all(len(index.terms) == 1 and abs(index.terms[0][1]) == 1 and not index.constant for _, index in first)
    own = format_projection(first) if plain else ", ".join(rank.lower() for rank, _ in first)
    other = f"{name}_2"
    hint = (
        f"give it a second name by a copy before {einsum!r}: "
        f'{{einsum: "{other}[{own}] = {name}[{own}]", is_copy_operation: true}}, and write {other}[{again}] in the '
        "second place"
    )
    return SpecError(text, hint=hint)


def _entries(text: str, tensor: str, whole: str) -> Projection:
    ranks: list[tuple[str, Affine]] = []
    for entry in text.split(","):
        if not entry.strip():
            raise SpecError(f"empty index of tensor {tensor!r} in {shortened(whole)}")
        rank, colon, index = (part.strip() for part in entry.partition(":"))
        if not colon:
            ranks.append(rank_of_variable(rank, tensor))
        else:
            ranks.append(rank_with_index(rank, index, tensor))
    return checked_projection(ranks, tensor)


def rank_of_variable(variable: str, tensor: str) -> tuple[str, Affine]:
    """The shorthand `m` for `M: m`."""
    if not _NAME.match(variable):
        raise SpecError(
            f"{variable!r} as index of tensor {tensor!r}: expressions need an explicit rank",
            hint=f"write RANK: {variable}",
        )
    if not variable[0].islower():
        raise SpecError(
            f"rank variable {variable!r} of tensor {tensor!r} must start with a lower-case letter",
            hint=f"write {variable.lower()!r}, or {variable}: EXPRESSION for the rank {variable}",
        )
    return variable.upper(), Affine(((variable, 1),))


def rank_with_index(rank: str, index: str, tensor: str) -> tuple[str, Affine]:
    """`H: 2*p + r`."""
    if not _NAME.match(rank) or not rank[0].isupper():
        raise SpecError(
            f"rank {rank!r} of tensor {tensor!r} must start with an upper-case letter",
            hint=f"write {rank.upper()}: {index}",
        )
    parsed = parse_affine(index)
    for variable, _ in parsed.terms:
        if not variable[0].islower():
            raise SpecError(
                f"{variable!r} in index {index!r} of tensor {tensor!r} must start with a lower-case letter",
                hint=f"rank variables are lower-case: {variable.lower()}",
            )
    return rank, parsed


def checked_projection(ranks: list[tuple[str, Affine]], tensor: str) -> Projection:
    """Raises SpecError when a rank occurs twice or there is none."""
    if not ranks:
        raise SpecError(f"tensor {tensor!r} has no index")
    names = [rank for rank, _ in ranks]
    for name in names:
        if names.count(name) > 1:
            raise SpecError(f"rank {name!r} of tensor {tensor!r} is indexed twice")
    return tuple(ranks)


def format_projection(projection: Projection) -> str:
    """`m, H: 2*p + r`: the shorthand where it says the same."""
    parts = []
    for rank, index in projection:
        plain = str(index)
        parts.append(plain if plain.upper() == rank and len(index.terms) == 1 else f"{rank}: {plain}")
    return ", ".join(parts)
