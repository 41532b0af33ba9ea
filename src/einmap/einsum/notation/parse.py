"""The concise notation: `Z[m, n] = A[m, k] * B[k, n]` <-> accesses and operation."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from einmap.einsum.operation import Operation, check_brackets, check_operation, parse_operation
from einmap.einsum.spaces.projection import Affine, Lookup, Projection, Written, by_position, lookups, parse_affine
from einmap.errors import SpecError
from einmap.expressions.evaluator.syntax import check_text_length, shortened

# possessive, and only at the start of a word: linear in the length of any text
_TENSOR = re.compile(r"(?<!\w)([A-Za-z_]\w*+)\s*+\[([^\[\]]*+)\]")
_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_MARK = "\0"
"""Stands with a number for a tensor inside of brackets."""
_LOOKUP = re.compile(rf"{_MARK}(\d+)\Z")


@dataclass(frozen=True, slots=True)
class Use:
    """One way in which an Einsum indexes an input. `operand`: what the operation calls the input there.

    `by_position`: no rank is written out, each is that of its rank variable. `gathered`: the projection as it is
    written, where ranks are looked up in other tensors.
    """

    tensor: str
    projection: Projection
    operand: str
    by_position: bool = False
    gathered: Written = ()


@dataclass(frozen=True, slots=True)
class ParsedEinsum:
    """Parts of a concise string: `(tensor, projection)` of the output, and the uses of inputs in written order.

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
    check_brackets(text)
    if text.count("=") != 1:
        raise SpecError(f"an Einsum needs exactly one '=', found {text.count('=')}: {shortened(text)}")
    left, right = text.split("=")
    written = _TENSOR.fullmatch(left.strip())
    if written is None:
        nested = left.count("[") > 1
        hint = "only inputs are indexed by values: a scatter is not supported" if nested else None
        raise SpecError(f"the left side of {shortened(text)} must be one tensor, such as Z[m, n]", hint=hint)
    right, nested_uses = without_nested(right)
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
    entries = [_use(name, _entries(listed, name, text, nested_uses), ":" not in listed) for name, listed in read]
    indices = [Use(index.tensor, index.projection, index.tensor) for use in entries for index in _looked_up(use)]
    taken = {output, *re.findall(r"\w+", right), *(use.tensor for use in indices)}
    for use in indices:
        if use.tensor == output:
            raise SpecError(
                f"tensor {use.tensor!r} is both input and output of {shortened(text)}", hint="rename one of them"
            )
    named = with_operands([*entries, *indices], taken)
    operands = {written: use.operand for written, use in zip(read, named, strict=False)}
    plain = _TENSOR.sub(lambda match: operands[match[1], match[2]], right)
    plain = re.sub(rf"{_MARK}(\d+)", lambda match: nested_uses[int(match[1])], plain)
    check_operation(plain, operands.values())
    operation = parse_operation(plain, list(operands.values()), reduction)
    uses: dict[str, Use] = {}
    for use in named:
        uses.setdefault(use.operand, use)
    target = output, by_position(_entries(written[2], output, text))
    return ParsedEinsum(target, tuple(uses.values()), operation, tuple(named))


def without_nested(text: str) -> tuple[str, list[str]]:
    """The text with each tensor inside of the brackets of another one replaced by a mark, and these tensors."""
    plain: list[str] = []
    nested: list[str] = []
    end = depth = 0
    for match in re.finditer(r"[\[\]]", text):
        depth += 1 if match[0] == "[" else -1
        if depth == 2 and match[0] == "[":
            name = re.search(r"(?<!\w)[A-Za-z_]\w*+\s*+\Z", text[max(0, match.start() - 200) : match.start()])
            begin = match.start() - (len(name[0]) if name else 0)
            plain.append(text[end:begin])
            close = text.find("]", match.start())
            end = len(text) if close < 0 else close + 1
            plain.append(f"{_MARK}{len(nested)}")
            nested.append(text[begin:end])
    return "".join([*plain, text[end:]]), nested


def _use(tensor: str, written: Written, is_plain: bool) -> Use:
    """A use of an input; one that is gathered is told by its rows."""
    rows = by_position(written)
    return Use(tensor, rows, tensor, is_plain, written if lookups(written) else ())


def _looked_up(use: Use) -> list[Lookup]:
    return [*lookups(use.gathered).values()]


def with_operands(uses: Sequence[Use], taken: Collection[str]) -> list[Use]:
    """Uses with operands: equal ones of one tensor have the same; the first is the tensor's name.

    `taken`: names that no other operand has.
    """
    named: list[Use] = []
    names = {*taken}
    for use in uses:
        earlier = [other for other in named if other.tensor == use.tensor]
        same = next((other for other in earlier if _alike(other, use)), None)
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


def _alike(first: Use, second: Use) -> bool:
    """Whether two uses of a tensor are the same one."""
    if first.gathered or second.gathered:
        return first.gathered == second.gathered
    return same_indices(first.projection, second.projection)


def _entries(text: str, tensor: str, whole: str, nested: Sequence[str] = ()) -> Written:
    ranks: list[tuple[str, Affine | Lookup]] = []
    for entry in text.split(","):
        if not entry.strip():
            hint = f"a scalar has a rank with one coordinate: write {tensor}[O: 0]" if not text.strip() else None
            raise SpecError(f"empty index of tensor {tensor!r} in {shortened(whole)}", hint=hint)
        rank, colon, index = (part.strip() for part in entry.partition(":"))
        looked_up = _LOOKUP.match(index if colon else rank)
        if looked_up and int(looked_up[1]) < len(nested):
            index = nested[int(looked_up[1])]
            if not colon:
                raise SpecError(
                    f"{index!r} as index of tensor {tensor!r}: a rank that is looked up is written out",
                    hint=f"write RANK: {index}",
                )
        if not colon:
            ranks.append(rank_of_variable(rank, tensor))
        else:
            for number, inner in enumerate(nested):
                index = index.replace(f"{_MARK}{number}", inner)
            ranks.append(rank_with_index(rank, index, tensor))
    return checked_projection(ranks, tensor)


def rank_of_variable(variable: str, tensor: str) -> tuple[str, Affine]:
    """The shorthand `m` for `M: m`."""
    if not _NAME.match(variable):
        parse_affine(variable)  # what is not an index with a rank either is said at once
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


def rank_with_index(rank: str, index: str, tensor: str) -> tuple[str, Affine | Lookup]:
    """`H: 2*p + r`, or `V: Ids[t]` where a value of another tensor is the index."""
    if not _NAME.match(rank) or not rank[0].isupper():
        raise SpecError(
            f"rank {rank!r} of tensor {tensor!r} must start with an upper-case letter",
            hint=f"write {rank.upper()}: {index}",
        )
    if "[" in index or "]" in index:
        return rank, _lookup(index, tensor)
    parsed = parse_affine(index)
    for variable, _ in parsed.terms:
        if not variable[0].islower():
            raise SpecError(
                f"{variable!r} in index {index!r} of tensor {tensor!r} must start with a lower-case letter",
                hint=f"rank variables are lower-case: {variable.lower()}",
            )
    return rank, parsed


def _lookup(text: str, tensor: str) -> Lookup:
    """`Ids[t]` as an index."""
    written = _TENSOR.fullmatch(text.strip())
    if written is None:
        raise SpecError(
            f"{shortened(text)} is not an index of tensor {tensor!r}: an index is a value of one tensor as it is, or "
            "affine in the rank variables",
            hint="compute the index in an Einsum of its own, and write RANK: TENSOR[...]",
        )
    if written[1] == tensor:
        raise SpecError(f"tensor {tensor!r} is looked up in itself", hint="copy it into another tensor first")
    places = [(r, i) for r, i in _entries(written[2], written[1], text) if isinstance(i, Affine)]
    return Lookup(written[1], tuple(places))


def checked_projection[I: (Affine, Affine | Lookup)](
    ranks: list[tuple[str, I]], tensor: str
) -> tuple[tuple[str, I], ...]:
    """Raises SpecError when a rank occurs twice or there is none."""
    if not ranks:
        raise SpecError(f"tensor {tensor!r} has no index")
    names = [rank for rank, _ in ranks]
    for name in names:
        if names.count(name) > 1:
            raise SpecError(f"rank {name!r} of tensor {tensor!r} is indexed twice")
    return tuple(ranks)


def format_projection(projection: Written) -> str:
    """`m, H: 2*p + r`: the shorthand where it says the same; `V: Ids[t]` where a rank is looked up."""
    parts = []
    for rank, index in projection:
        if isinstance(index, Lookup):
            parts.append(f"{rank}: {index.tensor}[{format_projection(index.projection)}]")
            continue
        plain = str(index)
        parts.append(plain if plain.upper() == rank and len(index.terms) == 1 else f"{rank}: {plain}")
    return ", ".join(parts)
