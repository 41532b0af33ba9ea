"""A rewrite written as one line: `sink A@GLB below m`."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as MappingOf

from einmap.einsum.workload import Workload
from einmap.errors import At, EinmapError, MappingError, did_you_mean, raise_all
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import format_address
from einmap.mapping.recurrences import check_recurrences
from einmap.mapping.rewrite.branches import distribute, merge
from einmap.mapping.rewrite.loops import Shape, fuse, interchange, serialise, split, spread, tile
from einmap.mapping.rewrite.stages import group, pipeline, sequence, ungroup
from einmap.mapping.rewrite.storage import bypass, hoist, keep, sink
from einmap.mapping.rewrite.tiles import initial, reshape

type Words = list[str]

USAGE: MappingOf[str, str] = {
    "interchange": "interchange LOOP [LOOP ...]",
    "split": "split LOOP SHAPE",
    "fuse": "fuse LOOP",
    "tile": "tile LOOP SHAPE [LOOP SHAPE ...]",
    "reshape": "reshape LOOP SHAPE",
    "initial": "initial LOOP SHAPE|none",
    "spread": "spread LOOP COMPONENT.DIMENSION",
    "serialise": "serialise LOOP",
    "hoist": "hoist TENSOR@MEMORY [above LOOP]",
    "sink": "sink TENSOR@MEMORY [below LOOP]",
    "bypass": "bypass TENSOR@MEMORY",
    "keep": "keep TENSOR@MEMORY above|below LOOP",
    "merge": "merge [SPLIT [BRANCH BRANCH ...]]",
    "distribute": "distribute LOOP",
    "group": "group SPLIT BRANCH BRANCH ...",
    "ungroup": "ungroup SPLIT",
    "pipeline": "pipeline [SPLIT [COMPONENT.DIMENSION]]",
    "sequence": "sequence [SPLIT]",
}
"""How each rewrite is written."""


def rewritten(mapping: Mapping, workload: Workload, text: str) -> Mapping:
    """The mapping after the rewrite that `text` names, for example `split m 8` or `hoist A@GLB above k#2`.

    Loops are named by rank variable (`m`, `m#2`) or address (`nodes[3]`), tile shapes are numbers or one for each
    Einsum (`T:2,Y:4`). Raises MappingError when the text cannot be read or the rewrite does not apply.
    """
    name, *words = text.split() or [""]
    if name not in _APPLY:
        hint = did_you_mean(name, USAGE, listing="rewrites")
        raise MappingError(f"{text!r} is not a rewrite", hint=hint)
    try:
        change = _APPLY[name](words)
    except (ValueError, IndexError):
        raise MappingError(f"{text!r} cannot be read", hint=f"write {USAGE[name]}") from None
    changed = change(mapping, workload)
    problems: list[EinmapError] = []
    check_recurrences(changed, workload, lambda address: At(path=f"mapping.{format_address(address)}"), problems)
    raise_all(problems)
    return changed


type Change = Callable[[Mapping, Workload], Mapping]


def _interchange(words: Words) -> Change:
    _need(len(words) > 0)
    return lambda mapping, _: interchange(mapping, *words)


def _split(words: Words) -> Change:
    loop, shape = words
    tile_shape = _shape(shape)
    return lambda mapping, _: split(mapping, loop, tile_shape)


def _fuse(words: Words) -> Change:
    (loop,) = words
    return lambda mapping, _: fuse(mapping, loop)


def _tile(words: Words) -> Change:
    _need(len(words) > 0)
    shapes = {loop: _shape(shape) for loop, shape in zip(words[::2], words[1::2], strict=True)}
    _need(2 * len(shapes) == len(words))
    return lambda mapping, _: tile(mapping, shapes)


def _reshape(words: Words) -> Change:
    loop, shape = words
    tile_shape = _shape(shape)
    return lambda mapping, workload: reshape(mapping, workload, loop, tile_shape)


def _spread(words: Words) -> Change:
    loop, dimension = words
    return lambda mapping, _: spread(mapping, loop, dimension)


def _serialise(words: Words) -> Change:
    (loop,) = words
    return lambda mapping, _: serialise(mapping, loop)


def _hoist(words: Words) -> Change:
    storage, above = words[0], _after("above", words[1:])
    return lambda mapping, workload: hoist(mapping, workload, storage, above=above)


def _sink(words: Words) -> Change:
    storage, below = words[0], _after("below", words[1:])
    return lambda mapping, workload: sink(mapping, workload, storage, below=below)


def _bypass(words: Words) -> Change:
    (storage,) = words
    return lambda mapping, workload: bypass(mapping, workload, storage)


def _keep(words: Words) -> Change:
    storage, side, place = words
    _need(side in ("above", "below"))
    above, below = (place, None) if side == "above" else (None, place)
    return lambda mapping, workload: keep(mapping, workload, storage, above=above, below=below)


def _merge(words: Words) -> Change:
    where = words[0] if words else None
    branches = [int(word) for word in words[1:]] or None
    return lambda mapping, workload: merge(mapping, workload, where, branches)


def _distribute(words: Words) -> Change:
    (loop,) = words
    return lambda mapping, _: distribute(mapping, loop)


def _initial(words: Words) -> Change:
    loop, shape = words
    tile_shape = None if shape == "none" else _shape(shape)
    return lambda mapping, workload: initial(mapping, workload, loop, tile_shape)


def _group(words: Words) -> Change:
    where, *numbers = words
    branches = [int(word) for word in numbers]
    _need(len(branches) > 1)
    return lambda mapping, _: group(mapping, where, branches)


def _ungroup(words: Words) -> Change:
    (where,) = words
    return lambda mapping, _: ungroup(mapping, where)


def _pipeline(words: Words) -> Change:
    _need(len(words) <= 2)
    where, dimension = (*words, None, None)[:2]
    return lambda mapping, workload: pipeline(mapping, workload, where, dimension)


def _sequence(words: Words) -> Change:
    _need(len(words) <= 1)
    where = words[0] if words else None
    return lambda mapping, _: sequence(mapping, where)


def _after(side: str, words: Words) -> str | None:
    if not words:
        return None
    said, place = words
    _need(said == side)
    return place


def _need(condition: bool) -> None:
    if not condition:
        raise ValueError


def _shape(text: str) -> Shape:
    if text.isdecimal():
        return int(text)
    pairs = [pair.split(":") for pair in text.split(",")]
    return {name: int(number) for name, number in pairs}


_APPLY: MappingOf[str, Callable[[Words], Change]] = {
    "interchange": _interchange,
    "split": _split,
    "fuse": _fuse,
    "tile": _tile,
    "reshape": _reshape,
    "initial": _initial,
    "spread": _spread,
    "serialise": _serialise,
    "hoist": _hoist,
    "sink": _sink,
    "bypass": _bypass,
    "keep": _keep,
    "merge": _merge,
    "distribute": _distribute,
    "group": _group,
    "ungroup": _ungroup,
    "pipeline": _pipeline,
    "sequence": _sequence,
}
