"""`einmap train-plan`: choose how devices are divided for a step of training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from einmap.cli.commands.mesh.plan_options import machine_of, memory_of, mesh_of
from einmap.cli.commands.mesh.ranks import ranks_of
from einmap.cli.inputs import Source, reading_inputs
from einmap.cli.options import OUTPUT, Without, group, option, output_option, several
from einmap.cli.output import print_hint
from einmap.cli.progress_bar import searching
from einmap.cli.writing.results import Output
from einmap.cli.writing.target import Target
from einmap.distribute.training.document import fixed_by, fixed_in, training_text
from einmap.distribute.training.model import TrainingModel
from einmap.distribute.training.plan import TrainingRequest
from einmap.distribute.training.search import best_training_plan
from einmap.einsum.gradients.update import OPTIMIZERS
from einmap.frontends.files import read_text_file
from einmap.frontends.yaml.parsing.parse import parse_yaml
from einmap.report.mesh.pictures.pipeline import pipeline_svg
from einmap.report.mesh.pipeline_trace import pipeline_trace
from einmap.report.mesh.training import training_document, training_report
from einmap.units import format_bytes


@group
class Options:
    """The machine, the step of training, and what is fixed of the plan."""

    mesh: list[str] = option("x=8,y=4", "Devices along each axis of the cluster; repeatable.", default=...)
    cluster: str | None = option(
        "FILE",
        "File with the key `cluster`, or a shipped one. Without it: equal links of 100 GB/s, PEs of 100 TOP/s.",
    )
    batch: int = option("N", "Samples of a step, on all devices together.", default=..., min=1)
    layers: int | None = option("N", "How often the workload is repeated.", shown="its n_instances", min=1)
    memory: str | None = option("16GiB", "Memory of a device that no plan exceeds; the default is the cluster's.")
    fix: list[str] = several(
        "'tp=8'|FILE.yaml", "Fields of the plan: a value, several (zero=1|3), or a plan that -o wrote; repeatable."
    )
    ranks: str = option("B,M,E", "Ranks of samples, of positions and of experts, as far as there are.", default="B,M")
    optimizer: str = option("|".join(OPTIMIZERS), "Whose Einsums say what an update keeps and moves.", default="adam")
    bytes: str | None = option(
        "G,S",
        "Bytes of the gradient of a weight, and of what the optimiser keeps for it.",
        shown="2, and what its Einsums keep",
    )
    embedding: int = option("N", "Values of the table that the first stage looks up.", default=0, min=0)
    time_limit: float = option("SECONDS", "After that the best plan so far follows.", default=60.0, min=0.1)
    output: Path | None = output_option("Write the plan there, for --fix.", "FILE.yaml")
    svg: Path | None = option("FILE.svg", "Draw when each stage runs, bubbles in yellow.", panel=OUTPUT)
    trace: Path | None = option(
        "FILE.json", "Write that as a trace for ui.perfetto.dev and chrome://tracing.", panel=OUTPUT
    )


def train_plan_command(options: Options, output: Output, source: Annotated[Source, Without({"allow_code"})]) -> None:
    """Choose how devices are divided for a step of training: the best plan, why others lose, what a device holds.

    Data, tensor, sequence, context, expert and pipeline parallelism, ZeRO, recomputation, micro-batches and schedules
    are chosen together, within the memory of a device.

    Example: einmap train-plan gpt3_6.7b --cluster a100_nodes --mesh x=8,y=4 --batch 512 --layers 32 -D BITS=16
    """
    cluster = options.cluster
    given = [*source.files, *([cluster] if cluster else [])]
    paths = (options.output, options.svg, options.trace, output.csv, output.parquet)
    written, drawn, traced, *_ = Target.several(paths, output.force, given)
    files = output.files("einmap.distribute.training.search.BestTraining", given)
    laid = mesh_of(",".join(options.mesh))
    memory = None if options.memory is None else memory_of(options.memory)
    fixed = fixed_of(options.fix)
    with reading_inputs(source.define, written, drawn, traced, files):
        spec = source.spec(given)
    machine = machine_of(spec, cluster, laid, source.root)
    given_bytes = {} if options.bytes is None else bytes_of(options.bytes)
    ranks = ranks_of(options.ranks)
    model = TrainingModel.of(
        spec.workload,
        options.batch,
        ranks,
        layers=options.layers,
        table=options.embedding,
        optimizer=options.optimizer,
        **given_bytes,
    )
    request = TrainingRequest(laid.n_devices, memory, laid, fixed)
    with searching() as running:
        best = best_training_plan(model, machine, request, running.progress.within(options.time_limit))
    output.show(lambda: training_document(best), lambda: training_report(best))
    if written is not None:
        written.write(training_text(best.plan))
        print_hint(f"wrote {written.path}")
    if drawn is not None:
        drawn.write(pipeline_svg(best.step.timeline, held=lambda most: f"{format_bytes(most)} of activations"))
        print_hint(f"wrote {drawn.path}")
    if traced is not None:
        traced.write_pieces(pipeline_trace(best.step.timeline, "bytes"))
        print_hint(f"wrote {traced.path}")
    files.write(best, "einmap.report.html.pages.training_page.training_page", best, spec, source.names)


def fixed_of(words: list[str]) -> dict[str, Any]:
    """Fields that `--fix` gives: those of files first, then those of the command line."""
    values: dict[str, Any] = {}
    for word in words:
        if word.endswith((".yaml", ".yml")) and "=" not in word:
            values |= fixed_in(parse_yaml(read_text_file(Path(word)), word))
    return values | fixed_by([word for word in words if "=" in word or not word.endswith((".yaml", ".yml"))])


def bytes_of(text: str) -> dict[str, float]:
    """Bytes of a gradient and of a state: two numbers from 0 on, joined by a comma. A usage error for anything else."""
    try:
        first, second = (float(part) for part in text.split(","))
    except ValueError:
        raise typer.BadParameter("two numbers, joined by a comma: 2,12", param_hint="--bytes") from None
    if not (0 <= first < float("inf") and 0 <= second < float("inf")):
        raise typer.BadParameter("numbers from 0 on: 2,12", param_hint="--bytes")
    return {"gradient_bytes": first, "state_bytes": second}
