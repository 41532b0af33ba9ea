"""Attention as ONNX Runtime writes it: packed or apart, with caches, rotary embeddings and windows inside."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np

from einmap.frontends.cascade.step import NotExpressible
from einmap.frontends.onnx.composed.body import NEVER, Body
from einmap.frontends.onnx.composed.rotary import angles_at, angles_looked_up, partly_turned
from einmap.frontends.onnx.composed.scores import Heads, Rules, attended, cached, joined_heads, split_heads
from einmap.frontends.onnx.kinds import BOOL
from einmap.visible import short


@dataclass(frozen=True, slots=True)
class _Rows:
    """Queries, keys and values, [batch, heads, positions, size], with the sizes of those of keys."""

    q: str
    k: str
    v: str
    tokens: int
    size: int
    value_size: int


def grouped_query_attention(b: Body) -> None:
    """GroupQueryAttention: causal, with heads of keys for several heads of queries each.

    Sequences are as long as `total_sequence_length` says, or `seqlens_k` + 1 where these are known; without either new
    rows come behind all that are cached.
    """
    heads, key_heads = b.positive("num_heads"), b.positive("kv_num_heads")
    b.expect(heads % key_heads == 0, f"{heads} heads do not fall into {key_heads} groups")
    if b.has(12) or b.has(13) or b.call.text("k_quant_type", "NONE") != "NONE":
        raise NotExpressible("its cache is quantised")
    batch, tokens, hidden = b.shape(0, 3)
    rows = _packed_rows(b, batch, tokens, hidden, heads, key_heads)
    past = b.name(3) if b.has(3) else None
    capacity = b.shape(3, 4)[2] if b.has(3) else 0
    seen = _length(b, capacity, tokens)
    first = seen - tokens
    b.expect(0 <= first <= capacity, f"{seen} positions are not {tokens} new ones behind at most {capacity} cached")
    q, k = rows.q, rows.k
    if b.call.integer("do_rotary", 0):
        angles = angles_looked_up(b, (7, 8), b.name(9)) if b.has(9) else angles_at(b, (7, 8), first, tokens)
        how: Any = {"pairs": b.shape(7, 2)[1], "interleaved": bool(b.call.integer("rotary_interleaved", 0))}
        b.expect(2 * how["pairs"] <= rows.size, f"{how['pairs']} pairs are turned, a head has {rows.size} features")
        q = partly_turned(b, q, (batch, heads, tokens, rows.size), angles, **how)
        k = partly_turned(b, k, (batch, key_heads, tokens, rows.size), angles, **how)
    k, b.results[1] = cached(b, past, k, first, capacity, tokens)
    v, b.results[2] = cached(b, b.name(4) if b.has(4) else None, rows.v, first, capacity, tokens)
    h = Heads(batch, heads, key_heads, tokens, seen, rows.size, rows.value_size)
    window = b.call.integer("local_window_size", -1)
    rules = Rules(b.call.number("scale", 0.0), b.call.number("softcap", 0.0), first, window - 1 if window > 0 else -1)
    if b.has(10):
        rules.masks.append(("a + b", ((b.name(10), b.shape(10, 4)),)))
    if b.has(11):
        rules.sink = b.name(11)
    elif b.call.integer("smooth_softmax", 0) == 1:
        rules.sink = b.known(np.broadcast_to(np.float64(0), heads))
    y, weights = attended(b, q, k, v, h, rules)
    b.results[0] = joined_heads(b, y, h)
    _probabilities(b, 3, weights, is_softmax=b.call.integer("qk_output", 0) == 2)


def standard_attention(b: Body) -> None:
    """Attention as ONNX defines it, from opset 23 on: scores are bounded before they are masked."""
    q, k, v = (b.shape(i) for i in range(3))
    b.expect(len(q) == len(k) == len(v) and len(q) in (3, 4), f"shapes {[*q]}, {[*k]} and {[*v]} do not fit")
    if len(q) == 3:
        heads, key_heads = b.positive("q_num_heads"), b.positive("kv_num_heads")
        counts = heads, key_heads, key_heads
        fits = all(shape[2] % n == 0 for shape, n in zip((q, k, v), counts, strict=True))
        b.expect(fits, f"features of {[*q]}, {[*k]} and {[*v]} do not fall into {heads} and {key_heads} heads")
        q, k, v = ((s[0], n, s[1], s[2] // n) for s, n in zip((q, k, v), counts, strict=True))
        names = [split_heads(b, b.name(i), s[0], s[1], s[3], s[2]) for i, s in enumerate((q, k, v))]
    else:
        names = [b.name(i) for i in range(3)]
    b.expect(k[1] > 0 and q[1] % k[1] == 0 and q[3] == k[3], f"queries {[*q]} do not fit keys {[*k]}")
    capacity = b.shape(4, 4)[2] if b.has(4) else 0
    seen = capacity + k[2]
    key, b.results[1] = cached(b, b.name(4) if b.has(4) else None, names[1], capacity, capacity, k[2])
    value, b.results[2] = cached(b, b.name(5) if b.has(5) else None, names[2], capacity, capacity, k[2])
    h = Heads(q[0], q[1], k[1], q[2], seen, q[3], v[3])
    left, right = b.call.integer("left_window_size", -1), b.call.integer("right_window_size", -1)
    causal = bool(b.call.integer("is_causal", 0))
    first = capacity
    rules = Rules(b.call.number("scale", 0.0), b.call.number("softcap", 0.0))
    if b.has(6):
        lengths = b.numbers(6)
        if lengths is None or not lengths.size or lengths.min() != lengths.max():
            raise NotExpressible("the positions that are filled are not known, or differ", _GIVE)
        filled = int(lengths.max())
        b.expect(0 < filled <= seen, f"{filled} positions are filled, there are {seen}")
        first = filled - q[2] if causal else first
        key, value = (b.slice(name, 2, 0, filled) for name in (key, value))
        h = replace(h, seen=filled)
    if causal or left >= 0 or right >= 0:
        rules.first, rules.before, rules.after = first, left, 0 if causal else right
    if b.has(3):
        shape, mask = b.shape(3), b.name(3)
        wide = (*(1 for _ in range(4 - len(shape))), *shape)
        if shape[-1] > h.seen:
            wide, mask = (*wide[:-1], h.seen), b.slice(mask, len(shape) - 1, 0, h.seen)
        b.expect(wide[3:] in ((1,), (h.seen,)), f"a mask of the shape {[*shape]} does not fit {h.seen} positions")
        text = f"select(b, a, {NEVER})" if b.call.kinds[3] == BOOL else "a + b"
        rules.masks.append((text, ((b.reshape(mask, *wide), wide),)))
        rules.may_hide_all = True
    y, weights = attended(b, names[0], key, value, h, rules)
    b.results[0] = y if len(b.shape(0)) == 4 else joined_heads(b, y, h)
    _probabilities(b, 3, weights, is_softmax=b.call.integer("qk_matmul_output_mode", 0) == 3)


def _packed_rows(b: Body, batch: int, tokens: int, hidden: int, heads: int, key_heads: int) -> _Rows:
    """Queries, keys and values, of operands of their own or all in the first."""
    if not b.has(1):
        total = heads + 2 * key_heads
        b.expect(hidden % total == 0, f"{hidden} features do not fall into {total} heads")
        size = hidden // total
        packed = split_heads(b, b.name(0), batch, total, size, tokens)
        ends = (0, heads, heads + key_heads, total)
        q, k, v = (b.slice(packed, 1, start, end) for start, end in pairwise(ends))
        return _Rows(q, k, v, tokens, size, size)
    size, value_size = hidden // heads, b.shape(2, 3)[2] // key_heads
    for place, count, each in ((0, heads, size), (1, key_heads, size), (2, key_heads, value_size)):
        found, wanted = b.shape(place, 3), (batch, tokens, count * each)
        b.expect(found == wanted, f"operand {place} has the shape {[*found]}, not {[*wanted]}")
    q = split_heads(b, b.name(0), batch, heads, size, tokens)
    k = split_heads(b, b.name(1), batch, key_heads, size, tokens)
    return _Rows(q, k, split_heads(b, b.name(2), batch, key_heads, value_size, tokens), tokens, size, value_size)


def _length(b: Body, capacity: int, tokens: int) -> int:
    """Positions that are seen: cached and new ones."""
    lengths, total = b.numbers(5), b.numbers(6)
    if lengths is not None and lengths.size:
        longest = int(lengths.max()) + 1
        if int(lengths.min()) + 1 == longest or longest == tokens:
            return longest
        raise NotExpressible("its sequences have different lengths")
    if total is not None and total.size == 1:
        return int(total.reshape(-1)[0])
    return capacity + tokens


def _probabilities(b: Body, place: int, weights: str, is_softmax: bool) -> None:
    """The probabilities as a result, where that is asked for and is them."""
    if b.call.is_used(place) and not is_softmax:
        raise NotExpressible("it gives scores, too")
    b.results[place] = weights


def multi_head_attention(b: Body) -> None:
    """MultiHeadAttention: queries of one operand, keys and values of others, or packed, or cached by another layer."""
    heads = b.positive("num_heads")
    if b.has(9):
        raise NotExpressible("it looks up beams (cache_indirection)")
    b.expect(len(b.shape(0)) in (3, 5), f"queries have the shape {[*b.shape(0)]}")
    batch, tokens = b.shape(0)[:2]
    rows = _separate_rows(b, batch, tokens, heads)
    past = b.name(6) if b.has(6) else None
    capacity = b.shape(6, 4)[2] if b.has(6) else 0
    first = capacity
    if b.has(8):
        if (known := b.numbers(8)) is None or known.size != 1:
            raise NotExpressible("the number of cached rows is not known", _GIVE)
        first = int(known.reshape(-1)[0])
        b.expect(0 <= first <= capacity - rows.tokens, f"{first} rows and {rows.tokens} new ones are not in {capacity}")
    seen = first + rows.tokens
    k, b.results[1] = cached(b, past, rows.k, first, capacity, rows.tokens)
    v, b.results[2] = cached(b, b.name(7) if b.has(7) else None, rows.v, first, capacity, rows.tokens)
    h = Heads(batch, heads, heads, tokens, seen, rows.size, rows.value_size)
    rules = Rules(b.call.number("scale", 0.0), first=seen - tokens if b.call.integer("unidirectional", 0) else None)
    _mask(b, 4, h, rules)
    if b.has(5):
        rules.masks.append(("a + b", ((b.name(5), b.shape(5, 4)),)))
    y, weights = attended(b, rows.q, k, v, h, rules)
    b.results[0] = joined_heads(b, y, h)
    _probabilities(b, 3, weights, is_softmax=True)


_GIVE = "give the value of an input, by which it is known: --value NAME=VALUE"


def _separate_rows(b: Body, batch: int, tokens: int, heads: int) -> _Rows:
    """Queries, keys and values of MultiHeadAttention, with their bias."""
    if len(b.shape(0)) == 5:  # [batch, tokens, heads, 3, size]
        size = b.shape(0)[4]
        b.expect(b.shape(0) == (batch, tokens, heads, 3, size), f"{[*b.shape(0)]} is not packed for {heads} heads")
        parts = b.transpose(b.name(0), 0, 2, 1, 3, 4)
        q, k, v = (b.op("Squeeze", b.slice(parts, 3, i, i + 1), b.integers(3)) for i in range(3))
        return _biased(b, _Rows(q, k, v, tokens, size, size), heads)
    hidden = b.shape(0, 3)[2]
    b.expect(hidden % heads == 0, f"{hidden} features do not fall into {heads} heads")
    size = hidden // heads
    q = split_heads(b, b.name(0), batch, heads, size, tokens)
    keys = b.shape(1)
    if len(keys) == 5:  # [batch, positions, heads, 2, size]
        b.expect(keys[2:] == (heads, 2, size), f"{[*keys]} is not packed for {heads} heads of {size}")
        parts = b.transpose(b.name(1), 0, 2, 1, 3, 4)
        k, v = (b.op("Squeeze", b.slice(parts, 3, i, i + 1), b.integers(3)) for i in range(2))
        return _biased(b, _Rows(q, k, v, keys[1], size, size), heads)
    values = b.shape(2, len(keys))
    if len(keys) == 4:  # rows of another layer, [batch, heads, positions, size]
        b.expect(keys[:2] == (batch, heads) and keys[3] == size, f"{[*keys]} does not fit {heads} heads of {size}")
        return _biased(b, _Rows(q, b.name(1), b.name(2), keys[2], size, values[3]), heads)
    b.expect(len(keys) == 3 and keys[0] == batch and keys[2] == hidden, f"{[*keys]} does not fit {[*b.shape(0)]}")
    b.expect(values[2] % heads == 0, f"{values[2]} features do not fall into {heads} heads")
    k = split_heads(b, b.name(1), batch, heads, size, keys[1])
    v = split_heads(b, b.name(2), batch, heads, values[2] // heads, values[1])
    return _biased(b, _Rows(q, k, v, keys[1], size, values[2] // heads), heads)


def _biased(b: Body, rows: _Rows, heads: int) -> _Rows:
    """The rows plus a bias for each feature of queries, keys and values, one behind another in one operand."""
    if not b.has(3):
        return rows
    sizes = (heads * rows.size, heads * rows.size, heads * rows.value_size)
    b.expect(b.shape(3) == (sum(sizes),), f"a bias of the shape {[*b.shape(3)]} does not have {sum(sizes)} numbers")

    def biased(i: int, value: str) -> str:
        start = sum(sizes[:i])
        bias = b.reshape(b.slice(b.name(3), 0, start, start + sizes[i]), heads, 1, sizes[i] // heads)
        return b.map("a + b", value, bias, label="biased")

    return replace(rows, q=biased(0, rows.q), k=biased(1, rows.k), v=biased(2, rows.v))


def _mask(b: Body, place: int, h: Heads, rules: Rules) -> None:
    """Hide positions by a mask, in one of the forms of ONNX Runtime: 0 for each that is hidden, or lengths."""
    if not b.has(place):
        return
    shape, name = b.shape(place), b.name(place)
    low = f"a + ({b.call.number('mask_filter_value', -10000.0)!r})"
    shown = f"select(less(0, b), a, {low})"
    columns = b.numbered(0, h.seen), (h.seen,)
    four = (h.batch, 1, 1, 1)
    if shape == (h.batch,):
        rules.masks.append((f"select(less(c, b), a, {low})", ((b.reshape(name, *four), four), columns)))
    elif shape == (2 * h.batch,):
        ends, starts = (b.reshape(b.slice(name, 0, i * h.batch, (i + 1) * h.batch), *four) for i in range(2))
        rules.masks.append((f"select(less(c, b), a, {low})", ((ends, four), columns)))
        rules.masks.append((f"select(less(c, b), {low}, a)", ((starts, four), columns)))
    elif shape == (h.batch, h.seen):
        raw = (h.batch, 1, 1, h.seen)
        rules.masks.append((shown, ((b.reshape(name, *raw), raw),)))
    elif shape == (h.batch, h.tokens, h.seen):
        raw = (h.batch, 1, h.tokens, h.seen)
        rules.masks.append((shown, ((b.reshape(name, *raw), raw),)))
    else:
        raise NotExpressible(f"its mask has the shape {short([*shape], 40)}")


def attention(b: Body) -> None:
    """Attention of ONNX Runtime: one weight gives queries, keys and values."""
    b.refuse("do_rotary", "past_present_share_buffer")
    heads = b.positive("num_heads")
    batch, tokens, _ = b.shape(0, 3)
    total = b.shape(1, 2)[1]
    sizes = b.call.integers("qkv_hidden_sizes") or [total // 3] * 3
    b.expect(len(sizes) == 3 and sum(sizes) == total and min(sizes) > 0, f"{sizes} are not parts of {total} features")
    fits = sizes[0] == sizes[1] and all(size % heads == 0 for size in sizes)
    b.expect(fits, f"{sizes} features do not fall into {heads} heads")
    packed = b.plus(b.op("MatMul", b.name(0), b.name(1), label="packed"), 2)
    found = []
    for i, size in enumerate(sizes):
        part = b.slice(packed, 2, sum(sizes[:i]), sum(sizes[: i + 1]))
        found.append(split_heads(b, part, batch, heads, size // heads, tokens))
    q, k, v = found
    first = 0
    if b.has(4):
        past = b.shape(4, 5)
        first = past[3]
        if first:
            old = [b.op("Squeeze", b.slice(b.name(4), 0, i, i + 1), b.integers(0)) for i in range(2)]
            k, v = (b.joined(2, before, new) for before, new in zip(old, (k, v), strict=True))
    b.results[1] = b.joined(0, *(b.op("Unsqueeze", value, b.integers(0)) for value in (k, v)))
    h = Heads(batch, heads, heads, tokens, first + tokens, sizes[0] // heads, sizes[2] // heads)
    rules = Rules(b.call.number("scale", 0.0), first=first if b.call.integer("unidirectional", 0) else None)
    _mask(b, 3, h, rules)
    if b.has(5):
        rules.masks.append(("a + b", ((b.name(5), b.shape(5, 4)),)))
    y, _ = attended(b, q, k, v, h, rules)
    b.results[0] = joined_heads(b, y, h)
