"""Inputs of fewer bits than their sums: whole numbers of 8 bits summed in 32, bfloat16 summed in float.

They are widened once, as their tiles are packed. bfloat16 becomes float. Two whole numbers that are summed one after
the other become the two halves of 32 bits, of which processors multiply both pairs and add in one instruction
(`vpdpwssd`, `vpmaddwd`); elsewhere vector extensions of the compiler do the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from einmap.einsum.einsum import Einsum
from einmap.emit.fast.nest import REALS, Narrow, Nest, Real, Tile
from einmap.errors import NotSupportedError

NARROW: Mapping[tuple[float, float], tuple[Narrow, Real]] = {
    (8, 32): ("signed char", "int"),
    (16, 32): ("unsigned short", "float"),
}
"""C types of inputs and of sums, by their bits. Sixteen bits are bfloat16: the upper half of a float."""
MOST_TERMS = 2**17 - 1
"""Products of two numbers of 8 bits, at most 2^14 each, whose sum 32 bits hold."""
MULTIPLY_ADD = {
    16: (
        ("__AVX512VNNI__", "(vec)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)a, (__m512i)b)"),
        ("__AVX512BW__", "sum + (vec)_mm512_madd_epi16((__m512i)a, (__m512i)b)"),
    ),
    8: (("__AVX2__", "sum + (vec)_mm256_madd_epi16((__m256i)a, (__m256i)b)"),),
    4: (("__SSE2__", "sum + (vec)_mm_madd_epi16((__m128i)a, (__m128i)b)"),),
}
"""For vectors of so many lanes: what a processor must have, and the sum with the products of both pairs."""


def kinds_of(einsum: Einsum) -> tuple[Narrow, Real] | None:
    """C types of inputs and of sums where inputs are narrower; None for other widths."""
    inputs = {a.bits_per_value for a in einsum.accesses if not a.output}
    outputs = {a.bits_per_value for a in einsum.accesses if a.output}
    return NARROW.get((inputs.pop(), outputs.pop())) if len(inputs) == len(outputs) == 1 else None


def why_not(einsum: Einsum, narrow: Narrow) -> str:
    """The reason why fast code cannot have such inputs, as the end of a sentence; empty where it can."""
    bits = {"signed char": "8", "unsigned short": "16", "": ""}[narrow]
    for access in einsum.accesses:
        if any(len(index.terms) > 1 or any(f != 1 for _, f in index.terms) for _, index in access.projection):
            return f"indexes {access.tensor!r} of {bits} bits by a sum or a multiple, as convolutions do"
    if narrow != "signed char":
        return ""
    inputs = [a for a in einsum.accesses if not a.output]
    if len(inputs) != 2:
        return f"has inputs of 8 bits, and {len(inputs)} of them, where two are multiplied"
    terms = 1
    (output,) = (a for a in einsum.accesses if a.output)
    for variable, extent in einsum.bounds:
        terms *= 1 if variable in output.variables else extent
    return f"adds {terms:,} products of 8 bits, which 32 bits may not hold" if terms > MOST_TERMS else ""


def types_of(einsum: Einsum) -> tuple[Narrow, Real]:
    """C types of narrow inputs, if there are some, and of sums. Raises NotSupportedError for other widths."""
    if (kinds := kinds_of(einsum)) is not None:
        if text := why_not(einsum, kinds[0]):
            raise _refusal(einsum, text, "give all values 32 bits")
        return kinds
    bits = {a.bits_per_value for a in einsum.accesses}
    if len(bits) > 1 or (size := bits.pop()) not in REALS:
        raise _refusal(
            einsum,
            "has values that are not all of 32 bits (float) or 64 (double), nor inputs of 8 (whole numbers) or "
            f"16 (bfloat16) with an output of 32; found {_widths([einsum])}",
            "give such bits_per_value",
        )
    return "", REALS[size]


def type_of_all(einsums: Sequence[Einsum]) -> Real:
    """C type of the values of a cascade. Raises NotSupportedError for widths that are not all of 32 or 64 bits."""
    bits = {access.bits_per_value for einsum in einsums for access in einsum.accesses}
    if len(bits) > 1 or (size := bits.pop()) not in REALS:
        text = "is in a cascade whose values are not all of 32 bits (float) or 64 (double)"
        raise _refusal(einsums[0], f"{text}; found {_widths(einsums)}", "give such bits_per_value")
    return REALS[size]


def _widths(einsums: Sequence[Einsum]) -> str:
    """Bits of tensors: `A 8, B 8, Z 16`."""
    bits = {a.tensor: a.bits_per_value for einsum in einsums for a in einsum.accesses}
    return ", ".join(f"{tensor} {n:g}" for tensor, n in bits.items())


def _refusal(einsum: Einsum, text: str, hint: str) -> NotSupportedError:
    return NotSupportedError(f"Einsum {einsum.name!r} {text}; fast code for that cannot be emitted yet", hint=hint)


def paired_of(einsum: Einsum, tile: Tile) -> str:
    """The sum inside the register tile whose steps are taken two at a time: the innermost one that all inputs have."""
    inputs = [a.variables for a in einsum.accesses if not a.output]
    return next((v for v, _ in reversed(tile.reduced) if all(v in has for has in inputs)), "")


def header_lines(nest: Nest) -> Iterator[str]:
    """Headers that the functions below need."""
    if nest.real == "int" and nest.tile.lanes in MULTIPLY_ADD:
        yield f"#if defined({MULTIPLY_ADD[nest.tile.lanes][-1][0]})"
        yield "#include <immintrin.h>"
        yield "#endif"


def function_lines(nest: Nest) -> Iterator[str]:
    """The type of inputs, and functions that widen, pair, and multiply and add; nothing where inputs are as sums."""
    if not nest.narrow:
        return
    yield f"typedef {nest.narrow} narrow;"
    yield ""
    if nest.real == "float":
        yield "/* bfloat16 is the upper half of a float. */"
        yield "static inline real widened(narrow value)"
        yield "{"
        yield "    union { unsigned bits; real value; } wide = {(unsigned)value << 16};"
        yield "    return wide.value;"
        yield "}"
    else:
        yield "/* Two whole numbers as halves of one value. */"
        yield "static inline real pair(narrow first, narrow second)"
        yield "{"
        yield "    return (real)((unsigned)(unsigned short)first | (unsigned)second << 16);"
        yield "}"
        yield ""
        yield from _multiply_add_lines(nest.tile.lanes)
    yield ""


def _multiply_add_lines(lanes: int) -> Iterator[str]:
    """The function of pairs: in each lane the products of the first, and of the second numbers are added."""
    yield "/* sum + products of the first numbers of pairs + products of the second ones, in each lane. */"
    yield "static inline __attribute__((always_inline)) vec multiply_add(vec sum, vec a, vec b)"
    yield "{"
    for number, (feature, value) in enumerate(MULTIPLY_ADD.get(lanes, ())):
        yield f"#{'elif' if number else 'if'} defined({feature})"
        yield f"    return {value};"
    if lanes in MULTIPLY_ADD:
        yield "#else"
    yield "    return sum + ((a << 16) >> 16) * ((b << 16) >> 16) + (a >> 16) * (b >> 16);"
    if lanes in MULTIPLY_ADD:
        yield "#endif"
    yield "}"


def check_lines(nest: Nest) -> Iterator[str]:
    """The function of `main` that makes bfloat16 of a float that it can hold."""
    if nest.narrow and nest.real == "float":
        yield "static narrow narrowed(real value)"
        yield "{"
        yield "    union { real value; unsigned bits; } wide = {value};"
        yield "    return (narrow)(wide.bits >> 16);"
        yield "}"
        yield ""


def widened(nest: Nest, value: str) -> str:
    """A value of an input as C, as wide as the sums."""
    return f"widened({value})" if nest.narrow and nest.real == "float" else value


def narrowed(nest: Nest, value: str) -> str:
    """A small whole number as a value of an input, as C."""
    if not nest.narrow:
        return f"(real)({value})"
    return f"narrowed((real)({value}))" if nest.real == "float" else f"(narrow)({value})"
