"""Attention over cached and new rows: scores, masks, softmax, weighted sums (Vaswani et al., arXiv 1706.03762)."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import sqrt

from einmap.frontends.onnx.composed.body import NEVER, Body


@dataclass(frozen=True, slots=True)
class Heads:
    """Sizes of an attention: sequences, heads of queries and of keys, new positions, positions seen, features of a head
    of keys and of values.
    """

    batch: int
    heads: int
    key_heads: int
    tokens: int
    seen: int
    size: int
    value_size: int

    @property
    def group(self) -> int:
        """Heads of queries for each head of keys."""
        return self.heads // self.key_heads


type Mask = tuple[str, tuple[tuple[str, tuple[int, ...]], ...]]


@dataclass(slots=True)
class Rules:
    """Steps from scores to probabilities.

    `scale`: a number, 0 for one over the root of the size; `cap`: scores stay within it, 0 for none; `first`: which of
    the positions seen is the first new one, None where all are seen by all; `before` and `after`: positions seen before
    and after the own one, -1 for all; `masks`: texts of map expressions of a score and operands, each with its shape,
    which broadcasts to [batch, heads, tokens, seen]; `may_hide_all`: a position may see none; `sink`: a number for each
    head that counts in the sum of exponentials.
    """

    scale: float = 0.0
    cap: float = 0.0
    first: int | None = None
    before: int = -1
    after: int = 0
    may_hide_all: bool = False
    masks: list[Mask] = field(default_factory=list)
    sink: str | None = None


def split_heads(b: Body, value: str, batch: int, heads: int, size: int, tokens: int) -> str:
    """Rows of all heads, [batch, tokens, heads * size], as [batch, heads, tokens, size]."""
    return b.transpose(b.reshape(value, batch, tokens, heads, size), 0, 2, 1, 3)


def joined_heads(b: Body, value: str, h: Heads) -> str:
    """[batch, heads, tokens, size] as [batch, tokens, heads * size]."""
    return b.reshape(b.transpose(value, 0, 2, 1, 3), h.batch, h.tokens, h.heads * h.value_size)


def attended(b: Body, q: str, k: str, v: str, h: Heads, rules: Rules) -> tuple[str, str]:
    """A result, [batch, heads, tokens, size of values], and the probabilities, [batch, heads, tokens, seen]; operands
    are [batch, heads, positions, size].
    """
    sizes = h.batch, h.heads, h.key_heads, h.tokens, h.seen, h.size, h.value_size
    b.expect(min(sizes) > 0, f"batch, heads, positions and features {[*sizes]} must be positive")
    grouped = h.group > 1
    if grouped:
        q = b.reshape(q, h.batch, h.key_heads, h.group, h.tokens, h.size)
        k, v = (b.op("Unsqueeze", value, b.integers(2)) for value in (k, v))
    order = (0, 1, 2, 4, 3) if grouped else (0, 1, 3, 2)
    scores = b.op("MatMul", q, b.transpose(k, *order), label="scores")
    scale = rules.scale or 1 / sqrt(h.size)
    scores = b.times(scores, scale)
    if rules.cap:
        scores = b.map(f"tanh(a / {rules.cap!r}) * {rules.cap!r}", scores)
    for text, operands in (*rules.masks, *_by_position(b, h, rules)):
        scores = b.map(text, scores, *(_in_groups(b, *operand, h) for operand in operands), label="masked")
    if rules.may_hide_all:
        weights = _of_some(b, scores, grouped=grouped)
    elif rules.sink is None:
        weights = b.op("Softmax", scores, axis=-1, label="softmax")
    else:
        one = 1, h.heads, 1, 1
        weights = _with_sink(b, scores, _in_groups(b, b.reshape(rules.sink, *one), one, h), grouped=grouped)
    y = b.op("MatMul", weights, v, label="mixed")
    if not grouped:
        return y, weights
    rows = h.batch, h.heads, h.tokens
    return b.reshape(y, *rows, h.value_size), b.reshape(weights, *rows, h.seen)


def _by_position(b: Body, h: Heads, rules: Rules) -> list[Mask]:
    """Masks that hide later positions, and those outside of a window; none where nothing is hidden."""
    if rules.first is None:
        return []
    rows = b.reshape(b.numbered(rules.first, h.tokens), h.tokens, 1), (h.tokens, 1)
    columns = b.numbered(0, h.seen), (h.seen,)
    masks: list[Mask] = []
    if 0 <= rules.after < h.seen - 1 - rules.first:
        masks.append((f"select(less(b + {rules.after}, c), {NEVER}, a)", (rows, columns)))
    if 0 <= rules.before < rules.first + h.tokens - 1:
        masks.append((f"select(less(c + {rules.before}, b), {NEVER}, a)", (rows, columns)))
    return masks


def _in_groups(b: Body, value: str, shape: tuple[int, ...], h: Heads) -> str:
    """A value that broadcasts to [batch, heads, tokens, seen] as one that does with heads in groups."""
    if h.group == 1 or len(shape) < 3:
        return value
    before, heads, *after = (1, *shape)[-4:]
    return b.reshape(value, before, *((1, 1) if heads == 1 else (h.key_heads, h.group)), *after)


def _with_sink(b: Body, scores: str, sink: str, *, grouped: bool) -> str:
    """A softmax with a further score, whose exponential is in the sum alone."""
    axis = b.integers(4 if grouped else 3)
    largest = b.map("max(a, b)", b.op("ReduceMax", scores, axis, label="max"), sink)
    powers = b.map("exp(a - b)", scores, largest, label="exp")
    total = b.map("a + exp(b - c)", b.op("ReduceSum", powers, axis, label="sum"), sink, largest)
    return b.map("a / b", powers, total)


def _of_some(b: Body, scores: str, *, grouped: bool) -> str:
    """A softmax that is 0 where all scores are hidden."""
    axis = b.integers(4 if grouped else 3)
    largest = b.op("ReduceMax", scores, axis, label="max")
    powers = b.map(f"select(less(b, {NEVER} / 2), 0, exp(a - b))", scores, largest, label="exp")
    total = b.op("ReduceSum", powers, axis, label="sum")
    return b.map("select(equal(b, 0), 0, a / b)", powers, total)


def cached(b: Body, past: str | None, new: str, rows: int, capacity: int, tokens: int) -> tuple[str, str]:
    """Rows seen, and the cache afterwards, along axis 2: new rows come behind the first `rows` of a cache that has
    `capacity`, in its place where they have room there.
    """
    if past is None or not capacity:
        return new, new
    before = [past if rows == capacity else b.slice(past, 2, 0, rows)] if rows else []
    rest = [b.slice(past, 2, rows + tokens, capacity)] if rows + tokens < capacity else []
    return b.joined(2, *before, new), b.joined(2, *before, new, *rest)
