"""Input models of the architecture: one class for each node tag."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StrictBool

from einmap.arch.constraint import OPERATORS
from einmap.spec.schema.base import Expression, Input, SetExpression

type Direction = Annotated[str, Field(json_schema_extra={"enum": ["up", "down", "up_and_down"]})]


class ComparisonInput(Input):
    """A limit on rank variables: `{expression: ~m, operator: ==, value: 1}`."""

    expression: SetExpression
    operator: Annotated[str, Field(json_schema_extra={"enum": list(OPERATORS)})]
    value: Expression


class SpatialInput(Input):
    """One fanout dimension."""

    name: str
    fanout: Expression
    may_reuse: SetExpression | None = None
    reuse: SetExpression | None = None
    loop_bounds: list[ComparisonInput] = []
    min_usage: Expression = 0
    usage_scale: Expression = 1
    power_gateable: StrictBool = False


class TensorsInput(Input):
    """Which tensors a holder keeps, and how."""

    keep: SetExpression | None = None
    may_keep: SetExpression | None = None
    back: SetExpression = "Nothing"
    tile_shape: list[ComparisonInput] = []
    no_refetch_from_above: SetExpression = "~All"
    no_resend_to_below: SetExpression = "~All"
    tensor_order_options: list[list[SetExpression]] = []
    force_memory_hierarchy_order: StrictBool = True


class ActionInput(Input):
    """One action; `latency` and `latency_scale` are the older names of 1/throughput."""

    name: str
    energy: Expression | None = None
    energy_scale: Expression = 1
    latency: Expression | None = None
    latency_scale: Expression | None = None
    throughput: Expression | None = None
    throughput_scale: Expression | None = None
    bits_per_action: Expression | None = None
    values_per_action: dict[str, Expression] = {}
    extra_attributes_for_component_model: dict[str, Any] = {}


class ContainerInput(Input):
    """`!Container` or the older `!Fanout`."""

    name: str
    spatial: list[SpatialInput] = []


class ComponentInput(ContainerInput):
    """What memories, tolls and computes share."""

    component_class: str | None = None
    component_model: Any = None
    component_modeling_log: list[str] = []
    actions: list[ActionInput] = []
    enabled: Expression = True
    area: Expression | None = None
    area_scale: Expression = 1
    total_area: Expression | None = None
    leak_power: Expression | None = None
    leak_power_scale: Expression = 1
    total_leak_power: Expression | None = None
    energy_scale: Expression = 1
    throughput_scale: Expression | None = None
    latency_scale: Expression | None = None
    actions_scale: Expression = 1
    n_parallel_instances: Expression = 1
    total_latency: Expression | None = None
    extra_attributes_for_component_model: dict[str, Any] = {}


class CarrierInput(ComponentInput):
    """What memories, tolls and networks share: actions for values."""

    bits_per_action: Expression | None = None
    values_per_action: dict[str, Expression] = {}
    bits_per_value: dict[str, Expression] = {}
    bits_per_value_scale: dict[str, Expression] = {}


class HolderInput(CarrierInput):
    """What memories and tolls share."""

    tensors: TensorsInput = TensorsInput()


class MemoryInput(HolderInput):
    """`!Memory`."""

    size: Expression
    skip_initial_output_write: StrictBool = True


class TollInput(HolderInput):
    """`!Toll`."""

    direction: Direction | dict[str, Direction]


class NetworkInput(CarrierInput):
    """`!Network`."""

    topology: Annotated[str, Field(json_schema_extra={"enum": ["mesh", "all_to_all"]})] = "mesh"


class ComputeInput(ComponentInput):
    """`!Compute`."""

    skip_initial_output_write: StrictBool = True


class ForkInput(Input):
    """`!Fork`; `name` is a label only."""

    name: str | None = None
    forked_power_gateable: StrictBool = False
    non_forked_power_gateable: StrictBool = False


class HierarchicalInput(Input):
    """`!Hierarchical`."""

    name: str | None = None


class ArchInput(Input):
    """The top-level key `arch`, its nodes apart."""

    variables: dict[str, Any] = {}
    extra_attributes_for_all_component_models: dict[str, Any] = Field(default={})


LEAVES: dict[str, type[ContainerInput]] = {
    "Memory": MemoryInput,
    "Toll": TollInput,
    "Network": NetworkInput,
    "Compute": ComputeInput,
    "Container": ContainerInput,
    "Fanout": ContainerInput,
}
BRANCHES: dict[str, type[ForkInput] | type[HierarchicalInput]] = {
    "Fork": ForkInput,
    "Hierarchical": HierarchicalInput,
}
LATER = ("Array",)
"""Tags that are known and not supported yet."""
