"""The concise notation: `Z[m, n] = A[m, k] * B[k, n]` <-> accesses and operation."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from einmap.einsum.operation import Operation, parse_operation
from einmap.einsum.projection import Affine, Projection, parse_affine
from einmap.errors import SpecError
from einmap.expressions.syntax import check_text_length, shortened

# possessive, and only at the start of a word: linear in the length of any text
_TENSOR = re.compile(r"(?<!\w)([A-Za-z_]\w*+)\s*+\[([^\[\]]*+)\]")
_NAME = re.compile(r"[A-Za-z_]\w*\Z")


@dataclass(frozen=True, slots=True)
class Use:
    """One way in which an Einsum indexes an input. `operand`: what the operation calls the input there.

    `by_position`: no rank is written out, each is that of its rank variable.
    """

    tensor: str
    projection: Projection
    operand: str
    by_position: bool = False


@dataclass(frozen=True, slots=True)
class ParsedEinsum:
    """What a concise string says: `(tensor, projection)` of the output, and the uses of inputs in written order.

    An input that the operation uses several times by the same indices is there once; one that it uses by different
    indices is there once for each, with an operand of its own.
    """

    output: tuple[str, Projection]
    uses: tuple[Use, ...]
    operation: Operation
    written: tuple[Use, ...] = ()
    """All uses as they are written, equal ones too."""

    @property
    def inputs(self) -> tuple[tuple[str, Projection], ...]:
        """Each use as `(tensor, projection)`."""
        return tuple((use.tensor, use.projection) for use in self.uses)


def parse_einsum(text: str, reduction: str = "sum") -> ParsedEinsum:
    """Read a concise Einsum. Raises SpecError that says what is wrong with which part."""
    check_text_length(text)
    if text.count("=") != 1:
        raise SpecError(f"an Einsum needs exactly one '=', found {text.count('=')}: {shortened(text)}")
    left, right = text.split("=")
    written = _TENSOR.fullmatch(left.strip())
    if written is None:
        raise SpecError(f"the left side of {shortened(text)} must be one tensor, such as Z[m, n]")
    read = list(dict.fromkeys((match[1], match[2]) for match in _TENSOR.finditer(right)))
    if not read:
        raise SpecError(f"no tensor on the right side of {shortened(text)}; write tensors as A[m, k]")
    output = written[1]
    for name, _ in read:
        if name == output:
            raise SpecError(
                f"tensor {name!r} is both input and output of {shortened(text)}",
                hint=f"rename one of them; a recurrence reads {name} in an Einsum of its own, such as "
                f"{name}_before[t] = {name}[T: t] before {name}[T: t + 1] = ...",
            )
    entries = [Use(name, _entries(listed, name, text), name, ":" not in listed) for name, listed in read]
    named = with_operands(entries, {output, *re.findall(r"\w+", right)})
    operands = {written: use.operand for written, use in zip(read, named, strict=True)}
    plain = _TENSOR.sub(lambda match: operands[match[1], match[2]], right)
    operation = parse_operation(plain, list(operands.values()), reduction)
    uses: dict[str, Use] = {}
    for use in named:
        uses.setdefault(use.operand, use)
    target = output, _entries(written[2], output, text)
    return ParsedEinsum(target, tuple(uses.values()), operation, tuple(named))


def with_operands(uses: Sequence[Use], taken: Collection[str]) -> list[Use]:
    """Uses with operands: equal ones of one tensor have the same; the first is the tensor's name.

    `taken`: names that no other operand has.
    """
    named: list[Use] = []
    names = {*taken}
    for use in uses:
        earlier = [other for other in named if other.tensor == use.tensor]
        same = next((other for other in earlier if same_indices(other.projection, use.projection)), None)
        operand = same.operand if same else free_name(use.tensor, names) if earlier else use.tensor
        names.add(operand)
        named.append(replace(use, operand=operand))
    return named


def free_name(name: str, taken: Collection[str]) -> str:
    """A second name, A_2 for A, or one with a higher number."""
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    return f"{name}_{number}"


def same_indices(first: Projection, second: Projection) -> bool:
    """Whether two projections index a tensor alike, in whatever order ranks and terms are written."""

    def plain(projection: Projection) -> dict[str, tuple[frozenset[tuple[str, int]], int]]:
        return {rank: (frozenset(index.terms), index.constant) for rank, index in projection}

    return plain(first) == plain(second)


def _entries(text: str, tensor: str, whole: str) -> Projection:
    ranks: list[tuple[str, Affine]] = []
    for entry in text.split(","):
        if not entry.strip():
            hint = f"a scalar has a rank with one coordinate: write {tensor}[O: 0]" if not text.strip() else None
            raise SpecError(f"empty index of tensor {tensor!r} in {shortened(whole)}", hint=hint)
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
