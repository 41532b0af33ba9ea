"""LoopTrees from their text: the inverse of `mapping.pretty`; and trees compared as what they mean."""

import re

from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Compute, PerEinsum, Pipeline, Sequential, Spatial, Storage, Temporal, Toll

PATTERNS = {
    "storage": re.compile(r"\[(\S+) holds (.*?)( persistently)?\]"),
    "toll": re.compile(r"\[(.*) through (\S+)\]"),
    "temporal": re.compile(r"for (\{.*?\}|\S+) by (\{.*?\}|\S+)(?: \(first (.*)\))?"),
    "spatial": re.compile(r"spatial-for (\{.*?\}|\S+) by (\{.*?\}|\S+) on (\S+)\.(\S+)"),
    "compute": re.compile(r"compute (\S+) on (\S+)"),
}


def tree(text):
    """The mapping that `pretty` shows as `text`."""
    return Mapping(nodes([line for line in text.splitlines() if line.strip()]))


def nodes(lines):
    found = []
    for number, line in enumerate(lines):
        if line.strip() == "first:":
            return (*found, Sequential(tuple(nodes(branch) for branch in branches(lines[number:]))))
        if line.strip().startswith("pipeline"):
            lanes = line.strip().partition(" side by side on ")[2].split(".")
            stages = tuple(nodes(stage) for stage in branches(lines[number + 1 :]))
            return (*found, Pipeline(stages, *lanes) if len(lanes) > 1 else Pipeline(stages))
        found.append(node(line.strip()))
    return tuple(found)


def branches(lines):
    depth = indent(lines[0])
    found = []
    for line in lines:
        if indent(line) == depth:
            found.append([])
        else:
            found[-1].append(line)
    return found


def indent(line):
    return len(line) - len(line.lstrip())


def node(line):
    kind, match = next((k, m) for k, p in PATTERNS.items() if (m := p.fullmatch(line)))
    match kind:
        case "storage":
            return Storage(tuple(match[2].split(", ")), match[1], match[3] is not None)
        case "toll":
            return Toll(tuple(match[1].split(", ")), match[2])
        case "temporal":
            return Temporal(each(match[1]), each(match[2], int), each(match[3], int) if match[3] else PerEinsum())
        case "spatial":
            return Spatial(each(match[1]), each(match[2], int), match[3], match[4])
        case "compute":
            return Compute(match[1], match[2])


def each(text, kind=str):
    if not text.startswith("{"):
        return PerEinsum(kind(text))
    pairs = [pair.split(": ") for pair in text[1:-1].split(", ")]
    return PerEinsum(by_einsum=tuple((name, kind(value)) for name, value in pairs))


def meaning(mapping):
    """What a mapping says, whatever the order of storage nodes of different tensors at one position.

    Two mappings of equal meaning have the same loops, branches and holders of each tensor in the same places.
    """
    return _meaning(mapping.nodes)


def _meaning(listed):
    found, run = [], {}
    for each_node in listed:
        if isinstance(each_node, Storage | Toll):
            for tensor in each_node.tensors:
                kind = type(each_node).__name__, each_node.component, getattr(each_node, "persistent", False)
                run.setdefault(tensor, []).append(kind)
            continue
        found.append(sorted(run.items()))
        run = {}
        found.append(_loop_meaning(each_node, einsums(listed)))
    return found


def _loop_meaning(each_node, below):
    if isinstance(each_node, Sequential):
        return [_meaning(branch) for branch in flat(each_node)]
    if isinstance(each_node, Temporal | Spatial):
        of = [each_node.rank_variable.of, each_node.tile_shape.of]
        if isinstance(each_node, Temporal):
            of.append(each_node.initial_tile_shape.of)
        lanes = (each_node.component, each_node.name) if isinstance(each_node, Spatial) else None
        return [(name, *(value(name) for value in of)) for name in below], lanes
    return each_node


def flat(split):
    """The branches; a split that is all of a branch stands for its own."""
    for branch in split.branches:
        yield from flat(branch[0]) if isinstance(branch[0], Sequential) else [branch]


def einsums(listed):
    last = listed[-1]
    if isinstance(last, Sequential):
        return [name for branch in last.branches for name in einsums(branch)]
    return [last.einsum]
