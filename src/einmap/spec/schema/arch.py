"""Input models of the architecture: one class for each node tag."""

from __future__ import annotations

from typing import Annotated, Any, get_args

from pydantic import StrictBool

from einmap.arch.component import Direction as Directions
from einmap.arch.component import Links, Reduction, Topology
from einmap.spec.schema.base import Expression, Input
from einmap.spec.schema.documented import documented, one_of
from einmap.spec.schema.latency import ActionTimingInput, MemoryTimingInput
from einmap.spec.schema.layout import MemoryLayoutInput
from einmap.spec.schema.placement import SpatialInput, TensorsInput

type Direction = Annotated[str, one_of(get_args(Directions.__value__))]


class ActionInput(ActionTimingInput):
    """Cost of one action: reading, writing or passing on bits, computing one point, one hop of a value.

    A memory has the actions `read` and `write`, a toll `read`, a network `hop`, a compute `compute`.
    """

    name: str = documented(
        "Which action it is. Actions that the component needs and that are not written take their costs from "
        "`component_class`; other names are allowed, and never counted.",
        "read",
        default=...,
    )
    energy: Expression | None = documented(
        "Energy of one action, before scales.",
        "10e-12",
        unit="J",
        without="what the model of `component_class` says, or else an error",
    )
    energy_scale: Expression = documented("Factor on the energy of this action.", 1.5, default=1)
    latency: Expression | None = documented(
        "Time of one action: the older dialect's `throughput: 1 / latency`. Of a network's `hop` the time of one "
        "step, beside the throughput of a link.",
        "1 / 64e9",
        unit="s",
        without="`throughput` says it",
    )
    latency_scale: Expression | None = documented(
        "Factor on the latency: the older dialect's way to write `throughput_scale: 1 / latency_scale`.", 2, without="1"
    )
    throughput: Expression | None = documented(
        "How many actions one instance does in a second; `inf` where they take no time. Of a network's `hop`: how "
        "many pass one link. The older dialect writes `latency`.",
        *("8 * 614e9", "inf"),
        unit="actions/s",
        without="what the model of `component_class` says, or else an error",
    )
    throughput_scale: Expression | None = documented(
        "Factor on the throughput of this action. Older dialect: `latency_scale`.", 0.5, without="1"
    )
    bits_per_action: Expression | None = documented(
        "Bits that one action moves. Nothing is rounded: 3 values of 8 bits are 1.5 actions of 16 bits.",
        64,
        unit="bits",
        without="that of the component, or else 1",
    )
    values_per_action: dict[str, Expression] = documented(
        "Values that one action moves, by set of tensors, in place of a number of bits. Newer dialect.",
        {"Inputs": 4, "Other": 2},
        unit="values",
        without="those of the component, or else `bits_per_action` divided by the bits of a value",
        default={},
    )
    extra_attributes_for_component_model: dict[str, Any] = documented(
        "Attributes of this action for the component's model, before those of the component. Expressions of the "
        "action know them by name.",
        {"width": 32},
        default={},
    )


class ContainerInput(Input):
    """`!Container`, in the older dialect `!Fanout`: makes copies of what follows on the path, and costs nothing."""

    name: str = documented(
        "Name of the node, given once in the architecture: letters, digits and `_`. Mappings and expressions of nodes "
        "below use it.",
        "GlobalBuffer",
        default=...,
    )
    spatial: list[SpatialInput] = documented(
        "The fanout of the node, one entry for each dimension: the node itself and all that follows it on the path "
        "are there so many times.",
        [{"name": "X", "fanout": 4}],
        without="one copy",
        default=[],
    )


class ArrayInput(ContainerInput):
    """`!Array`: memories, networks and tolls that are spread over the copies that it makes.

    On the path they come first, then the array's fanout. A memory inside may have a `spatial` of its own along the same
    dimensions, with a `fanout` alone: it is that many units along each of them, and one along the others.
    """


class ComponentInput(ContainerInput):
    """Fields of memories, tolls, networks and computes: costs of one instance, before scales."""

    component_class: str | None = documented(
        "The class of a component model, which gives costs that are not written; `einmap components` lists the "
        "classes and their attributes. With `Dummy`, what is not written costs nothing.",
        *("SRAM", "Dummy"),
        without="all costs have to be written",
    )
    component_model: Any = documented(
        "The name of a Python model that is given beside the files, which goes before `component_class`. In Python "
        "the class or object itself may stand here.",
        "Latches",
        without="`component_class` is asked",
    )
    component_modeling_log: list[str] = documented(
        "Messages of models, in files that other tools write. Read and ignored.", ["64 KiB of SRAM"], default=[]
    )
    actions: list[ActionInput] = documented(
        "What its actions cost, in any order; each name once.",
        [{"name": "read", "energy": "2e-12", "throughput": "64e9"}],
        without="costs of the model of `component_class`, or else an error",
        default=[],
    )
    enabled: Expression = documented(
        "Whether the component is in use, asked for each Einsum: if not, a compute runs nothing, a memory or toll "
        "holds nothing, values pass a network without hops. It has area and leaks all the same.",
        "len(All) == 3",
        default=True,
    )
    area: Expression | None = documented(
        "Area of one instance, before scales. Only reports of area need it.",
        "0.5e-6",
        unit="m^2",
        without="what the model of `component_class` says, or else no area is reported",
    )
    area_scale: Expression = documented("Factor on the area.", 1.2, default=1)
    total_area: Expression | None = documented(
        "Area of all instances, in files that other tools write. Read and ignored: it follows from `area`.",
        2e-6,
        unit="m^2",
        without="computed",
    )
    leak_power: Expression | None = documented(
        "Power that one instance leaks, before scales. It counts during every Einsum, in use or not, but for what is "
        "gated.",
        0.001,
        unit="W",
        without="what the model of `component_class` says, or else an error",
    )
    leak_power_scale: Expression = documented("Factor on the leakage, and on `refresh_power`.", 0.5, default=1)
    total_leak_power: Expression | None = documented(
        "Leakage of all instances, in files that other tools write. Read and ignored: it follows from `leak_power`.",
        0.004,
        unit="W",
        without="computed",
    )
    energy_scale: Expression = documented("Factor on the energy of all actions.", 1.5, default=1)
    throughput_scale: Expression | None = documented(
        "Factor on the throughput of all actions. Older dialect: `latency_scale`.", 2, without="1"
    )
    latency_scale: Expression | None = documented(
        "Factor on the latency of all actions: the older dialect's `throughput_scale: 1 / latency_scale`. Of a "
        "network, a factor on the time of a step.",
        0.5,
        without="1",
    )
    actions_scale: Expression = documented(
        "Factor on the number of all actions, and so on their energy and time. Newer dialect.", 2, default=1
    )
    n_parallel_instances: Expression = documented(
        "Instances that work as one: area, leakage and throughput count times this, the energy of an action does not. "
        "Mappings do not see them.",
        2,
        unit="instances, at least 1",
        default=1,
    )
    total_latency: Expression | None = documented(
        "How long the busiest instance works at one Einsum, computed from its counts: `read_actions`, `read_latency` "
        "(for any action), `action2latency`, `actions` with `n_calls` and `throughput`; of a network also `max_hops` "
        "and `max_link_traffic`.",
        *("max(a.n_calls / a.throughput for a in actions)", "max(read_latency, write_latency)"),
        unit="s",
        without="the sum over all actions, one after another; of a network the larger of `max_hops * latency` and "
        "`max_link_traffic / throughput`",
    )
    extra_attributes_for_component_model: dict[str, Any] = documented(
        "Attributes for the component's model that are not fields here. Expressions of the component know them by "
        "name.",
        {"n_banks": 4},
        default={},
    )


class CarrierInput(ComponentInput):
    """Fields of memories, tolls and networks, whose actions move values."""

    bits_per_action: Expression | None = documented(
        "Bits that one action moves, for actions that do not say it themselves.", 64, unit="bits", without="1"
    )
    values_per_action: dict[str, Expression] = documented(
        "Values that one action moves, by set of tensors, for actions that do not say it. Newer dialect.",
        {"Inputs": 4},
        unit="values",
        without="`bits_per_action` divided by the bits of a value",
        default={},
    )
    bits_per_value: dict[str, Expression] = documented(
        "Bits that one value takes in this component, by set of tensors: for room and for the number of actions. "
        "Older dialect: `bits_per_value_scale`.",
        *({"Outputs": 32}, {"Outputs": "2 * Outputs.bits_per_value"}),
        unit="bits",
        without="those of the workload",
        default={},
    )
    bits_per_value_scale: dict[str, Expression] = documented(
        "Factor on the workload's bits of a value, by set of tensors: the older dialect's `bits_per_value`. A tensor "
        "may be in one of the two only.",
        {"Outputs": 2},
        default={},
    )


class HolderInput(CarrierInput):
    """Fields of memories and tolls, which hold tensors."""

    tensors: TensorsInput = documented(
        "Which tensors are held here, and how.",
        {"keep": "Outputs", "may_keep": "Inputs"},
        without="any tensors, as it is best",
        default=TensorsInput(),
    )


class MemoryInput(HolderInput, MemoryTimingInput, MemoryLayoutInput):
    """`!Memory`: holds tiles of tensors, and pays for reads and writes."""

    size: Expression = documented(
        "Room of one instance; `inf` for no limit. All tiles that it holds at one time have to fit.",
        *("64 * 1024 * 8", "inf"),
        unit="bits",
        default=...,
    )
    skip_initial_output_write: StrictBool = documented(
        "Whether a tile of an output costs nothing to bring in while it holds no results. Under `exact` an exchange "
        "is free if both of its sides have true; under `accelforge` each side counts for itself. Newer dialect.",
        False,
        default=True,
    )


class TollInput(HolderInput):
    """`!Toll`: pays a `read` for values that pass it, and holds nothing over time."""

    direction: Direction | dict[str, Direction] = documented(
        "Which values pay: those that go `down`, those that come `up`, or both (`up_and_down`). One word for all "
        "tensors, or words by set of tensors that cover all of them (newer dialect).",
        *("down", {"Outputs": "up", "Other": "down"}),
        default=...,
    )


class NetworkInput(CarrierInput):
    """`!Network`: pays a `hop` (or `hops`) for each step of a value between memories above it and the lanes below."""

    topology: str = documented(
        "How lanes are joined: `mesh`, values pass from lane to lane along each fanout; `torus`, and round its end; "
        "`ring`, one ring of all lanes; `systolic`, neighbours hand on what they share, the rest comes in by the "
        "edge; `tree`, lanes are the leaves of a binary tree; `bus`, one step for all lanes; `all_to_all`, one step "
        "leads to any lane.",
        "all_to_all",
        words=get_args(Topology.__value__),
        default="mesh",
    )
    multicast: StrictBool = documented(
        "Whether values that lanes share pass a link once. With false each lane gets its own copy.", False, default=True
    )
    reduction: str | None = documented(
        "Whether results of lanes that reduce are added where they meet (`in_network`), or each goes all the way.",
        "at_parent",
        without="`in_network`, of a bus `at_parent`",
        words=get_args(Reduction.__value__),
    )
    links: str = documented(
        "Whether all tensors share the links, or each one has links of its own.",
        "per_tensor",
        words=get_args(Links.__value__),
        default="shared",
    )


class ComputeInput(ComponentInput):
    """`!Compute`: runs Einsums, one `compute` for each point of the iteration space, and ends the path."""

    skip_initial_output_write: StrictBool = documented(
        "Whether the first operation on an output value reads nothing, since it starts as zero. Under `exact` the "
        "innermost memory must have true as well. Newer dialect.",
        False,
        default=True,
    )


class ForkInput(Input):
    """`!Fork`: a side branch of the path that ends in a compute; what follows the fork is not below its nodes."""

    name: str | None = documented("A label; nothing refers to it.", "VectorSide")
    forked_power_gateable: StrictBool = documented(
        "Whether the nodes inside do not leak while an Einsum runs elsewhere. Newer dialect.", True, default=False
    )
    non_forked_power_gateable: StrictBool = documented(
        "Whether nodes after the fork do not leak while an Einsum runs inside. Newer dialect.", True, default=False
    )


class HierarchicalInput(Input):
    """`!Hierarchical`: nodes in a list of their own, which count as if they stood in the list around it."""

    name: str | None = documented("A label; nothing refers to it.", "Core")


class ArchInput(Input):
    """The top-level key `arch`: the hardware as a tree, from the outermost memory to the computes."""

    variables: dict[str, Any] = documented(
        "Values that expressions of `arch` know by name. They are evaluated for each Einsum, may use its tensors, and "
        "go before top-level `variables`.",
        {"ROWS": 16, "word": "2 * 8"},
        default={},
    )
    extra_attributes_for_all_component_models: dict[str, Any] = documented(
        "Attributes that all components have unless they set them in `extra_attributes_for_component_model`.",
        {"n_banks": 4},
        default={},
    )


LEAVES: dict[str, type[ContainerInput]] = {
    "Memory": MemoryInput,
    "Toll": TollInput,
    "Network": NetworkInput,
    "Compute": ComputeInput,
    "Container": ContainerInput,
    "Fanout": ContainerInput,
}
BRANCHES: dict[str, type[ForkInput] | type[HierarchicalInput] | type[ArrayInput]] = {
    "Fork": ForkInput,
    "Hierarchical": HierarchicalInput,
    "Array": ArrayInput,
}
