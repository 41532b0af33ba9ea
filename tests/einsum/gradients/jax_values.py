"""Values of a workload and its gradients by JAX: point by point, with JAX's own functions and its own derivatives."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from einmap.einsum.numeric import rank_sizes
from einmap.einsum.operation import Apply, Number, Operand
from einmap.einsum.spaces.projection import Affine
from einmap.einsum.spaces.space import inside_of, parse_constraint

FUNCTIONS = {
    "exp": jnp.exp, "log": jnp.log, "sqrt": jnp.sqrt, "rsqrt": jax.lax.rsqrt, "abs": jnp.abs, "tanh": jnp.tanh,
    "sigmoid": jax.nn.sigmoid, "relu": jax.nn.relu, "negative": jnp.negative, "erf": jax.scipy.special.erf,
    "gelu": lambda x: jax.nn.gelu(x, approximate=False), "sin": jnp.sin, "cos": jnp.cos, "floor": jnp.floor,
    "ceil": jnp.ceil, "round": jnp.round, "sign": jnp.sign, "less": lambda x, y: (x < y) * 1.0,
    "equal": lambda x, y: (x == y) * 1.0, "select": lambda x, y, z: jnp.where(x != 0, y, z), "max": jnp.maximum,
    "min": jnp.minimum, "add": jnp.add, "subtract": jnp.subtract, "multiply": jnp.multiply, "divide": jnp.divide,
    "power": jnp.power,
}  # fmt: skip


def gradients(workload, inputs, of, by, weights):
    """The gradients of the sum of `of` times `weights` by graph inputs, as JAX derives them."""

    def loss(chosen):
        return jnp.sum(values(workload, inputs | chosen)[of] * weights)

    with jax.enable_x64(True):
        return jax.jit(jax.grad(loss))({tensor: jnp.asarray(inputs[tensor]) for tensor in by})


def values(workload, inputs):
    """Every tensor of the workload, with the shapes of `numeric.shapes`."""
    sizes = rank_sizes(workload)
    tensors = {t: jnp.asarray(v) for t, v in inputs.items()}
    for t in workload.producers:
        tensors[t] = jnp.zeros(tuple(sizes[t].values()))
    block_of = {name: block for block in workload.recurrences for name in block.einsums}
    for einsum in workload.einsums:
        block = block_of.get(einsum.name)
        if block is None:
            _evaluate(einsum, tensors, sizes, {})
        elif einsum.name == block.einsums[0]:
            for step in range(einsum.extents[block.variable]):
                for name in block.einsums:
                    _evaluate(workload.by_name[name], tensors, sizes, {block.variable: step})
    return tensors


def _evaluate(einsum, tensors, sizes, at):
    first = dict(einsum.first_values)
    ranges = [
        [first.get(v, 0) + at[v]] if v in at else range(first.get(v, 0), first.get(v, 0) + n) for v, n in einsum.bounds
    ]
    axes = np.meshgrid(*ranges, indexing="ij")
    grid = {v: axis.ravel() for (v, _), axis in zip(einsum.bounds, axes, strict=True)}
    count = axes[0].size if axes else 1
    inside = np.broadcast_to(inside_of([parse_constraint(cut) for cut in einsum.cuts], grid), count)
    grid = {v: values[inside] for v, values in grid.items()}
    read = {a.tensor: _read(a, tensors, sizes, grid) for a in einsum.accesses if not a.output}
    tree = Operand(min(einsum.inputs)) if einsum.is_copy else einsum.operation.map
    found = jnp.broadcast_to(_value(tree, read), (int(inside.sum()),))
    for access in (a for a in einsum.accesses if a.output):
        shape = tuple(sizes[access.tensor].values())
        where = np.ravel_multi_index(_places(access.projection, sizes[access.tensor], grid, len(found)), shape)
        kind = "copy" if einsum.is_copy else einsum.operation.reduction
        tensors[access.tensor] = _reduced(tensors[access.tensor], where, found, kind)


def _reduced(before, where, found, kind):
    targets, group = np.unique(where, return_inverse=True)
    flat = before.ravel()
    if kind == "copy":
        return flat.at[where].set(found).reshape(before.shape)
    if kind == "sum":
        total = jnp.zeros(len(targets)).at[group].add(found)
    else:
        # the points of each target in a row of its own, rows filled with what is never chosen
        rows = [np.flatnonzero(group == i) for i in range(len(targets))]
        table = np.full((len(rows), max(map(len, rows))), len(found))
        for i, row in enumerate(rows):
            table[i, : len(row)] = row
        never = -jnp.inf if kind == "max" else jnp.inf
        padded = jnp.append(found, never)[table]
        total = (jnp.max if kind == "max" else jnp.min)(padded, axis=1)
    return flat.at[targets].set(total).reshape(before.shape)


def _index(index, grid, count):
    return np.broadcast_to(index.constant + sum(a * grid[v] for v, a in index.terms), count)


def _places(projection, sizes, grid, count):
    by_rank = dict(projection)
    return tuple(_index(by_rank[rank], grid, count) for rank in sizes)


def _read(access, tensors, sizes, grid):
    count = len(next(iter(grid.values()), np.zeros(1)))
    by_rank = dict(access.written)
    where, there = [], np.ones(count, dtype=bool)
    for rank in sizes[access.tensor]:
        index = by_rank[rank]
        if isinstance(index, Affine):
            where.append(_index(index, grid, count))
            continue
        ids = jax.lax.stop_gradient(tensors[index.tensor])
        row = ids[_places(index.projection, sizes[index.tensor], grid, count)].astype(int)
        there = there & (row >= 0)
        where.append(jnp.maximum(row, 0))
    return jnp.where(there, tensors[access.tensor][tuple(where)], 0.0)


def _value(expression, read):
    match expression:
        case Operand(tensor):
            return read[tensor]
        case Number(value):
            return value
        case Apply(function, arguments):
            return FUNCTIONS[function](*(_value(argument, read) for argument in arguments))
