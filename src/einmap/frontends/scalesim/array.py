"""The section `arch`: main memory, three buffers, the values that stay in the array, and its units."""

from __future__ import annotations

from dataclasses import dataclass

from einmap.frontends.scalesim.config import Config, Dataflow

CLOCK = "CLOCK"
DRAM, COMPUTE, ARRAY, STATIONARY = "DRAM", "MAC", "Array", "Stationary"
BUFFERS = {"input": "IfmapSram", "weight": "FilterSram", "output": "OfmapSram"}


@dataclass(frozen=True, slots=True)
class Flow:
    """A dataflow: the role that stays in the array, and the rank variables along rows and columns, and in time.

    `rows_reuse`, `columns_reuse`: the role that the units of a column, or of a row, have in common. `loading`: whether
    the rows pass the values that stay before each fold.
    """

    stays: str
    rows: str
    columns: str
    time: str
    rows_reuse: str
    columns_reuse: str
    loading: bool

    def waiting(self, config: Config) -> int:
        """Cycles of a fold beyond those of its operations: values on their way, and those that stay coming in."""
        return config.rows + config.columns - 2 + (config.rows if self.loading else 0)


FLOWS: dict[Dataflow, Flow] = {
    "ws": Flow("weight", "k", "n", "m", "output", "input", True),
    "is": Flow("input", "k", "m", "n", "output", "weight", True),
    "os": Flow("output", "m", "n", "k", "weight", "input", False),
}


def architecture(config: Config, bits: int) -> dict[str, object]:
    """The section `arch`. A fold begins when the one before has left: `Stationary` is filled while nothing works."""
    flow = FLOWS[config.dataflow]
    words = config.words_per_cycle or (0, 0, 0)
    main = {"read": 0, "write": words[2]}
    sizes = {"input": config.input_bytes, "weight": config.weight_bytes, "output": config.output_bytes}
    filled = {"input": words[0], "weight": words[1], "output": 0}

    def memory(name: str, size: object, keep: str, words: dict[str, int], **others: object) -> dict[str, object]:
        actions = [
            {"name": action, "throughput": f"{limit} * {bits} * {CLOCK}" if limit else float("inf")}
            for action, limit in words.items()
        ]
        tensors = {"keep": keep, "force_memory_hierarchy_order": False}
        node = {"type": "Memory", "name": name, "component_class": "Dummy", "size": size, **others}
        return {**node, "tensors": tensors, "actions": actions}

    def buffer(role: str) -> dict[str, object]:
        filling = {"read": 0, "write": filled[role]}
        return memory(BUFFERS[role], f"{sizes[role]} * 8", role, filling, buffering="double")

    stationary = memory(
        STATIONARY,
        f"{config.rows} * {config.columns} * {bits}",
        flow.stays,
        {"read": 0, "write": 0},
        buffering="single",
    )
    write = stationary["actions"][1]  # type: ignore[index]
    write["startup"] = f"{flow.waiting(config)} / {CLOCK}"
    array = {
        "type": "Container",
        "name": ARRAY,
        "spatial": [
            {"name": "columns", "fanout": config.columns, "may_reuse": flow.columns_reuse},
            {"name": "rows", "fanout": config.rows, "may_reuse": flow.rows_reuse},
        ],
    }
    unit = {
        "type": "Compute",
        "name": COMPUTE,
        "component_class": "Dummy",
        "actions": [{"name": "compute", "throughput": CLOCK}],
    }
    streamed = [buffer(role) for role in BUFFERS if role != flow.stays]
    nodes = [memory(DRAM, float("inf"), "All", main), buffer(flow.stays), stationary, *streamed, array, unit]
    return {"variables": {CLOCK: 1e9}, "nodes": nodes}
