"""The mapping that a dataflow stands for: folds one after another, and what streams through the array in each."""

from __future__ import annotations

from collections.abc import Mapping

from einmap.frontends.scalesim.array import ARRAY, BUFFERS, COMPUTE, DRAM, FLOWS, STATIONARY, Flow
from einmap.frontends.scalesim.config import Config
from einmap.frontends.scalesim.topology import Layer

type Nodes = list[dict[str, object]]
RANKS = {"input": "mk", "weight": "kn", "output": "mn"}


def tensors(layer: Layer) -> dict[str, str]:
    """The tensors of a layer by role."""
    return {"input": f"I_{layer.name}", "weight": f"W_{layer.name}", "output": layer.name}


def mapping(layers: tuple[Layer, ...], config: Config) -> tuple[dict[str, object], tuple[str, ...]]:
    """The section `mapping`, and roles whose buffer is too small for one fold of the array."""
    small = tuple(role for role in BUFFERS if _least(role, config) > _half(role, config))
    branches = [] if small else [_layer(layer, config) for layer in layers]
    if len(branches) == 1:
        return {"nodes": branches[0]}, small
    everywhere = [name for layer in layers for name in tensors(layer).values()]
    above = {"type": "Storage", "component": DRAM, "tensors": everywhere}
    inner = [{"type": "Nested", "nodes": branch[1:]} for branch in branches]
    return {"nodes": [above, {"type": "Sequential", "nodes": inner}]}, small


def _half(role: str, config: Config) -> int:
    """Words that a buffer holds while its other half is filled; a word is a byte."""
    return {"input": config.input_bytes, "weight": config.weight_bytes, "output": config.output_bytes}[role] // 2


def _lanes(config: Config) -> dict[str, int]:
    flow = FLOWS[config.dataflow]
    return {flow.rows: config.rows, flow.columns: config.columns, flow.time: 1}


def _least(role: str, config: Config) -> int:
    lanes = _lanes(config)
    return lanes[RANKS[role][0]] * lanes[RANKS[role][1]]


def _layer(layer: Layer, config: Config) -> Nodes:
    """Nodes of one layer.

    A tensor that strips of columns would read again is read once where its buffer has more than room for it. Of others
    a buffer has what a fold needs in as many steps as all have room for.
    """
    flow, size, names, lanes = FLOWS[config.dataflow], layer.product, tensors(layer), _lanes(config)
    whole: list[str] = []
    kept: list[str] = []
    for role, ranks in RANKS.items():
        words = size[ranks[0]] * size[ranks[1]]
        if role in (flow.stays, "output"):
            continue
        if flow.columns in ranks:
            strip = words if size[flow.columns] <= config.columns else config.columns * size[flow.time]
            if flow.stays == "output" and strip < _half(role, config):
                kept.append(role)
        elif size[flow.columns] > config.columns and words < _half(role, config):
            whole.append(role)
    streamed = [role for role in BUFFERS if role != flow.stays and role not in (*whole, *kept)]
    steps = min([size[flow.time], *(_half(role, config) // _across(role, flow, lanes) for role in streamed)])

    nodes: Nodes = [{"type": "Storage", "component": DRAM, "tensors": list(names.values())}]

    def hold(roles: list[str]) -> None:
        nodes.extend({"type": "Storage", "component": BUFFERS[r], "tensors": [names[r]]} for r in roles)

    def loop(variable: str, shape: int) -> None:
        if shape < size[variable]:
            nodes.append({"type": "Temporal", "rank_variable": layer.variable(variable), "tile_shape": shape})

    hold(whole)
    loop(flow.columns, lanes[flow.columns])
    hold(kept)
    loop(flow.rows, lanes[flow.rows])
    hold([flow.stays])
    nodes.append({"type": "Storage", "component": STATIONARY, "tensors": [names[flow.stays]]})
    loop(flow.time, steps)
    hold(streamed)
    for variable, dimension in ((flow.columns, "columns"), (flow.rows, "rows")):
        spread = {"type": "Spatial", "rank_variable": layer.variable(variable), "tile_shape": 1}
        nodes.append({**spread, "component": ARRAY, "name": dimension})
    nodes.append({"type": "Temporal", "rank_variable": layer.variable(flow.time), "tile_shape": 1})
    nodes.append({"type": "Compute", "einsum": layer.name, "component": COMPUTE})
    return nodes


def _across(role: str, flow: Flow, lanes: Mapping[str, int]) -> int:
    """Words of a role in one step of a fold."""
    return lanes[next(variable for variable in RANKS[role] if variable != flow.time)]
