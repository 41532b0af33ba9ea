"""Tiles written out in a format, position by position: what they take is the length of what is written."""

from itertools import product


def encoded(fmt, tile):
    """Values and bits of metadata of a tile (an array of booleans), written as nested lists level by level."""
    written = {"bits": 0, "values": 0}
    _fiber(fmt.levels, tile, {}, written)
    return written["values"], written["bits"]


def _fiber(levels, tile, at, written):
    if not levels:
        written["values"] += 1
        return
    level = levels[0]
    inside = []
    for indices in product(*(range(tile.shape[rank]) for rank in level.ranks)):
        here = {**at, **dict(zip(level.ranks, indices, strict=True))}
        inside.append((here, bool(tile[tuple(here.get(rank, slice(None)) for rank in range(tile.ndim))].any())))
    filled = [here for here, full in inside if full]
    if level.kind == "B":
        written["bits"] += len(inside)
    elif level.kind in ("CP", "RLE"):
        written["bits"] += level.bits * len(filled)
    elif level.kind == "UOP":
        written["bits"] += level.bits * (len(inside) + 1)
    for here in [h for h, _ in inside] if level.kind == "U" else filled:
        _fiber(levels[1:], tile, here, written)
