"""Attention of new positions to cached ones and to one another: by heads, or by latent rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from einmap.errors import SpecError
from einmap.frontends.huggingface.blocks import linear, normalised
from einmap.frontends.huggingface.description import Attention, Index, Latent, Norm
from einmap.frontends.huggingface.einsums import Cascade, Tensor, extent


@dataclass(frozen=True, slots=True)
class Keys:
    """Positions that are attended to: rank variable, bounds beside the query's, and how their tensors are indexed."""

    label: str
    variable: str
    where: tuple[str, ...]
    index: dict[str, str]


@dataclass(frozen=True, slots=True)
class Queries:
    """New positions that attend: rank variables in place of `m`, the position as an index (None: `m`), bounds."""

    variables: tuple[str, ...]
    at: str | None = None
    where: tuple[str, ...] = ()

    def of(self, x: Tensor) -> str:
        """Rows of a tensor by position."""
        return f"{x}" if self.at is None else x.at(m=self.at)


def positions_of(w: Cascade, m: str, block: Attention) -> tuple[Queries, tuple[Keys, ...]]:
    """Queries, and the keys that they see: chunk by chunk where new positions are in several.

    Raises SpecError for steps that begin within a chunk and end in another one, and as `keys_of` does.
    """
    step, chunk = w.step, block.chunk
    if chunk is None:
        return Queries((m,)), keys_of(w, m, causal=block.causal, window=block.window)
    cached = step.context % chunk
    if cached + step.tokens <= chunk:
        return Queries((m,)), keys_of(w, m, causal=True, window=None, cached=cached)
    if cached:
        text = f"{step.tokens} tokens after {step.context}, in layers that see chunks of {chunk} positions apart"
        before = step.context - cached
        hint = (
            f"at most {chunk - cached} tokens, up to the end of a chunk, or a context of {before} or {before + chunk}"
        )
        raise SpecError(text, hint=hint)
    c, s, n = w.size("c", -(-step.tokens // chunk)), w.size("s", chunk), w.size("n", chunk)
    rows = () if step.tokens % chunk == 0 else (f"{chunk}*{c} + {s} < {step.tokens}",)
    keys = Keys("", n, (f"{n} <= {s}", *rows), {"m": f"{chunk}*{c} + {n}"})
    return Queries((c, s), f"{chunk}*{c} + {s}", rows), (keys,)


def keys_of(w: Cascade, m: str, *, causal: bool, window: int | None, cached: int | None = None) -> tuple[Keys, ...]:
    """Cached and new positions; `window` as `Attention` has it, `cached`: how many of those are seen, all by default.

    Raises SpecError where a window ends within a chunk of a prompt that follows a context.
    """
    step = w.step
    if cached is None:
        cached = step.context if window is None else min(step.context, window - 1)
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
    queries: Queries | None = None,
) -> Tensor:
    """Values weighted by the safe softmax of scores over all keys; `scores`: map expressions, one for each kind of
    keys; `over`: rank variables of the queries without their features; `sink`: scores of no key, by rank variables of
    `over`; `queries`: where they are not called by their positions. Divided after the weighting.
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
    divided = f"({' + '.join(weighted)}) / {total}"
    if queries is None or queries.at is None:
        return w.put("A", made, divided)
    others = tuple(v for v in made if v not in queries.variables)
    rows = (others[0], w.size("m", w.step.tokens), *others[1:])
    parts = w.put("A", made, divided, where=queries.where)
    return w.copied("AM", rows, f"{parts}", where=queries.where, out={"m": queries.at})


def turned(w: Cascade, name: str, x: Tensor, by: str = "Turns") -> Tensor:
    """Rotary embedding: features i and i + half of a head, two ranks of `x`, are turned by an angle of their position.

    The turns of each position are an input, matrices of 2 x 2 (`by`). Features that a model does not rotate are
    turned by nothing, in pairs as well: an order of the columns of weights.
    """
    *kept, q, i = x.variables
    r = w.size("r", 2)
    turns = w.input(by, "activation", x.variables[1], q, r, i)
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
    queries, keys = positions_of(w, m, block)
    over = (b, *queries.variables, h, g)
    scores, values = [], []
    for part in keys:
        p = part.variable
        cached = part.label != ""
        k_rows = w.input("K_cache", "cache", b, p, *key.variables[2:]) if cached else key
        values.append(w.input("V_cache", "cache", b, p, h, f) if cached else value)
        text = f"{queries.of(query)} * {k_rows.at(**part.index)} * {block.scale!r}"
        score = w.put(f"S{part.label}", (*over, p), text, weight=k_rows, where=part.where)
        scores.append(f"{score}" if block.cap is None else f"{block.cap!r} * tanh({score} / {block.cap!r})")
    if block.causal:
        w.append("K_new", key.variables, f"{key}")
        w.append("V_new", value.variables, f"{value}")
    sink = w.input("Sink", "parameter", h, g) if block.sinks else None
    result = attended(w, keys, scores, values, over, sink, queries)
    if block.gated:
        gate = linear(w, "QG", x, (d,), (h, g, f), bias=block.qkv_bias)
        result = w.put("AG", result.variables, f"{result} * sigmoid({gate})")
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
    if block.index is not None:
        scored(w, block.index, keys, source, x)
        keys = chosen_keys(w, block.index, keys, b, m)
    scores, values = [], []
    for part in keys:
        p, label = part.variable, part.label
        rows, key = row, shared
        if label:
            old = w.size("p", w.step.context)
            rows, key = (
                w.input("C_cache", "cache", b, old, k),
                w.input("K_cache", "cache", b, old, *shared.variables[2:]),
            )
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


def scored(w: Cascade, block: Index, keys: Sequence[Keys], source: Tensor, x: Tensor) -> None:
    """Scores of all positions for each query, of which the largest are chosen: products of each head, without what is
    below zero, summed with weights of the heads. The choice itself is no Einsum.
    """
    b, m, d = x.variables
    y, pairs = w.size("y", block.heads), _pairs(w, block.head)
    query = turned(w, "IQR", linear(w, "IQ", source, source.variables[-1:], (y, *pairs)), "Index_turns")
    made = normalised(w, "IN", Norm("layer", 1e-6), linear(w, "IK", x, (d,), pairs), 2)
    key = turned(w, "IKR", made, "Index_turns")
    w.append("IK_new", key.variables, f"{key}")
    of_heads = linear(w, "IW", x, (d,), (y,))
    for part in keys:
        p = part.variable
        rows = w.input("IK_cache", "cache", b, p, *key.variables[2:]) if part.label else key
        text = f"{query} * {rows.at(**part.index)} * {block.head**-0.5!r}"
        each = w.put(f"IS{part.label}", (b, m, y, p), text, weight=rows, where=part.where)
        summed = f"relu({each}) * {of_heads} * {block.heads**-0.5!r}"
        w.put(f"I{part.label}", (b, m, p), summed, weight=of_heads, where=part.where)


def chosen_keys(w: Cascade, block: Index, keys: tuple[Keys, ...], b: str, m: str) -> tuple[Keys, ...]:
    """Keys that are chosen, by their places (`Picked`), and a new position itself.

    Raises SpecError for several new positions after a context that do not see all.
    """
    step = w.step
    if step.context + step.tokens <= block.chosen:
        return keys
    if step.context and step.tokens > 1:
        text = f"{step.tokens} tokens after {step.context}, in layers that see {block.chosen} positions by choice"
        raise SpecError(text, hint=f"one token, a context of 0, or up to {block.chosen} positions in all")
    t = w.size("t", block.chosen - 1 if step.context else block.chosen)
    picked = w.input("Picked", "index", b, m, t)
    if step.context:
        return (replace(keys[0], variable=t, index={"p": f"{picked}"}), *keys[1:])
    return (replace(keys[0], variable=t, where=(f"{t} <= {m}",), index={"m": f"{picked}"}),)


def _pairs(w: Cascade, size: int) -> tuple[str, str]:
    """Rank variables of the features of a head that are turned in pairs: its halves, and places in a half."""
    return w.size("q", 2), w.size("i", size // 2)


def _is_absorbed(w: Cascade, block: Latent) -> bool:
    """Whether fewer products are needed where weights of keys and values meet queries and results."""
    rows, m = w.step.context + w.step.tokens, w.step.tokens
    features = block.plain + block.value
    seen = rows if block.index is None else min(rows, block.index.chosen)
    return m * block.kv_rank * features + m * seen * 2 * block.kv_rank <= (
        rows * block.kv_rank * features + m * seen * features
    )
