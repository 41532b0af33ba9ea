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


class Written:
    """A part of a tile written out in a format with blocks or padding, in plain Python: `values` and `bits`.

    `nonzero`: indices of the tile's nonzeros; `tile` and `part`: all indices of the tile, and those of the part.
    """

    def __init__(self, fmt, nonzero, tile, part):
        self.fmt, self.values, self.bits = fmt, 0, 0
        told = [level for level in fmt.levels if level.ranks and not set(level.ranks) <= set(fmt.dense)]
        outside = [rank for level in told for rank in level.ranks]
        blocks = {self.at(e, outside) for e in nonzero}
        is_told = any(level.kind != "U" for level in fmt.levels)
        full = {e for e in tile if not is_told or self.at(e, outside) in blocks}
        self.fiber(0, tile, part, full)

    def parts(self, element):
        """Indices along all parts of ranks."""
        blocks = self.fmt.blocks or [1] * len(element)
        return [n for i, block in zip(element, blocks, strict=True) for n in ([i] if block == 1 else divmod(i, block))]

    def at(self, element, ranks):
        parts = self.parts(element)
        return tuple(parts[rank] for rank in ranks)

    def fiber(self, depth, tile, part, full):
        if depth == len(self.fmt.levels):
            self.values += 1
            return
        level = self.fmt.levels[depth]
        groups: dict = {}
        for e in tile:
            groups.setdefault(self.at(e, level.ranks), []).append(e)
        asked: dict = {}
        for e in part:
            asked.setdefault(self.at(e, level.ranks), []).append(e)
        filled = [c for c, inside in asked.items() if full & set(inside)]
        padding = 0
        if level.kind == "ELL" and (last := max(groups)) in asked:
            below = [rank for further in self.fmt.levels[depth + 1 :] for rank in further.ranks]
            seen = {self.at(e, below) for e in part}
            used = [c for c, inside in groups.items() if any(e in full and self.at(e, below) in seen for e in inside)]
            padding = min(level.entries, len(groups)) - len(used)
        if level.kind == "B":
            self.bits += level.bits * len(asked)
        elif level.kind == "UOP":
            self.bits += level.bits * (len(asked) + 1)
        elif level.kind != "U":
            self.bits += level.bits * (len(filled) + padding)
        for c in asked if level.kind == "U" else filled:
            self.fiber(depth + 1, groups[c], asked[c], full)
        for _ in range(padding):
            self.fiber(depth + 1, groups[last], asked[last], set())
