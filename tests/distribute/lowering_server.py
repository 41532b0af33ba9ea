"""Small JAX programs on 2 x 4 devices, lowered and compiled: what was found in them, by name."""

from dataclasses import astuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import Mesh, PartitionSpec

from einmap.distribute.backends.jax.messages import Message
from einmap.distribute.backends.jax.read_hlo import compiled_collectives
from einmap.distribute.backends.jax.read_stablehlo import collectives
from einmap.errors import InvariantError


def start(settings):
    jax.config.update("jax_enable_x64", True)
    return LoweringServer()


class LoweringServer:
    def close(self):
        pass

    def answer(self, request):
        mesh = Mesh(np.array(jax.devices()).reshape(2, 4), ("x", "y"))
        spec = PartitionSpec(("x", "y"), None)
        found = {}
        for name, function in PROGRAMS.items():
            mapped = jax.shard_map(function, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False)
            lowered = jax.jit(mapped).lower(jax.ShapeDtypeStruct((64, 24), "float32"))
            try:
                in_program = [astuple(one) for one in collectives(lowered.compiler_ir("stablehlo"))]
            except InvariantError as error:
                in_program = str(error)
            found[name] = in_program, [astuple(one) for one in compiled_collectives(lowered.compile().as_text())]
        return Message({"communication": found})


# each gets 8 x 24 values of float32, 768 bytes


def all_kinds(a):
    a = lax.all_gather(a, ("y", "x"), axis=0, tiled=True)
    a = lax.psum_scatter(a, "y", scatter_dimension=0, tiled=True)
    a = lax.pmax(a, "x")
    a = lax.all_to_all(a, "y", split_axis=1, concat_axis=0, tiled=True)
    return lax.ppermute(a, ("x", "y"), [(i, (i + 1) % 8) for i in range(8)])


def loops(a):
    def inner(_, b):
        return lax.ppermute(b, "x", [(0, 1), (1, 0)])

    def outer(_, b):
        return lax.psum(lax.fori_loop(2, 7, inner, b), "y") / 4

    def scanned(b, c):
        return b * lax.pmax(c, "x").astype(b.dtype), None

    a = lax.fori_loop(0, 3, outer, a)
    return lax.scan(scanned, a, jnp.arange(11.0, dtype="float64"))[0]


def functions(a):
    @jax.jit
    def sum_twice(b):
        return lax.psum(lax.psum(b, "x") + 1, "x")

    return sum_twice(sum_twice(a)) + sum_twice(jnp.einsum("ij,ij->ij", a, a))


def some_send(a):
    return lax.ppermute(lax.ppermute(a, "x", [(0, 1)]) * 2 + a, "y", [(1, 2), (2, 1)])


def repeated(a):
    return lax.psum(a, "x") * jnp.sin(lax.psum(a, "x"))


def unknown_turns(a):
    return lax.while_loop(lambda b: jnp.any(b > 1), lambda b: lax.psum(b, "x") / 4, a)


def conditional(a):
    return lax.cond(a[0, 0] > 0, lambda b: lax.psum(b, "x"), lambda b: b, a)


def silent(a):
    position = lax.axis_index(("x", "y"))
    return lax.fori_loop(0, 3, lambda i, b: b + i, a) + lax.dynamic_slice_in_dim(a, position * 0, 8, 0)


PROGRAMS = {
    f.__name__: f for f in (all_kinds, loops, functions, some_send, repeated, unknown_turns, conditional, silent)
}
