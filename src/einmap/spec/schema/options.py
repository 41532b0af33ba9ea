"""Input models of the keys `model`, `config` and `mapper`: options, in which nothing is an expression."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import StrictBool, field_validator

from einmap.spec.schema.base import Input
from einmap.spec.schema.documented import documented, one_of

METRICS = (
    *("LATENCY", "ENERGY", "DYNAMIC_ENERGY", "LEAK_ENERGY", "RESOURCE_USAGE", "ACTIONS", "DETAILED_MEMORY_USAGE"),
    "ENERGY_DELAY_PRODUCT",
)
"""Names for `model.metrics`; their numbers are 1, 2, 4, ..."""

_NO_LIMIT = "no limit"


class ModelInput(Input):
    """The top-level key `model`: how a mapping is counted."""

    semantics: str = documented(
        "The preset of counting rules: `exact` counts what hardware does that runs the mapping as written, "
        "`accelforge` what AccelForge 1.0.467 counts. `--semantics` goes before it.",
        "accelforge",
        words=("exact", "accelforge"),
        default="exact",
    )
    sliding_window: StrictBool = documented(
        "Whether storage nodes are line buffers where they can be: they keep what two tiles in a row have in common. "
        "A storage node may say otherwise. Only under `exact`, and not in searches.",
        True,
        default=False,
    )
    overlap_einsums: StrictBool = documented(
        "Whether fused Einsums overlap: transfers of buffers above the loops that they share may happen at any time "
        "while these run. Only under `exact`.",
        True,
        default=False,
    )
    metrics: Any = documented(
        "What other tools report. Names and numbers are checked; einmap reports everything anyway.",
        *("ENERGY | LATENCY", 3),
        kind="names, or the sum of their flags",
        without="everything",
    )

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
    """The top-level key `config`: how the specification is read."""

    dialect: str = documented(
        "The dialect of the architecture, which decides what `may_reuse` is where only `reuse` is written; `auto` "
        "takes the one whose words the file has.",
        "older",
        words=("auto", "older", "newer"),
        default="auto",
    )
    expression_custom_functions: list[str] = documented(
        "Files of Python functions that expressions call. Each is an error until it is allowed with `--allow-code "
        "FILE` or `load(..., allow_code=[...])`, since that runs it.",
        ["energies.py"],
        default=[],
    )
    component_models: list[str] = documented(
        "Files with component models: tables (CSV, and YAML with the key `ERT` or `ART`) in the folder of this file "
        "and below, and Python files with classes, each of which is an error until it is allowed with `--allow-code "
        "FILE`.",
        [],
        default=[],
    )
    use_installed_component_models: StrictBool | Annotated[str, one_of(("first",))] = documented(
        "Whether classes of installed hwcomponents packages are used where einmap has no class of that name; `first` "
        "takes them before the built-in ones.",
        False,
        default=True,
    )


class MapperInput(Input):
    """The top-level key `mapper`: options of the search, under the names that users of AccelForge know.

    Options of a call (`--option NAME=VALUE`, `map_workload(spec, NAME=VALUE)`) go before them.
    """

    metrics: Any = documented(
        "What is made small: `energy`, `latency`, `energy_delay_product` (`edp`), `dynamic_energy`, `leak_energy`, "
        "`resource_usage` (one Einsum only). For several, in a list or joined by `|`, the Pareto front is found. Sums "
        "of AccelForge's flags are read, too.",
        *("energy", ["energy", "latency"]),
        kind="names, or the sum of their flags",
        without="`energy_delay_product`",
    )
    info_metrics: Any = documented(
        "What other tools report of the mappings found. Names are checked; einmap reports everything anyway.",
        "energy | latency",
        kind="names, or the sum of their flags",
        without="everything",
    )
    force_memory_hierarchy_order: StrictBool = documented(
        "Whether storage nodes keep to the hierarchy of memories. With true they cross it only between two memories "
        "that both have the field set to false, with false between any two. Those of one tensor never do.",
        False,
        default=True,
    )
    max_fused_loops_per_rank_variable: float = documented(
        "How many fused loops an Einsum may have over one rank variable. Fused loops are those of several iterations "
        "above the lowest backing storage of a shared tensor.",
        2,
        unit="loops",
        default=1,
    )
    max_fused_loops: float = documented(
        "How many fused loops an Einsum may have. With 0, tensors between Einsums stay inside as a whole or not at "
        "all. A small number makes searches of long cascades short.",
        1,
        unit="loops",
        without=_NO_LIMIT,
        default=float("inf"),
    )
    max_pipeline_stages: int = documented(
        "How many stages a Pipeline of successive Einsums may have, which work at one time on hardware of their own: "
        "2 or 3. With 1 no Pipelines are searched.",
        2,
        unit="stages",
        default=1,
    )
    max_einsums_per_stage: int = documented(
        "How many successive Einsums may take turns in one stage of a Pipeline that is searched.",
        3,
        unit="Einsums",
        default=1,
    )
    share_inputs: StrictBool = documented(
        "Whether an input that several Einsums read may be brought in once for all of them.", False, default=True
    )
    break_ties: StrictBool = documented(
        "Whether the fastest mapping with the least energy is searched for where `latency` is the one metric, and the "
        "fastest one of the least energy where `energy` is. It takes a second search.",
        False,
        default=True,
    )
    prove_ties: StrictBool = documented(
        "Whether the search for that second metric goes on until it is proven, however long that takes. Else that of a "
        "cascade ends soon after something as good was found, and the result says where it is not proven.",
        True,
        default=False,
    )
    explore_loop_orders: StrictBool = documented(
        "No effect: the best order of loops is found without trying the others.", False, default=True
    )
    explore_imperfect_temporal_loops: StrictBool = documented(
        "Whether the outermost temporal loop over a rank variable may leave a remainder: its tile shape need not "
        "divide the extent. Only variables that occur in no sum.",
        True,
        default=False,
    )
    explore_imperfect_spatial_loops: StrictBool = documented(
        "Whether spatial loops may leave a remainder, such as 7 values over a fanout of 4.", True, default=False
    )
    tiling_coarseness: float = documented(
        "Tile shapes below so many times the next smaller one are left out. With 1 all are tried; 2 makes searches "
        "with imperfect factors shorter.",
        2,
        unit="factor, at least 1",
        default=1,
    )
    prioritize_reuse_of_unfused_tensors: StrictBool = documented(
        "No effect: it allows to leave out mappings, and none is left out.", True, default=False
    )
    max_pmapping_templates_per_einsum: float = documented(
        "How many dataplacements are looked at for each Einsum. The result is then not proven to be best.",
        100,
        unit="dataplacements",
        without=_NO_LIMIT,
        default=float("inf"),
    )
    objective_tolerance: float = documented(
        "By how much the result may be worse than the best: 0.01 allows 1 %. A larger one ends searches earlier.",
        0.01,
        unit="fraction",
        default=0,
    )
    resource_usage_tolerance: float = documented(
        "No effect: it allows to leave out mappings that fill a memory, and none is left out.",
        0.1,
        unit="fraction",
        default=0,
    )
    memory_limit: float = documented(
        "The most memory that the process may take at a time. Where that leaves no room for all tile shapes, some are "
        "left out, and the result is not proven.",
        4_000_000_000,
        unit="bytes",
        without=_NO_LIMIT,
        default=float("inf"),
    )
    memory_limit_per_process: float = documented(
        "As `memory_limit`; the smaller one counts, as the search is one process.",
        2_000_000_000,
        unit="bytes",
        without=_NO_LIMIT,
        default=float("inf"),
    )
    time_limit: float = documented(
        "How long the search may take. It then ends with the best mapping so far, a lower bound, and the gap.",
        60,
        unit="s",
        without=_NO_LIMIT,
        default=float("inf"),
    )
