"""`einmap map`: find the best mapping."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from einmap.cli.inputs import Source, definitions, reading_inputs, semantics_option
from einmap.cli.options import EFFORT, OUTPUT, flag, group, option, output_option, several
from einmap.cli.output import console, print_error, print_hint, print_notes
from einmap.cli.progress_bar import searching
from einmap.cli.writing.html_report import command_words
from einmap.cli.writing.results import INTERRUPTED, SCHEMA, Output
from einmap.cli.writing.target import Target
from einmap.errors import EinmapError, NoMappingError, SpecError, did_you_mean
from einmap.frontends.yaml.given import load_given
from einmap.frontends.yaml.spec import dump_mapping
from einmap.mapper.fusion_saving import Saving, unfused_comparison
from einmap.mapper.objective.metrics import METRICS, added_metric
from einmap.mapper.problem.options import metrics_named
from einmap.mapper.result.result import Found, MapResult, objective
from einmap.model.counting.semantics import semantics_named
from einmap.model.fusion import fusion_of
from einmap.progress import Progress
from einmap.report.costs.cost_report import map_report, quality
from einmap.report.costs.provenance import cost_document
from einmap.spec.forms.loop_tree import write_mapping
from einmap.spec.raw import to_python
from einmap.spec.schema.options import MapperInput
from einmap.spec.spec import Spec

if TYPE_CHECKING:
    from einmap.mapper.result.result_cache import ResultCache

LEAST_TIME = 0.5
"""Seconds that must be left of the time limit for a comparison with mappings that fuse nothing."""
LEAST_COMPARED = 10.0
"""Seconds that this may take without a time limit, or as long as the search took."""
_NOT_OF_MAPPING = (
    "time_limit", "max_evaluations", "workers", "compare", "cache", "stats", "output", "html", "figures", "force",
    "as_json",
)  # fmt: skip
"""Parameters that do not say which mapping is found by a search that ends by itself."""
EDP = "energy_delay_product"
"""The metric that has a shorter name."""
FUSION = "Fusion"
"""A panel of the help."""


@group
class Options:
    """Objective and effort of the search, and results to keep."""

    metrics: str | None = option(
        "METRICS",
        f"What is minimised: {', '.join(('edp', *(name for name in METRICS if name != EDP)))}; "
        "energy,latency: a Pareto front.",
        shown="mapper.metrics, or edp",
    )
    semantics: str | None = semantics_option()
    time_limit: float | None = option("S", "Seconds after which the best so far is given.", min=0, panel=EFFORT)
    max_evaluations: int | None = option("N", "Evaluations after which it is given.", min=1, panel=EFFORT)
    workers: int | None = option("N", "Threads of the search.", shown="one for each processor", min=1, panel=EFFORT)
    seed: int = option("N", "Seed of random choices.", default=0, min=0, panel=EFFORT)
    given: str | None = option(
        "FILE", "A partly given mapping: its nodes are kept, others come in at !Any {} only (docs/mapper.md)."
    )
    mapper_option: list[str] = several(
        "NAME=VALUE", "An option of the mapper, named as under `mapper:`; repeatable.", "--option"
    )
    rewrites: list[str] = several(
        "REWRITE",
        "A change of the cascade that may be chosen: online_softmax P=512, or best, which tries several; repeatable.",
        "--rewrites",
    )
    fuse: bool = flag(
        "Intermediate tensors may stay inside, tile by tile; else each Einsum is mapped by itself.",
        "--fuse/--no-fuse",
        default=True,
        panel=FUSION,
    )
    compare: bool = flag(
        "Search the best mapping that fuses nothing, too, to say what fusion saves.",
        "--compare/--no-compare",
        default=True,
        panel=FUSION,
    )
    cache: str | None = option("DIR", "Keep proven results here, and take them from here.", panel=EFFORT)
    stats: bool = flag("Show what became of all parts of the mapspace.", panel=OUTPUT)
    output: Path | None = output_option("Write the best mapping, as YAML.")

    def of_mapper(self) -> dict[str, Any]:
        """The keywords of the mapper, but for what is read from files. Usage errors and SpecError for bad ones."""
        options = mapper_options(self.mapper_option)
        if self.metrics is not None:
            if "metrics" in options:
                raise typer.BadParameter("--metrics gives them too", param_hint="--option")
            options["metrics"] = metrics_of(self.metrics)
        if self.semantics is not None:
            semantics_named(self.semantics)
        own: dict[str, Any] = {"semantics": self.semantics, "max_evaluations": self.max_evaluations}
        own |= {"rewrites": self.rewrites} if self.rewrites else {}
        return options | own | {"workers": self.workers, "seed": self.seed, "fuse": self.fuse}


def map_command(asked: Options, output: Output, source: Source) -> None:
    """Find the best mapping of a workload onto an architecture, and say how good it is.

    Ctrl-C ends the search and gives the best mapping so far; a second Ctrl-C ends at once.

    Example: einmap map tpu_v4i gpt3_6.7b --time-limit 60 -o best.yaml

    Example: einmap map eyeriss resnet50_layer -D LAYER=conv2_2 -D BITS=16 --given partial.yaml
    """
    options = asked.of_mapper()
    inputs = [*source.words, *([] if asked.given is None else [asked.given])]
    target = Target.of(asked.output, output.force, inputs)
    files = output.files("einmap.mapper.result.result.MapResult", inputs)
    with reading_inputs(source.define, target, files):
        spec = source.spec(source.files)
        if asked.given is not None:
            options["given"] = load_given(asked.given, spec, definitions(source.define), source.root)
    if asked.cache is not None:
        options["cache"] = _results_in(asked.cache, spec)
    result, saving = _search(spec, asked.compare and asked.fuse, time_limit_s=asked.time_limit, **options)
    failure = None
    if target is not None:
        failure = _written(target, mapping_file(result, command_words(output.ctx, _NOT_OF_MAPPING)))
    output.show(
        lambda: document(result, saving),
        lambda: map_report(result, result.spec, console().width, stats=asked.stats, saving=saving),
    )
    print_notes(result.cost.notes)
    if failure is not None:
        raise failure
    if target is not None:
        print_hint(_wrote(result, target.path))
    files.write(result, "einmap.report.html.pages.cost_page.map_page", result, saving, source.names)


def _results_in(directory: str, spec: Spec) -> ResultCache:
    """The results that are kept in a directory. SpecError if no file can be written there."""
    # Here, not above: it takes long to import, and `einmap evaluate` does not need it.
    from einmap.facade import results_in

    if spec.runs_code:
        print_hint("the result is not cached: functions or component models are Python code")
    return results_in(directory)


def _wrote(result: MapResult, output: Path) -> str:
    """A line that says which mapping was written, and how to get the others."""
    if len(result.front) == 1:
        return f"wrote the mapping to {output}"
    first = result.metrics[0].replace("_", " ")
    others = "the others with --json, under front, or with --metrics for another one"
    return f"wrote the first of {len(result.front)} mappings, that of the least {first}, to {output}; {others}"


def metrics_of(text: str) -> str:
    """`edp` or `energy,latency` in the mapper's words. A usage error for other names."""
    try:
        return ",".join(metrics_named(text) if (added := added_metric(text)) is None else (added.name,))
    except SpecError as error:
        hint = f"; {error.hint}" if error.hint else ""
        raise typer.BadParameter(f"{error.message}{hint}", param_hint="--metrics") from None


def mapper_options(texts: list[str] | None) -> dict[str, object]:
    """`["objective_tolerance=0.01"]` as keywords of the mapper. A usage error for other names."""
    options = definitions(texts, "--option", "objective_tolerance=0.01")
    for name in options:
        if name not in MapperInput.model_fields:
            hint = did_you_mean(name, MapperInput.model_fields, listing="options")
            raise typer.BadParameter(f"the mapper has no option {name!r}; {hint}", param_hint="--option")
    return options


def mapping_file(result: MapResult, command: Sequence[str]) -> str:
    """The best mapping as YAML, after comment lines that say how it was found."""
    comments = [f"Found by: {shlex.join(command)}", quality(result, is_timed=False)]
    lines = [f"# {line}" for comment in comments for line in comment.splitlines()]
    return "\n".join([*lines, dump_mapping(result.mapping, **result.front[0].made_for)])


def document(result: MapResult, saving: Saving | None = None) -> dict[str, Any]:
    """Everything about the result, for JSON; `fusion` is None where the workload has no intermediate tensor."""
    stats = result.stats
    spec = result.spec
    fusion = fusion_of(result.mapping, spec).to_dict() if spec.workload.intermediates else None
    return {
        "schema": SCHEMA,
        "metrics": list(result.metrics),
        "optimal": result.optimal,
        "cached": result.cached,
        "lower_bound": result.lower_bound,
        "gap": result.gap,
        "reason": result.reason,
        "not_searched": list(result.not_searched),
        "shared_inputs": _shared(result.front[0]),
        "stats": {
            "mapspace_size": stats.mapspace_size,
            "templates": stats.templates,
            "evaluated": stats.evaluated,
            "seconds": stats.seconds,
            "steps": stats.steps,
            "by_einsum": stats.by_einsum,
        },
        "fusion": fusion,
        "saving": saving.to_dict() if saving is not None else None,
        "cost": cost_document(result.cost, spec),
        "mapping": _plain_mapping(result.front[0]),
        "front": [_front_entry(solution, result.metrics) for solution in result.front],
    }


def _search(spec: Spec, compare: bool, time_limit_s: float | None, **options: Any) -> tuple[MapResult, Saving | None]:
    """The result, and the saving by fusion; None where the unfused mapping is not searched."""
    # Here, not above, as in `_results_in`.
    from einmap.mapper.mapper import best_mappings

    with searching(maps=True) as search:
        try:
            result = best_mappings(spec, progress=search.progress, time_limit_s=time_limit_s, **options)
        except EinmapError as error:
            if not search.interrupted:
                raise
            print_error(error)
            raise typer.Exit(INTERRUPTED) from None
        left = None if time_limit_s is None else time_limit_s - result.stats.seconds
        has_time = not search.interrupted and (left is None or left >= LEAST_TIME)
        if not compare or not (has_time or result.unfused):
            return result, None
        return result, _saving(spec, result, search.progress, left, options)


def _saving(
    spec: Spec, result: MapResult, progress: Progress, time_limit_s: float | None, options: dict[str, Any]
) -> Saving | None:
    """The saving by fusion; None where nothing is fused or may be left unfused, or no unfused mapping is found."""
    workload = result.spec.workload
    if not workload.intermediates or not fusion_of(result.mapping, result.spec).fused:
        return None
    unfused_options = {
        name: value for name, value in options.items() if name not in ("fuse", "metrics", "semantics", "rewrites")
    }
    limit = max(result.stats.seconds, LEAST_COMPARED) if time_limit_s is None else time_limit_s
    try:
        return unfused_comparison(spec, result, progress=progress, time_limit_s=limit, **unfused_options)
    except NoMappingError:
        return None


def _written(target: Target, text: str) -> EinmapError | None:
    """Write the file, and return the error if that fails: the result must be printed all the same."""
    try:
        target.write(text)
    except EinmapError as error:
        return error
    return None


def _plain_mapping(solution: Found) -> Any:
    return {**solution.made_for, **to_python(write_mapping(solution.mapping))}


def _front_entry(solution: Found, metrics: Sequence[str]) -> dict[str, Any]:
    cost = solution.cost
    numbers = {"energy": cost.energy, "latency": cost.latency, "edp": cost.edp}
    others = {name: objective(cost, name) for name in metrics if name not in (*numbers, "energy_delay_product")}
    return {**numbers, **others, "mapping": _plain_mapping(solution)}


def _shared(solution: Found) -> list[dict[str, Any]]:
    users = solution.spec.workload.consumers
    return [{"input": tensor, "copy": copy, "users": [*users[copy]]} for tensor, copy in solution.copies.items()]
