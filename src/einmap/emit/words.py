"""What comments say."""

from __future__ import annotations

import math
from collections.abc import Iterator

from einmap.einsum.operation import format_map
from einmap.emit.linear import Linear
from einmap.emit.program import Buffer, Plain, Program, TensorVariable
from einmap.emit.text import comment_safe


def about(program: Program) -> Iterator[str]:
    """The first lines: what is computed, and which names were changed."""
    yield "A loop nest with explicit data movement, emitted by einmap from a mapping."
    yield ""
    for plain in program.plain:
        yield f"  {comment_safe(einsum_text(plain))}"
    if program.instances > 1:
        yield f"The workload does this {program.instances} times; counts here are those of one time."
    for name, kept in program.renamed:
        yield f"Renamed: {comment_safe(name)!r} is {kept} here."


def einsum_text(plain: Plain) -> str:
    """`Z[m, n] = sum(A[m, k] * B[k, n])`."""
    outputs = ", ".join(f"{name}[{', '.join(map(str, indices))}]" for _, name, indices in plain.outputs)
    inputs = ", ".join(f"{name}[{', '.join(map(str, indices))}]" for _, name, indices in plain.inputs)
    what = "copy" if plain.is_copy else f"{plain.reduction} of {format_map(plain.map)}"
    return f"{outputs} = {what}, {inputs}"


def buffer_note(buffer: Buffer) -> str:
    """`GlobalBuffer: read by Z, 64 values (512 of 4,096 bits)`."""
    values = math.prod(buffer.shape)
    lanes = math.prod(buffer.lanes)
    each = f", each of {lanes} instances" if lanes > 1 else ""
    held = f"{values:,} value{'s' if values != 1 else ''}"
    room = "" if math.isinf(buffer.capacity) else f" of {buffer.capacity:,.12g}"
    return f"{buffer.memory}{each}: {held} ({buffer.bits:,.12g}{room} bits), {buffer.tensor} {buffer.use}"


def plain_text(tensor: TensorVariable, program: Program) -> tuple[tuple[Linear, ...], tuple[tuple[str, int, int], ...]]:
    """Indices of a written tensor, and the rank variables in them with first value and extent."""
    for plain in program.plain:
        for name, _, indices in plain.outputs:
            if name == tensor.tensor:
                used = {v for index in indices for v in index.names}
                return indices, tuple(v for v in plain.variables if v[0] in used)
    raise LookupError(tensor.tensor)
