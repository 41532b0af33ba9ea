"""`einmap run`: distribute real data over a mesh, run, and check."""

from __future__ import annotations

from typing import Annotated, cast

import typer

from einmap.cli.commands.mesh.run_training import TrainingOptions, train
from einmap.cli.inputs import Source
from einmap.cli.options import Without, flag, group, option
from einmap.cli.output import error_console, print_json, print_notes, print_report
from einmap.cli.progress_bar import ProgressBar
from einmap.cli.writing.results import Output
from einmap.distribute.backends.check import sample_inputs
from einmap.distribute.backends.checked_extent import EXTENTS, chosen_check
from einmap.distribute.backends.engines import ENGINES, EngineOptions, engine_named
from einmap.distribute.plans.plan import Dtype
from einmap.distribute.read import plan_of
from einmap.progress import Progress
from einmap.report.mesh.distribution import (
    PlanRun,
    extent_line,
    plan_document,
    plan_report,
    run_agrees,
    run_document,
    run_report,
)

WRONG = 1
"""Exit status when an output or the communication is wrong."""

ENGINE = "Engine"
"""A panel of the help."""


@group
class Options:
    """Engine that runs the plan, and checks of its results."""

    engine: str = option("|".join(ENGINES), "What runs the plan.", default=ENGINES[0], panel=ENGINE)
    processes: int | None = option("N", "Processes on this host, engine jax.", shown="1", min=1, panel=ENGINE)
    platform: str | None = option(
        "NAME",
        "Devices of the engine jax: cpu makes one for each PE, any takes the best there are.",
        shown="cpu",
        panel=ENGINE,
    )
    hosts: int | None = option("N", "Hosts that run this command.", shown="1", min=1, panel=ENGINE)
    host: int | None = option("I", "Which of the hosts this one is, from 0.", min=0, panel=ENGINE)
    coordinator: str | None = option("ADDRESS:PORT", "A free port of host 0.", panel=ENGINE)
    meeting_limit: float | None = option("SECONDS", "Time in which all hosts must be there.", shown="7", panel=ENGINE)
    time_limit: float | None = option(
        "SECONDS", "Time of the engine jax to compile and run.", shown="600", panel=ENGINE
    )
    dtype: str | None = option("float64|float32", "Type of all values.", shown="distribution.dtype, or float64")
    seed: int = option("N", "Seed of the random values of the input tensors, and of the sample.", default=0, min=0)
    check: str | None = option(
        "|".join(EXTENTS),
        "What is computed again to check the outputs: all, values drawn by the seed, or nothing.",
        shown="whole where that takes little, else sample",
    )
    dry_run: bool = flag("Derive and print the plan only.")

    def of_engine(self) -> EngineOptions:
        """The options of the engine."""
        where = (self.processes, self.platform, self.hosts, self.host, self.coordinator)
        return EngineOptions(*where, self.time_limit, self.meeting_limit)


def run_command(
    source: Annotated[Source, Without({"allow_code"})], options: Options, training: TrainingOptions, output: Output
) -> None:
    """Partition Einsums over the PEs of a mesh, run them there on random data, and compare with the whole result.

    Prints what each PE computes and what it exchanges. Exit status 1: an output is wrong, or the program of the engine
    jax sends anything else than was predicted.

    With --train a pipelined training step: stages of Einsums, and micro-batches by a schedule.

    Example: einmap run matmul matmul_reduce_scatter -D G=8
    """
    if training.train is not None:
        _check_alone(options)
        if not train(source, training, options.engine, options.seed, output):
            raise typer.Exit(WRONG)
        return
    if training.given:
        raise typer.BadParameter("it is of a training step: give --train, too", param_hint=training.given[0])
    shown = ProgressBar(error_console())
    engine, seed, dry_run, as_json = options.engine, options.seed, options.dry_run, output.as_json
    runner = engine_named(engine, options.of_engine(), Progress(shown.report))
    files = output.files("einmap.report.mesh.distribution.PlanRun", source.files)
    spec = source.load(files)
    plan = plan_of(spec, cast(Dtype | None, options.dtype))
    checked = chosen_check(plan.workload, "none" if dry_run else options.check, seed)
    if not dry_run:
        runner.check(plan)
    document = plan_document(plan)
    if not as_json:
        print_report(plan_report(plan))
    agrees, outcome = True, PlanRun(plan)
    if not dry_run:
        inputs = sample_inputs(plan.workload, seed, plan.dtype, whole=checked.extent == "whole")
        with shown, runner:
            run = runner.run(plan, inputs)
            checks = checked.outputs(inputs, run.outputs, plan.dtype)
        agrees, outcome = run_agrees(plan, run, checks), PlanRun(plan, run, checks, extent_line(checked))
        document |= run_document(engine, outcome, checked)
        if not as_json:
            print_report(run_report(engine, outcome))
    if as_json:
        print_json(document)
    print_notes(spec.distribution_notes)
    files.write(
        outcome,
        "einmap.report.html.pages.distribution_page.distribution_page",
        outcome,
        spec,
        engine,
        source.names,
    )
    if not agrees:
        raise typer.Exit(WRONG)


def _check_alone(options: Options) -> None:
    """Raise usage errors for options that a training step does not have."""
    if options.engine not in ENGINES:
        engine_named(options.engine)
    given = [f"--{name.replace('_', '-')}" for name in options.of_engine().given]
    given += [f"--{name}" for name in ("dtype", "check") if getattr(options, name) is not None]
    given += ["--dry-run"] if options.dry_run else []
    if given:
        text = "a training step has a device for each stage and group, values of float64, and is always checked"
        raise typer.BadParameter(text, param_hint=given[0])
