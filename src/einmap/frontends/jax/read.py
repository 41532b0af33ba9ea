"""A whole function: its jaxpr, equation by equation."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from einmap.errors import Note, SpecError
from einmap.frontends.cascade.builder import Builder
from einmap.frontends.cascade.imported import Imported, Joined, imported, is_given, kept_in_place
from einmap.frontends.cascade.parts import Parts
from einmap.frontends.cascade.step import NotExpressible, expression_of
from einmap.frontends.cascade.values import Value, reshape
from einmap.frontends.cascade.views import LayoutError
from einmap.frontends.jax.contractions import CONTRACTIONS
from einmap.frontends.jax.elementwise import ELEMENTWISE
from einmap.frontends.jax.equation import Equation, bits_of, constant, is_key
from einmap.frontends.jax.layout import CUMULATIVE, LAYOUT, joined
from einmap.frontends.jax.lookups import LOOKUPS
from einmap.frontends.jax.placements import distributed, sizes_of, specs_by_leaf
from einmap.frontends.jax.scans import FEWEST_STEPS, Scan, kept_scan
from einmap.frontends.jax.scatters import SCATTERS
from einmap.optional import require

PRIMITIVES: Mapping[str, Callable[[Equation], list[Value]]] = {
    **ELEMENTWISE, **LAYOUT, **CONTRACTIONS, **LOOKUPS, **SCATTERS,
}  # fmt: skip
"""Functions that give the results of each primitive."""
CALLS = ("pjit", "jit", "closed_call", "core_call", "remat", "remat2", "checkpoint", "custom_jvp_call",
         "custom_vjp_call", "custom_vjp_call_jaxpr", "custom_lin", "call_hi_primitive")  # fmt: skip
"""Primitives that call a jaxpr, which is imported in their place."""
NAMED = {"exp_neg_sq": "exp(-(a * a))"}
"""Functions of JAX that work on the bits of numbers, as the derivative of erf does, by what they compute."""
FOLDED = ("random_seed", "random_wrap", "random_unwrap", "random_split", "random_fold_in", "random_bits",
          "random_clone", "threefry2x32", "bitcast_convert_type", "shift_left", "shift_right_logical",
          "shift_right_arithmetic", "erf_inv", "nextafter", "population_count", "clz")  # fmt: skip
"""Primitives that are computed at import, by JAX, and have no Einsum form otherwise."""
MOST_FOLDED = 2**22
"""Numbers of one constant that are computed."""
MOST_EQUATIONS = 50_000
"""Equations of a function, those of calls and unrolled scans among them."""


def from_jax(function: Callable[..., Any], *example_args: Any, mesh: Any = None, placements: Any = None) -> Imported:
    """The cascade of Einsums of a function of JAX.

    `example_args`: arguments, or `jax.ShapeDtypeStruct`s of their shapes and types, in any nest of lists and
    dictionaries. The function is traced and not run; calls are inlined, long scans kept as recurrences. Values of the
    result's `run` are named as the arguments: `x`, `params['w']`; the outputs `out`, `out[0]`, `out['loss']`.

    `mesh`, a mesh of JAX or a dictionary of axes and sizes, and `placements`, a `PartitionSpec` or None for each
    argument or each of its leaves, give the specification a `distribution`, which `plan_of` and `einmap run` take.

    Raises SpecError for primitives that have no Einsum form: all of them by name, with counts.
    """
    jax = require("jax", "distributed")
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*example_args)
    unknown = Counter(
        equation.primitive.name
        for equation in _every_equation(closed.jaxpr)
        if equation.primitive.name not in (*PRIMITIVES, *CALLS, *FOLDED, "scan", "iota", "cond", "platform_index")
    )
    if unknown:
        counts = ", ".join(f"{name} ({n})" for name, n in sorted(unknown.items()))
        raise SpecError(f"primitives of JAX without Einsum form: {counts}")
    names = _argument_names(jax, function, example_args)
    reader = _Reader(jax)
    arguments = [reader.argument(name, v.aval) for name, v in zip(names, closed.jaxpr.invars, strict=True)]
    constants = [constant(value) for value in closed.consts]
    results = reader.run(closed.jaxpr, constants, arguments)
    paths = jax.tree_util.tree_flatten_with_path(shapes)[0]
    outputs: dict[str, Value] = {}
    joined_outputs: dict[str, Joined] = {}
    for (path, _), value in zip(paths, results, strict=True):
        name = f"out{jax.tree_util.keystr(path)}"
        if parts := reader.parts_of(value):
            joined_outputs[name], own = kept_in_place(reader.builder, name, parts)
            outputs |= own
        elif value.array is None:
            outputs[name] = reader.builder.written(value, name)
    constants_out = {
        f"out{jax.tree_util.keystr(path)}": value.array
        for (path, _), value in zip(paths, results, strict=True)
        if value.array is not None
    }
    about = {"operators": dict(reader.counts), "constants": constants_out, "joined": joined_outputs}
    result = imported(reader.builder, outputs, {}, about, tuple(reader.notes.values()))
    if mesh is None and placements is None:
        return result
    if mesh is None or placements is None:
        raise SpecError("mesh and placements go together", hint='mesh={"x": 8}, placements=(P("x", None), None)')
    return distributed(result, names, specs_by_leaf(jax, placements, example_args), sizes_of(mesh))


def _every_equation(jaxpr: Any) -> Iterator[Any]:
    for equation in jaxpr.eqns:
        yield equation
        name = equation.primitive.name
        if name in CALLS or name == "scan":
            yield from _every_equation(_jaxpr_of(equation)[0])
        elif name == "cond":
            for branch in equation.params["branches"]:
                yield from _every_equation(branch.jaxpr)


def _jaxpr_of(equation: Any) -> tuple[Any, tuple[Any, ...]]:
    """The jaxpr that an equation calls, and its constants."""
    for key in ("jaxpr", "call_jaxpr", "fun_jaxpr"):
        inner = equation.params.get(key)
        if inner is not None:
            return (inner.jaxpr, tuple(inner.consts)) if hasattr(inner, "consts") else (inner, ())
    if (own := equation.params.get("_prim")) is not None:  # an operation that says itself what it is made of
        made = require("jax", "distributed").make_jaxpr(own.expand)(*own.in_avals)
        return made.jaxpr, tuple(made.consts)
    raise SpecError(f"the call {equation.primitive.name} of JAX has no jaxpr that einmap knows")


def _argument_names(jax: Any, function: Callable[..., Any], example_args: tuple[Any, ...]) -> list[str]:
    try:
        declared = [p.name for p in inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        declared = []
    names = []
    for i, argument in enumerate(example_args):
        name = declared[i] if i < len(declared) else f"arg{i}"
        names += [
            f"{name}{jax.tree_util.keystr(path)}" for path, _ in jax.tree_util.tree_flatten_with_path(argument)[0]
        ]
    return names


@dataclass(slots=True)
class _Reader:
    """The values of a function while its jaxpr is read. `counts`: of the primitives, those of calls among them;
    `steps`: of the recurrence whose equations are read, if there is one: no other can be inside of it; `notes`: what
    the user should know, by text; `parts`: what tensors are joined of, by their names.
    """

    jax: Any
    builder: Builder = field(default_factory=Builder)
    counts: Counter[str] = field(default_factory=Counter)
    steps: int | None = None
    notes: dict[str, Note] = field(default_factory=dict)
    parts: dict[str, Parts] = field(default_factory=dict)

    def parts_of(self, value: Value) -> Parts | None:
        """The parts of an output, where some of them are arguments as they are and others are not."""
        view = value.leaves[0] if value.is_view else None
        parts = self.parts.get(view.tensor.name) if view is not None else None
        if parts is None or view is None or value.bits != parts.bits:
            return None
        is_whole = value.shape == parts.shape and all(view.is_whole(i) or n == 1 for i, n in enumerate(value.shape))
        return parts if is_whole and any(is_given(part) for part in parts.values) else None

    def argument(self, name: str, aval: Any) -> Value:
        """An argument of the function; one without values is not a tensor of the cascade."""
        if 0 in aval.shape:
            return constant(np.zeros(aval.shape, aval.dtype))
        return self.builder.graph_input(name, tuple(aval.shape), bits_of(aval.dtype), name)

    def run(self, jaxpr: Any, constants: list[Value], arguments: list[Value]) -> list[Value]:
        """The results of a jaxpr. Raises SpecError for what has no Einsum form."""
        used = [*(v for equation in jaxpr.eqns for v in equation.invars), *jaxpr.outvars]
        readers = Counter(v for v in used if not hasattr(v, "val"))
        values: dict[Any, Value] = {}

        def give(variable: Any, value: Value, name: str) -> None:
            if value.array is None and not value.is_view and readers[variable] > 1:
                value = self.builder.written(value, name)
            values[variable] = value

        for variable, value in zip((*jaxpr.constvars, *jaxpr.invars), (*constants, *arguments), strict=True):
            give(variable, value, "value")
        for equation in jaxpr.eqns:
            operands = [self.operand(v, values) for v in equation.invars]
            name = equation.primitive.name
            self.counts[name] += 1
            if self.counts.total() > MOST_EQUATIONS:
                raise SpecError(f"the function has more than {MOST_EQUATIONS:,} equations, scans unrolled")
            results = self.results(equation, operands)
            for variable, value in zip(equation.outvars, results, strict=True):
                own = replace(value, bits=bits_of(variable.aval.dtype))
                give(variable, own, f"{name}_{self.counts[name]}")
        return [self.operand(v, values) for v in jaxpr.outvars]

    def run_steps(self, steps: int, jaxpr: Any, constants: list[Value], arguments: list[Value]) -> list[Value]:
        """The results of a jaxpr whose equations become Einsums of a recurrence."""
        self.steps = steps
        try:
            return self.run(jaxpr, constants, arguments)
        finally:
            self.steps = None

    def operand(self, variable: Any, values: Mapping[Any, Value]) -> Value:
        """The value of a variable, or of a literal."""
        if not hasattr(variable, "val"):
            return values[variable]
        # a literal may be a number of Python, which has no type of its own
        return constant(
            variable.val if hasattr(variable.val, "dtype") else np.asarray(variable.val, variable.aval.dtype)
        )

    def results(self, equation: Any, operands: list[Value]) -> list[Value]:
        """Results of one equation."""
        name = equation.primitive.name
        if name in CALLS:
            inner, constants = _jaxpr_of(equation)
            called = getattr(getattr(inner, "debug_info", None), "func_name", "")
            if called in NAMED and any(e.primitive.name == "bitcast_convert_type" for e in inner.eqns):
                text = NAMED[called]
                return [
                    self.builder.pointwise(
                        expression_of(text, 1), operands, f"{name}_{self.counts[name]}", operands[0].bits
                    )
                ]
            return self.run(inner, [constant(value) for value in constants], operands)
        if name == "scan":
            return self.scanned(equation, operands)
        if name == "cond":
            return self.branch(equation, operands)
        if name in CUMULATIVE and self.steps is not None:
            raise NotExpressible(f"a {name} is inside of the recurrence")
        shapes = [tuple(v.aval.shape) for v in equation.outvars]
        # a scatter along no axis has places without numbers
        given = [v for i, v in enumerate(operands) if i != 1 or name not in SCATTERS]
        empty = next((v.shape for v in given if 0 in v.shape), None)
        if all(0 in shape for shape in shapes):
            return [constant(np.zeros(v.aval.shape, v.aval.dtype)) for v in equation.outvars]
        small = all(np.prod(shape) <= MOST_FOLDED for shape in shapes)
        if small and all(v.array is not None for v in operands):
            return self.folded(equation, operands)
        if name == "iota":
            raise SpecError(f"iota of the shape {shapes[0]} has more than {MOST_FOLDED:,} numbers")
        if empty is not None and name != "concatenate":
            raise SpecError(f"{name} of JAX has no Einsum form: an operand of the shape {[*empty]} has no values")
        if name in FOLDED:
            raise SpecError(
                f"{name} of JAX has no Einsum form: its operands are known only when the function runs",
                hint="make keys of random numbers inside of the function: jax.random.key(0)",
            )
        about = shapes[0], np.dtype(equation.outvars[0].aval.dtype), self.notes, self.parts
        label = f"{name}_{self.counts[name]}"
        one = Equation(self.builder, label, name, tuple(operands), equation.params, *about)
        try:
            return PRIMITIVES[name](one)
        except (NotExpressible, LayoutError) as reason:
            raise SpecError(f"{name} of JAX has no Einsum form: {reason}") from None

    def branch(self, equation: Any, operands: list[Value]) -> list[Value]:
        """The results of a cond or switch whose branch is known."""
        which, *rest = operands
        if which.array is None:
            raise SpecError("cond of JAX has no Einsum form: its branch is known only when the function runs")
        branches = equation.params["branches"]
        chosen = branches[min(max(0, int(which.array.reshape(-1)[0])), len(branches) - 1)]
        return self.run(chosen.jaxpr, [constant(value) for value in chosen.consts], rest)

    def folded(self, equation: Any, operands: list[Value]) -> list[Value]:
        """The results of an equation on known numbers, by JAX."""
        pairs = zip(operands, equation.invars, strict=True)
        arrays = [v.array if is_key(u.aval.dtype) else np.asarray(v.array, dtype=u.aval.dtype) for v, u in pairs]
        found = equation.primitive.bind(*arrays, **equation.params)
        several = found if equation.primitive.multiple_results else [found]
        return [constant(value) for value in several]

    def scanned(self, equation: Any, operands: list[Value]) -> list[Value]:
        """A scan as a recurrence where its steps can run so; a short one, and one that cannot, unrolled, with a note.

        Of one inside of another the longer one is kept. Raises NotExpressible for the inner one if that is to be kept.
        """
        steps = int(equation.params["length"])
        if self.steps is not None and steps > self.steps:
            raise NotExpressible("a longer scan is inside of the recurrence")
        reason = f"it has fewer than {FEWEST_STEPS}" if self.steps is None else "it is inside of a recurrence"
        if steps >= FEWEST_STEPS and self.steps is None:
            program, counts, notes = self.builder.program.copied(), self.counts.copy(), self.notes.copy()
            fixed, carried, swept = self.parts_of_scan(equation, operands)
            scan = Scan(equation.params["jaxpr"], steps, bool(equation.params["reverse"]), fixed, carried, swept)
            try:
                return kept_scan(self.jax, self.builder, scan, self.run, partial(self.run_steps, steps))
            except (NotExpressible, LayoutError, SpecError) as error:
                reason = str(error)
                self.builder.program, self.counts, self.notes = program, counts, notes
        if steps > 1:
            self.notes.setdefault(reason, Note(f"scan of JAX: its {steps} steps are unrolled: {reason}"))
        return self.unrolled(equation, operands)

    def parts_of_scan(self, equation: Any, operands: list[Value]) -> tuple[list[Value], list[Value], list[Value]]:
        """Operands of a scan: the same in all steps, carried at first, and swept over."""
        inner, _ = _jaxpr_of(equation)
        # what is swept over, and what each step gives, has one axis more than inside
        n_carried = sum(u.aval.ndim == v.aval.ndim for u, v in zip(equation.outvars, inner.outvars, strict=True))
        n_swept = sum(u.aval.ndim != v.aval.ndim for u, v in zip(equation.invars, inner.invars, strict=True))
        n_fixed = len(operands) - n_swept - n_carried
        return operands[:n_fixed], operands[n_fixed : n_fixed + n_carried], operands[n_fixed + n_carried :]

    def unrolled(self, equation: Any, operands: list[Value]) -> list[Value]:
        """A scan, step by step: what it carries goes on, what each step gives is joined along a first axis."""
        params = equation.params
        inner, constants = _jaxpr_of(equation)
        length = int(params["length"])
        fixed, carried, swept = self.parts_of_scan(equation, operands)
        n_carried = len(carried)
        known_inside = [constant(value) for value in constants]
        given: list[list[Value]] = []
        if not length:
            return [
                *carried,
                *(constant(np.zeros(v.aval.shape, v.aval.dtype)) for v in equation.outvars[n_carried:]),
            ]
        order = range(length - 1, -1, -1) if params["reverse"] else range(length)
        for i in order:
            step = self.helper("scan")
            rows = [reshape(step.take(v, 0, i, 1, 1), v.shape[1:]) for v in swept]
            results = self.run(inner, known_inside, [*fixed, *carried, *rows])
            carried = [
                v if v.is_view or v.array is not None else self.builder.written(v, "carry") for v in results[:n_carried]
            ]
            given.append([reshape(v, (1, *v.shape)) for v in results[n_carried:]])
        given = given[::-1] if params["reverse"] else given
        stacked = [joined(self.helper("scan"), tuple(column), 0) for column in zip(*given, strict=True)]
        return [*carried, *stacked]

    def helper(self, name: str) -> Equation:
        """An equation without operands, for steps that belong to no primitive."""
        return Equation(
            self.builder, f"{name}_{self.counts[name]}", name, (), {}, (), np.dtype(np.float32), self.notes, self.parts
        )
