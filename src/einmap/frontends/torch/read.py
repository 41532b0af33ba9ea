"""Modules of PyTorch, and programs that it saves, as cascades of Einsums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from einmap.errors import At, SpecError
from einmap.frontends.cascade.imported import NOTHING, Imported, checked_batch
from einmap.frontends.onnx.read import import_nodes
from einmap.frontends.torch.archive import graph_of_file
from einmap.frontends.torch.graph import program_of
from einmap.frontends.torch.operators.call import Written
from einmap.frontends.torch.program import Program
from einmap.frontends.torch.sizes import given_sizes, open_dimensions
from einmap.frontends.torch.trace import traced
from einmap.frontends.torch.translate import model_of


def from_torch(
    module: Any,
    example_inputs: Sequence[Any] | Mapping[str, Any] = (),
    *,
    dynamic_shapes: Any = None,
    dimensions: Mapping[str, object] | None = None,
    batch: int | None = None,
    bits: int | None = None,
    strict: bool = False,
    instances: bool = False,
) -> Imported:
    """The cascade of Einsums of a module of PyTorch.

    `module`: an `nn.Module`, its weights perhaps on the device `meta`, an `ExportedProgram`, or the name of a file that
    `torch.export.save` wrote, which is read without PyTorch. `example_inputs`: arguments of its `forward` in order or
    by name, of which shapes and types count. `dynamic_shapes`: as `torch.export.export` takes them; `dimensions`: the
    sizes of these, by the names of their `Dim`, by `INPUT_AXIS`, or by their symbols; `batch`: the first dimension of
    every input, where these leave it open. `bits`: of each number, in place of what the types say. `strict`: an
    operator without Einsum form is an error. `instances`: equal layers are one with `n_instances`, as `from_onnx` has.

    The module is traced and not run, weights are not read. Values of the result's `run` are named as the arguments of
    `forward` and the parameters (`layers.0.weight`); outputs are `out`, or `out[0]`, ...; `STATE_new` is a buffer, or
    an argument, that it changes. Raises SpecError with the place in the program.
    """
    if isinstance(module, str | Path):
        program = program_of(graph_of_file(Path(module)), str(module))
    else:
        named = dict(example_inputs) if isinstance(example_inputs, Mapping) else {}
        program = traced(module, () if named else tuple(example_inputs), named, dynamic_shapes)
    return imported_program(program, dimensions or {}, batch=batch, bits=bits, strict=strict, instances=instances)


def imported_program(
    program: Program,
    dimensions: Mapping[str, object],
    *,
    batch: int | None = None,
    bits: int | None = None,
    strict: bool = False,
    instances: bool = False,
) -> Imported:
    """The cascade of a program, for sizes of its open dimensions. Raises SpecError."""
    batch = checked_batch(batch, program.file)
    written = Written()
    model = model_of(program, given_sizes(program, dimensions, batch), written)
    how: Any = {"shapes": written.said, "reasons": written.reasons}
    result = import_nodes(model, bits, strict=strict, instances=instances, **how)
    return replace(result, operators=dict(written.counts))


def read_torch(path: Path, define: Mapping[str, object]) -> tuple[Imported, tuple[str, ...]]:
    """A program among files of a specification, and the names of `define` that it knows, which may have others.

    Raises SpecError where nothing is computed.
    """
    program = program_of(graph_of_file(path), str(path))
    names = tuple(open_dimensions(program))
    result = imported_program(program, {name: size for name, size in define.items() if name in names})
    if not result.workload:
        raise SpecError(NOTHING, at=At(program.file))
    return result, names
