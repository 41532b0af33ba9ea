"""Steps of a PE that is a process, by JAX: collectives with the other PEs of the device, and Einsums.

An Einsum that is not spread is evaluated as `numeric.compute` does: values of all points, reduced to their elements.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from einmap.distribute.backends.arithmetic import Here, local_einsum
from einmap.distribute.backends.jax.lower_plan import JAX, move
from einmap.distribute.backends.jax.read_stablehlo import collectives
from einmap.distribute.plans.collectives import KINDS, sent
from einmap.distribute.plans.plan import Buffer, Combine, Fill, Local, Move, Plan, PlanStep
from einmap.distribute.training_run.device import Values, evaluate_whole
from einmap.einsum.einsum import Einsum, TensorAccess, TensorName
from einmap.einsum.functions import apply
from einmap.einsum.gather import gathered_rows
from einmap.einsum.numeric import REDUCE, Tensor, check_executable
from einmap.einsum.operation import Apply, MapExpression, Number, Operand, Reduction
from einmap.einsum.slices import is_product
from einmap.einsum.spaces.space import box_points, parse_constraint
from einmap.errors import InvariantError

_JOIN: Mapping[Reduction, str] = {"sum": "add", "max": "max", "min": "min"}
"""How JAX names the ways in which values join at one element."""


class JaxSteps:
    """The steps of the PE at `place` of its device, each an operation of JAX."""

    def __init__(self, place: int) -> None:
        self._place = place
        self._moves: dict[tuple[Move, Buffer, Buffer], tuple[Callable[[Any], Any], NamedSharding, float]] = {}

    def run(self, plan: Plan, step: PlanStep, memory: Values, is_whole: bool) -> tuple[str, float]:
        """See `device.Steps`. What a collective sends is that of the program as JAX lowers it."""
        match step:
            case Local() if is_whole and not any(loop.is_split for loop in step.loops):
                operands = {name: np.asarray(memory[name]) for _, name in step.operands}
                memory.update(evaluate_whole(plan, step, operands, compute))
            case Local():
                here = Here(partial(plan.mesh.position, self._place), 0)
                results = local_einsum(plan, step, {tensor: memory[name] for tensor, name in step.operands}, here, JAX)
                memory.update({name: results[tensor] for tensor, name in step.results})
            case Combine():
                memory[step.target] = memory[step.left] + memory[step.right]
            case Fill():
                memory[step.target] = np.zeros(plan.by_name[step.target].shape)
            case Move():
                return step.kind, self._move(plan, step, memory)
            case _:
                raise InvariantError(f"a training step has no {type(step).__name__}")
        return "", 0.0

    def _move(self, plan: Plan, step: Move, memory: Values) -> float:
        own = np.asarray(memory[step.source])[None]
        shape = (plan.mesh.n_devices, *own.shape[1:])
        # stages have plans of their own, in which buffers have the same names
        key = step, plan.by_name[step.source], plan.by_name[step.target]
        if key not in self._moves:
            self._moves[key] = self._lowered(plan, step, shape)
        program, sharding, sent_bytes = self._moves[key]
        (device,) = jax.local_devices()
        given = jax.make_array_from_single_device_arrays(shape, sharding, [jax.device_put(own, device)])
        (part,) = program(given).addressable_shards
        memory[step.target] = np.asarray(part.data)[0]
        return sent_bytes

    def _lowered(
        self, plan: Plan, step: Move, shape: tuple[int, ...]
    ) -> tuple[Callable[[Any], Any], NamedSharding, float]:
        """The program of a collective, how its operand lies, and the bytes that a PE sends."""
        mesh = jax.sharding.Mesh(np.array(jax.devices()).reshape(plan.mesh.shape), plan.mesh.names)
        spec = PartitionSpec(plan.mesh.names)
        mapped = jax.shard_map(
            lambda values: move(plan, step, values[0])[None], mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False
        )
        sharding = NamedSharding(mesh, spec)
        lowered = jax.jit(mapped).lower(jax.ShapeDtypeStruct(shape, np.float64, sharding=sharding))
        total = 0.0
        for row in collectives(lowered.compiler_ir("stablehlo")):
            parts = len(row.groups[0])
            if row.kind in KINDS:
                total += row.count * float(sent(row.kind, parts, row.operand_bytes, row.result_bytes))
            else:
                total += row.total_bytes * len(row.groups) / plan.mesh.n_devices
        return lowered.compile(), sharding, total


def compute(einsum: Einsum, tensors: Mapping[TensorName, Tensor]) -> dict[TensorName, Tensor]:
    """The outputs of one Einsum from its inputs; ranks of all tensors in the order of the Einsum's own accesses."""
    check_executable(einsum)
    read = {
        access.tensor: gathered_rows(einsum, access, tensors) if access.gathered else tensors[access.tensor]
        for access in einsum.accesses
        if not access.output
    }
    return {tensor: np.asarray(values) for tensor, values in _program(einsum)(read).items()}


@cache
def _program(einsum: Einsum) -> Callable[[Mapping[TensorName, Any]], dict[TensorName, Any]]:
    """The compiled program of an Einsum."""
    return jax.jit(_product(einsum) if is_product(einsum) else _point_by_point(einsum))  # type: ignore[no-any-return]


def _product(einsum: Einsum) -> Callable[[Mapping[TensorName, Any]], dict[TensorName, Any]]:
    (output,) = (access for access in einsum.accesses if access.output)
    letters = {variable: number for number, variable in enumerate(einsum.rank_variables)}

    def axes(access: TensorAccess) -> list[int]:
        return [letters[str(index)] for _, index in access.projection]

    def program(read: Mapping[TensorName, Any]) -> dict[TensorName, Any]:
        parts: list[Any] = []
        number = 1.0
        for factor in _factors(einsum.operation.map):
            if isinstance(factor, Number):
                number *= factor.value
            elif isinstance(factor, Operand):
                access = einsum.by_tensor[factor.tensor]
                cut = tuple(slice(einsum.extents[str(index)]) for _, index in access.projection)
                parts += [read[factor.tensor][cut], axes(access)]
        total = number * jnp.einsum(*parts, axes(output), precision=jax.lax.Precision.HIGHEST)
        return {output.tensor: total}

    return program


def _factors(expression: MapExpression | None) -> list[MapExpression]:
    match expression:
        case Apply("multiply", (left, right)):
            return [*_factors(left), *_factors(right)]
        case None:
            return []
        case _:
            return [expression]


def _point_by_point(einsum: Einsum) -> Callable[[Mapping[TensorName, Any]], dict[TensorName, Any]]:
    first = dict(einsum.first_values)
    low = {v: first.get(v, 0) for v in einsum.rank_variables}
    high = {v: low[v] + n - 1 for v, n in einsum.bounds}
    grid, inside = box_points([*einsum.rank_variables], [parse_constraint(cut) for cut in einsum.cuts], low, high)
    expression = Operand(min(einsum.inputs)) if einsum.is_copy else einsum.operation.map
    start = 0.0 if einsum.is_copy else REDUCE[einsum.operation.reduction][1]

    def where(access: TensorAccess) -> tuple[Any, ...]:
        return tuple(
            np.broadcast_to(index.constant + sum(a * grid[v] for v, a in index.terms), inside.shape)[inside]
            for _, index in access.projection
        )

    def value(part: MapExpression, read: Mapping[TensorName, Any]) -> Any:
        match part:
            case Operand(tensor):
                return read[tensor]
            case Number(number):
                return number
            case Apply(function, arguments):
                return apply(function, *(value(argument, read) for argument in arguments), xp=jnp)

    def program(read: Mapping[TensorName, Any]) -> dict[TensorName, Any]:
        at = {t: jnp.asarray(values)[where(einsum.by_tensor[t])] for t, values in read.items()}
        assert expression is not None
        found = jnp.broadcast_to(value(expression, at), (int(inside.sum()),))
        results = {}
        for access in (access for access in einsum.accesses if access.output):
            places = where(access)
            shape = [high + 1 for _, high in einsum.index_range(access).values()]
            written = np.zeros(shape, dtype=bool)
            written[places] = True
            target = jnp.full(shape, start, dtype=found.dtype).at[places]
            join = "set" if einsum.is_copy else _JOIN[einsum.operation.reduction]
            results[access.tensor] = jnp.where(written, getattr(target, join)(found), 0.0)
        return results

    return program
