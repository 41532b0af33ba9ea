"""Input models of the workload and of renames."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, StrictBool, field_validator

from einmap.spec.schema.base import Expression, Input, SetExpression

METRICS = (
    *("LATENCY", "ENERGY", "DYNAMIC_ENERGY", "LEAK_ENERGY", "RESOURCE_USAGE", "ACTIONS", "DETAILED_MEMORY_USAGE"),
    "ENERGY_DELAY_PRODUCT",
)
"""What `model.metrics` may name; their numbers are 1, 2, 4, ..."""


_SHAPE = "an older format called `iteration_space_shape` so: rename it"
_VERSION = "an older format had it: leave it out"


class AccessInput(Input):
    """One tensor of an Einsum."""

    name: str
    projection: list[str] | dict[str, str | int] | None = None
    output: StrictBool | None = None
    persistent: StrictBool = False
    bits_per_value: Expression | None = None
    backing_storage_size_scale: Expression = 1


class RenameInput(Input):
    """A name for a set of tensors or rank variables."""

    name: str
    source: SetExpression
    expected_count: Expression | None = None


class EinsumInput(Input):
    """One Einsum, verbose or with the concise string in `einsum`."""

    former = {"shape": _SHAPE}

    name: str | None = None
    einsum: str | None = None
    tensor_accesses: list[AccessInput] = []
    iteration_space_shape: list[str] = []
    rank_sizes: dict[str, Expression] = {}
    is_copy_operation: StrictBool = False
    renames: dict[str, SetExpression] | list[RenameInput] = []
    n_instances: Expression = 1
    operation: str | None = None
    reduction: str | None = None


class WorkloadInput(Input):
    """The top-level key `workload`, its Einsums apart."""

    former = {"shape": _SHAPE, "version": _VERSION}

    rank_sizes: dict[str, Expression] = {}
    iteration_space_shape: dict[str, str] = {}
    bits_per_value: dict[str, Expression] = {}
    persistent_tensors: SetExpression | None = None
    n_instances: Expression = 1


class EinsumRenamesInput(Input):
    """Renames of one Einsum, or of all under the name `default`."""

    name: str
    tensor_accesses: dict[str, SetExpression] | list[RenameInput] = []
    rank_variables: dict[str, SetExpression] | list[RenameInput] = []


class RenamesInput(Input):
    """The top-level key `renames`."""

    einsums: list[EinsumRenamesInput] = []


class ModelInput(Input):
    """The top-level key `model`."""

    semantics: Annotated[str, Field(json_schema_extra={"enum": ["exact", "accelforge"]})] = "exact"
    sliding_window: StrictBool = False
    metrics: Any = None

    @field_validator("metrics")
    @classmethod
    def _known_metrics(cls, given: Any) -> Any:
        """Names (`ENERGY | LATENCY`, or a list of them) or the sum of their numbers; all are reported anyway."""
        if given is None or (type(given) is int and 0 < given < 2 ** len(METRICS)):
            return given
        parts = given if isinstance(given, list) else [given]
        words = [word.strip() for part in parts if isinstance(part, str) for word in part.split("|")]
        if len(words) < len(parts) or not {word.upper() for word in words} <= {*METRICS}:
            raise ValueError(f"expected names of metrics ({', '.join(METRICS)})")
        return given


class ConfigInput(Input):
    """The top-level key `config`."""

    dialect: Annotated[str, Field(json_schema_extra={"enum": ["auto", "older", "newer"]})] = "auto"
    expression_custom_functions: list[str] = []
    component_models: list[str] = []
    use_installed_component_models: StrictBool = True


class MapperInput(Input):
    """The top-level key `mapper`: options of the search, under the names that users of peers know."""

    metrics: Any = None
    info_metrics: Any = None
    force_memory_hierarchy_order: StrictBool = True
    max_fused_loops_per_rank_variable: float = 1
    max_fused_loops: float = float("inf")
    share_inputs: StrictBool = True
    explore_loop_orders: StrictBool = True
    explore_imperfect_temporal_loops: StrictBool = False
    explore_imperfect_spatial_loops: StrictBool = False
    tiling_coarseness: float = 1
    prioritize_reuse_of_unfused_tensors: StrictBool = False
    max_pmapping_templates_per_einsum: float = float("inf")
    objective_tolerance: float = 0
    resource_usage_tolerance: float = 0
    memory_limit: float = float("inf")
    memory_limit_per_process: float = float("inf")
    time_limit: float = float("inf")
