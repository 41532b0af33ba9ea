"""Rotary embeddings (Su et al., arXiv 2104.09864): pairs of features are turned by angles of their position."""

from __future__ import annotations

from einmap.frontends.onnx.composed.body import Body


def turned(b: Body, value: str, shape: tuple[int, ...], angles: tuple[str, str], *, interleaved: bool) -> str:
    """A value of the shape [batch, heads, tokens, size] turned in its first features; `angles`: cosines and sines of
    the shape [batch or 1, tokens, pairs].

    Pairs are the two halves, or with `interleaved` neighbours.
    """
    pairs = shape[-1] // 2
    b.expect(shape[-1] == 2 * pairs and min(shape) > 0, f"{[*shape]} does not fall into pairs")
    rows = [*shape[:-1], pairs, 2] if interleaved else [*shape[:-1], 2, pairs]
    axis = 4 if interleaved else 3
    x = b.reshape(value, *rows)
    first, second = (b.slice(x, axis, i, i + 1) for i in range(2))
    other = b.joined(axis, b.op("Neg", second), first)
    cosine, sine = (b.op("Unsqueeze", a, b.integers(1, axis)) for a in angles)
    y = b.map("a * b + c", other, sine, b.map("a * b", x, cosine), label="turned")
    return b.reshape(y, *shape)


def partly_turned(
    b: Body, value: str, shape: tuple[int, ...], angles: tuple[str, str], pairs: int, *, interleaved: bool
) -> str:
    """As `turned`, where the features behind the first pairs stay as they are."""
    size = shape[-1]
    if 2 * pairs == size:
        return turned(b, value, shape, angles, interleaved=interleaved)
    first = b.slice(value, 3, 0, 2 * pairs)
    rest = b.slice(value, 3, 2 * pairs, size)
    return b.joined(3, turned(b, first, (*shape[:-1], 2 * pairs), angles, interleaved=interleaved), rest)


def angles_at(b: Body, caches: tuple[int, int], start: int, tokens: int) -> tuple[str, str]:
    """Cosines and sines at positions from `start` on, of operands that have a row for each position."""
    names = []
    for place in caches:
        rows, _ = b.shape(place, 2)
        b.expect(start + tokens <= rows, f"position {start + tokens - 1} is beyond the {rows} rows of operand {place}")
        names.append(b.op("Unsqueeze", b.slice(b.name(place), 0, start, start + tokens), b.integers(0)))
    return names[0], names[1]


def angles_looked_up(b: Body, caches: tuple[int, int], positions: str) -> tuple[str, str]:
    """Cosines and sines at positions of the shape [batch, tokens], of operands with a row for each position."""
    cosine, sine = (b.op("Gather", b.name(place), positions, axis=0, label="angles") for place in caches)
    return cosine, sine


def rotary(b: Body) -> None:
    """RotaryEmbedding of ONNX Runtime: positions as one number, from which they go on, or for each token."""
    b.refuse("is_packed_batching")
    shape, cache = b.shape(0), b.shape(2, 2)
    interleaved = bool(b.call.integer("interleaved", 0))
    scale = b.call.number("scale", 1.0)
    rows = b.call.integer("rotary_embedding_dim", 0) or 2 * cache[1]
    pairs = rows // 2
    b.expect(rows % 2 == 0 and cache[1] == pairs > 0, f"{rows} features are not twice the {cache[1]} of the cache")
    if len(shape) == 4:
        batch, heads, tokens, size = shape
        value = b.name(0)
    else:
        batch, tokens, hidden = b.shape(0, 3)
        heads = b.call.integer("num_heads", 0) or hidden // (2 * cache[1])
        b.expect(heads > 0 and hidden % heads == 0, f"{hidden} features do not fall into {heads} heads")
        size = hidden // heads
        value = b.transpose(b.reshape(b.name(0), batch, tokens, heads, size), 0, 2, 1, 3)
    b.expect(rows <= size, f"{rows} features are turned, a head has {size}")
    where = b.numbers(1)
    positions = b.shape(1)
    if where is not None and where.size == 1 and where.dtype.kind in "iu":
        angles = angles_at(b, (2, 3), int(where.reshape(-1)[0]), tokens)
    elif positions in ((), (1,)):
        steps = b.reshape(b.numbered(0, tokens), 1, tokens)
        angles = angles_looked_up(b, (2, 3), b.map("a + b", b.reshape(b.name(1), 1, 1), steps, label="places"))
    else:
        b.expect(positions == (batch, tokens), f"positions of the shape {[*positions]} are not {[batch, tokens]}")
        angles = angles_looked_up(b, (2, 3), b.name(1))
    y = partly_turned(b, value, (batch, heads, tokens, size), angles, pairs, interleaved=interleaved)
    y = b.times(y, scale)
    b.results[0] = y if len(shape) == 4 else b.reshape(b.transpose(y, 0, 2, 1, 3), *shape)
