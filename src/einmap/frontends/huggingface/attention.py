"""Attention of new positions to cached ones and to one another: by heads, or by latent rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from einmap.errors import SpecError
from einmap.frontends.huggingface.blocks import linear, normalised
from einmap.frontends.huggingface.description import Attention, Latent
from einmap.frontends.huggingface.einsums import Cascade, Tensor, extent


@dataclass(frozen=True, slots=True)
class Keys:
    """Positions that are attended to: rank variable, bounds beside the query's, and how their tensors are indexed."""

    label: str
    variable: str
    where: tuple[str, ...]
    index: dict[str, str]


def keys_of(w: Cascade, m: str, *, causal: bool, window: int | None, chunk: int | None = None) -> tuple[Keys, ...]:
    """Cached and new positions; `window` and `chunk` as `Attention` has them. Raises SpecError where a window ends
    within a chunk of a prompt that follows a context, and for new positions on both sides of a multiple of `chunk`.
    """
    step = w.step
    cached = step.context if window is None else min(step.context, window - 1)
    if chunk is not None:
        cached = step.context % chunk
        if cached + step.tokens > chunk:
            text = f"{step.tokens} tokens after {step.context}, in layers that see chunks of {chunk} positions apart"
            raise SpecError(text, hint=f"at most {chunk - cached} tokens, up to the end of a chunk")
    if cached and window is not None and step.tokens >= window:
        text = f"a chunk of {step.tokens} tokens after a context, in layers whose window is {window} positions"
        raise SpecError(text, hint=f"at most {window - 1} tokens, or a context of 0")
    n = w.size("n", step.tokens)
    new: list[str] = [f"{n} <= {m}"] if causal and step.tokens > 1 else []
    if window is not None and step.tokens > window:
        new.append(f"{n} > {m} - {window}")
    parts = [Keys("", n, tuple(new), {"m": n})]
    if cached:
        p = w.size("p", cached)
        old = (f"{p} > {m} + {cached - window}",) if window is not None and cached + step.tokens > window else ()
        parts.insert(0, Keys("_cached", p, old, {}))
    return tuple(parts)


def attended(
    w: Cascade,
    keys: Sequence[Keys],
    scores: Sequence[str],
    values: Sequence[Tensor],
    over: Sequence[str],
    sink: Tensor | None = None,
) -> Tensor:
    """Values weighted by the safe softmax of scores over all keys; `scores`: map expressions, one for each kind of
    keys; `over`: rank variables of the queries without their features; `sink`: scores of no key, by rank variables of
    `over`. Divided after the weighting.
    """
    alone = [extent(part.variable) == 1 for part in keys]
    maxima = [
        text if one else f"{w.put(f'S_max{part.label}', over, text, reduction='max', where=part.where)}"
        for part, text, one in zip(keys, scores, alone, strict=True)
    ]
    if sink is not None:
        maxima.append(f"{sink}")
    if len(maxima) > 1:
        largest = maxima[0]
        for other in maxima[1:]:
            largest = f"max({largest}, {other})"
        most = w.put("S_max_all", over, largest, reduction="max")
    elif alone[0]:
        most = w.put("S_max", over, maxima[0], reduction="max")
    else:
        most = Tensor(f"S_max{keys[0].label}{w.suffix}", tuple(over))
    sums: list[str] = []
    weighted: list[str] = []
    made = (*over, values[0].variables[-1])
    for part, text, value, one in zip(keys, scores, values, alone, strict=True):
        e = w.put(f"P{part.label}", (*over, part.variable), f"exp({text} - {most})", where=part.where)
        total = e if one else w.put(f"P_sum{part.label}", over, f"{e}", where=part.where)
        sums.append(f"{total}")
        seen = f"{e} * {value.at(**part.index)}"
        weighted.append(f"{w.put(f'AV{part.label}', made, seen, weight=value, where=part.where)}")
    # few tensors for each Einsum: mappings are many times more with each
    if sink is not None:
        sums.append(f"exp({sink} - {most})")
    total = w.put("P_all", over, " + ".join(sums)) if len(sums) > 1 else total
    return w.put("A", made, f"({' + '.join(weighted)}) / {total}")


def turned(w: Cascade, name: str, x: Tensor) -> Tensor:
    """Rotary embedding: features i and i + half of a head, two ranks of `x`, are turned by an angle of their position.

    The turns of each position are an input, matrices of 2 x 2 (`Turns`). Features that a model does not rotate are
    turned by nothing, in pairs as well: an order of the columns of weights.
    """
    *kept, q, i = x.variables
    r = w.size("r", 2)
    turns = w.input("Turns", "activation", x.variables[1], q, r, i)
    return w.put(name, (*kept, r, i), f"{x} * {turns}")


def attention(w: Cascade, block: Attention, x: Tensor) -> Tensor:
    """Attention by heads: queries in groups that share keys and values, which new rows are appended to."""
    b, m, d = x.variables
    h, g = w.size("h", block.kv_heads), w.size("g", block.heads // block.kv_heads)
    f = w.size("f", block.head)
    e = _pairs(w, block.head) if block.rotary else (w.size("e", block.head),)
    query = linear(w, "Q", x, (d,), (h, g, *e), bias=block.qkv_bias)
    key = linear(w, "K", x, (d,), (h, *e), bias=block.qkv_bias)
    value = linear(w, "V", x, (d,), (h, f), bias=block.qkv_bias)
    if block.qk_norm is not None:
        query = normalised(w, "QN", block.qk_norm, query, len(e) + (2 if block.joint else 0))
        key = normalised(w, "KN", block.qk_norm, key, len(e) + (1 if block.joint else 0))
    if block.rotary:
        query, key = turned(w, "QR", query), turned(w, "KR", key)
    if block.heated:
        query = w.put("QH", query.variables, f"{query} * {w.input('Heat', 'activation', m)}")
    keys = keys_of(w, m, causal=block.causal, window=block.window, chunk=block.chunk)
    scores, values = [], []
    for part in keys:
        p = part.variable
        cached = part.label != ""
        k_rows = w.input("K_cache", "cache", b, p, *key.variables[2:]) if cached else key
        values.append(w.input("V_cache", "cache", b, p, h, f) if cached else value)
        text = f"{query} * {k_rows.at(**part.index)} * {block.scale!r}"
        score = w.put(f"S{part.label}", (b, m, h, g, p), text, weight=k_rows, where=part.where)
        scores.append(f"{score}" if block.cap is None else f"{block.cap!r} * tanh({score} / {block.cap!r})")
    if block.causal:
        w.append("K_new", key.variables, f"{key}")
        w.append("V_new", value.variables, f"{value}")
    sink = w.input("Sink", "parameter", h, g) if block.sinks else None
    result = attended(w, keys, scores, values, (b, m, h, g), sink)
    return linear(w, "O", result, (h, g, f), (d,), bias=block.out_bias)


def latent_attention(w: Cascade, block: Latent, x: Tensor) -> Tensor:
    """Attention by latent rows, which are the cache with the rotated key that all heads share.

    Keys and values of all positions are made from the rows, or the products with their weights are done to the queries
    and results instead (absorbed): what takes fewer products.
    """
    b, m, d = x.variables
    h, e, pairs = w.size("h", block.heads), w.size("e", block.plain), _pairs(w, block.rotated)
    f, k = w.size("f", block.value), w.size("k", block.kv_rank)
    source, of = x, d
    if block.q_rank is not None:
        of = w.size("l", block.q_rank)
        source = normalised(w, "LQN", block.norm, linear(w, "LQ", x, (d,), (of,), bias=block.bias))
    plain = linear(w, "Q", source, (of,), (h, e))
    rotated = turned(w, "QR", linear(w, "QT", source, (of,), (h, *pairs)))
    row = normalised(w, "CN", block.norm, linear(w, "C", x, (d,), (k,), bias=block.bias))
    shared = turned(w, "KR", linear(w, "KT", x, (d,), pairs, bias=block.bias))
    w.append("C_new", row.variables, f"{row}")
    w.append("K_new", shared.variables, f"{shared}")
    to_key, to_value = w.input("WUK", "linear", k, h, e), w.input("WUV", "linear", k, h, f)
    absorbed = _is_absorbed(w, block)
    if absorbed:
        plain = w.put("QL", (b, m, h, k), f"{plain} * {to_key}", weight=to_key)
    keys = keys_of(w, m, causal=True, window=None)
    scores, values = [], []
    for part in keys:
        p, label = part.variable, part.label
        rows, key = row, shared
        if label:
            rows, key = w.input("C_cache", "cache", b, p, k), w.input("K_cache", "cache", b, p, *shared.variables[2:])
        value, against = rows, rows
        if not absorbed:
            at = rows.variables[1]
            against = w.put(f"KU{label}", (b, at, h, e), f"{rows} * {to_key}", weight=to_key)
            value = w.put(f"VU{label}", (b, at, h, f), f"{rows} * {to_value}", weight=to_value)
        over = (b, m, h, p)
        first = w.put(f"SC{label}", over, f"{plain} * {against.at(**part.index)}", weight=against, where=part.where)
        second = w.put(f"SR{label}", over, f"{rotated} * {key.at(**part.index)}", weight=key, where=part.where)
        scores.append(f"({first} + {second}) * {block.scale!r}")
        values.append(value)
    result = attended(w, keys, scores, values, (b, m, h))
    if absorbed:
        result = w.put("AU", (b, m, h, f), f"{result} * {to_value}", weight=to_value)
    return linear(w, "O", result, (h, f), (d,), bias=block.bias)


def _pairs(w: Cascade, size: int) -> tuple[str, str]:
    """Rank variables of the features of a head that are turned in pairs: its halves, and places in a half."""
    return w.size("q", 2), w.size("i", size // 2)


def _is_absorbed(w: Cascade, block: Latent) -> bool:
    """Whether fewer products are needed where weights of keys and values meet queries and results."""
    rows, m = w.step.context + w.step.tokens, w.step.tokens
    features = block.plain + block.value
    return m * block.kv_rank * features + m * rows * 2 * block.kv_rank <= (
        rows * block.kv_rank * features + m * rows * features
    )
