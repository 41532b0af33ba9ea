"""Linear attention as ONNX 27 defines it: a state of keys by values that each position decays, corrects and adds to.

The update rules are those of linear attention (Katharopoulos et al., arXiv 2006.16236), gated ones (Yang et al., arXiv
2312.06635), and the delta rule, gated or not (Yang et al., arXiv 2412.06464).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from einmap.errors import SpecError, did_you_mean
from einmap.frontends.cascade.parts import Parts
from einmap.frontends.cascade.recurrence import Recurrence, one_rank_of_steps
from einmap.frontends.cascade.step import NotExpressible, expression_of
from einmap.frontends.cascade.values import Value, reshape, take, transpose
from einmap.frontends.onnx.operators.call import Call
from einmap.frontends.onnx.operators.elementwise import short_decimal

RULES = {"linear": (False, False), "gated": (True, False), "delta": (False, True), "gated_delta": (True, True)}
"""Update rules by name: whether the state decays, and whether what it has for a key is taken away first."""


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Sizes of a linear attention: sequences, positions, heads of keys, heads of queries for each, features of a key
    and of a value.
    """

    batch: int
    steps: int
    heads: int
    group: int
    size: int
    value_size: int


def linear_attention(call: Call) -> list[Value | Parts]:
    """LinearAttention: a row for each position, (batch, positions, heads * features of a value), and the last state.

    Raises SpecError where operands do not fit the attributes.
    """
    rule = call.text("update_rule", "gated_delta")
    if rule not in RULES:
        raise SpecError(f"there is no update_rule {rule[:30]!r}", at=call.node.at, hint=did_you_mean(rule, RULES))
    sizes = _sizes(call)
    decays, corrects = RULES[rule]
    for place, wanted, name in ((4, decays, "decay"), (5, corrects, "beta")):
        if (call.optional(place) is not None) != wanted:
            raise SpecError(f"update_rule {rule!r} {'needs' if wanted else 'takes no'} {name}", at=call.node.at)
    state, result = _run(call, sizes)
    scale = call.number("scale", 0.0) or 1 / sqrt(sizes.size)
    rows = transpose(call.pointwise(f"a * ({short_decimal(scale)})", result), (1, 0, 2, 3, 4))
    heads = sizes.heads * sizes.group * sizes.value_size
    last = take(state, 0, sizes.steps - 1, 1, 1)
    return [call.reshape(rows, (sizes.batch, sizes.steps, heads)), reshape(last, last.shape[1:])]


def _sizes(call: Call) -> _Sizes:
    heads, queries = call.integer("kv_num_heads", 0), call.integer("q_num_heads", 0)
    shapes = [call.operand(i).shape for i in range(3)]
    if heads < 1 or queries < 1 or queries % heads or any(len(shape) != 3 for shape in shapes):
        text = f"{queries} heads of queries and {heads} of keys do not fit the shapes {[[*shape] for shape in shapes]}"
        raise SpecError(text, at=call.node.at)
    batch, steps, _ = shapes[0]
    size, value_size = shapes[0][2] // queries, shapes[2][2] // heads
    expected = [(batch, steps, n) for n in (queries * size, heads * size, heads * value_size)]
    state = call.optional(3)
    if [*shapes] != expected or (state is not None and state.shape != (batch, heads, size, value_size)):
        found = [[*shape] for shape in (*shapes, *(() if state is None else (state.shape,)))]
        raise SpecError(f"the shapes {found} do not fit {queries} and {heads} heads", at=call.node.at)
    if batch * steps * size * value_size == 0:
        raise NotExpressible("it has no positions")
    return _Sizes(batch, steps, heads, queries // heads, size, value_size)


def _run(call: Call, s: _Sizes) -> tuple[Value, Value]:
    """The state as each step leaves it, (steps, batch, heads, size, value size), and its product with the queries,
    (steps, batch, heads, group, value size).
    """
    queries = call.reshape(call.operand(0), (s.batch, s.steps, s.heads, s.group, s.size))
    keys, values = _by_steps(call, s, 1, "keys", s.size), _by_steps(call, s, 2, "values", s.value_size)
    kept, rate = _kept(call, s), _rate(call, s)
    recurrence = Recurrence(call.builder, call.name, s.steps)
    bits = keys.bits
    state = recurrence.state((s.batch, s.heads, s.size, s.value_size), bits, call.optional(3), f"{call.name}_state")
    before = state.before
    if kept is not None:
        before = call.pointwise("a * b", before, reshape(kept, (*kept.shape, 1)), bits=bits)
        before = call.builder.written(before, f"{call.name}_decayed")
    added = values
    if rate is not None:
        found = _product(call, before, keys, "s", "found")
        added = call.builder.written(call.pointwise("(a - b) * c", values, found, rate), f"{call.name}_corrected")
    outer = (s.steps, s.batch, s.heads, s.size, 1), (s.steps, s.batch, s.heads, 1, s.value_size)
    recurrence.write(
        state,
        call.pointwise("a + b * c", before, reshape(keys, outer[0]), reshape(added, outer[1]), bits=bits),
    )
    recurrence.close()
    rows = transpose(queries, (1, 0, 2, 3, 4))
    return state.after, _product(call, state.after, rows, "gs", "mixed")


def _by_steps(call: Call, s: _Sizes, place: int, name: str, last: int) -> Value:
    """An operand of (batch, steps, heads * last) as (steps, batch, heads, last)."""
    value = call.operand(place)
    if value.shape != (s.batch, s.steps, s.heads * last):
        text = f"operand {place} has the shape {[*value.shape]}, expected {[s.batch, s.steps, s.heads * last]}"
        raise SpecError(text, at=call.node.at)
    rows = transpose(call.reshape(value, (s.batch, s.steps, s.heads, last)), (1, 0, 2, 3))
    return one_rank_of_steps(call.builder, rows, f"{call.name}_{name}")


def _kept(call: Call, s: _Sizes) -> Value | None:
    """Factors of the state that each step keeps, (steps, batch, heads, 1 or size); None where it keeps all."""
    decay = call.optional(4)
    if decay is None:
        return None
    last = 1 if decay.shape[-1:] == (s.heads,) else s.size
    kept = call.pointwise("exp(a)", _by_steps(call, s, 4, "decays", last))
    return one_rank_of_steps(call.builder, kept, f"{call.name}_kept")


def _rate(call: Call, s: _Sizes) -> Value | None:
    """The rate of each update, (steps, batch, 1 or heads, 1); None for rules without."""
    beta = call.optional(5)
    if beta is None or beta.shape != (s.batch, s.steps, 1):
        return None if beta is None else _by_steps(call, s, 5, "rates", 1)
    rate = reshape(transpose(beta, (1, 0, 2)), (s.steps, s.batch, 1, 1))
    return one_rank_of_steps(call.builder, rate, f"{call.name}_rates")


def _product(call: Call, state: Value, rows: Value, axes: str, name: str) -> Value:
    """The sum over features of keys of a state, (t, b, h, s, v), times rows, (t, b, h, *axes), of whose axes s is the
    last one.
    """
    operands = [(rows, [*"tbh", *axes]), (state, [*"tbhsv"])]
    out, times = [*"tbh", *axes[:-1], "v"], expression_of("a * b", 2)
    return call.builder.einsum(f"{call.name}_{name}", operands, out, times, state.bits, weight=1)
