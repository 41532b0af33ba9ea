"""`einmap run --train`: a pipelined training step on real data, held against the unpartitioned step."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import fields

import typer

from einmap.cli.inputs import Source
from einmap.cli.options import group, option
from einmap.cli.output import print_notes
from einmap.cli.writing.results import SCHEMA, Output
from einmap.distribute.training_run.plan_text import plan_of_text
from einmap.distribute.training_run.program import TrainingProgram, training_program
from einmap.distribute.training_run.run import Devices, LocalDevices, TrainingRun, run_training

TRAINING = "Training"
"""A panel of the help."""
DEFAULT_BATCH = "B"


@group
class TrainingOptions:
    """A training step, its loss and weights, and how it is divided."""

    train: str | None = option(
        "PLAN",
        "Run a training step by a plan: pp=2,micro_batch=4, and dp, chunks, stages=3+4 (Einsums), schedule, recompute.",
        panel=TRAINING,
    )
    of: str | None = option("TENSOR", "Its loss, a sum over samples.", panel=TRAINING)
    by: str | None = option("TENSORS", "Its weights: W1,W2.", panel=TRAINING)
    batch: str | None = option("RANK", "The rank of samples.", shown="B", panel=TRAINING)
    constant: str | None = option("TENSORS", "Tensors through which no gradient flows.", panel=TRAINING)
    optimizer: str | None = option("sgd|adam", "Update the weights.", panel=TRAINING)

    @property
    def given(self) -> list[str]:
        """The options that are given, as they are written."""
        return [f"--{one.name}" for one in fields(self) if getattr(self, one.name) is not None]


def train(source: Source, options: TrainingOptions, engine: str, seed: int, output: Output) -> bool:
    """Run the step and print it; whether it agrees with the unpartitioned one."""
    if options.of is None or options.by is None:
        raise typer.BadParameter("name the loss by --of and the weights by --by", param_hint="--train")
    if output.has_page:
        raise typer.BadParameter("a training step has tables, and no page", param_hint="--html or --figures")
    plan = plan_of_text(options.train or "")
    files = output.files("einmap.distribute.training_run.run.TrainingRun", source.files)
    spec = source.load(files)
    program = training_program(
        spec.workload,
        options.of,
        _names(options.by),
        plan,
        batch=DEFAULT_BATCH if options.batch is None else options.batch,
        constant=_names(options.constant),
        optimizer=options.optimizer,
    )
    with _devices(engine) as devices:
        found = run_training(program, devices, seed)
    output.show(lambda: _document(engine, found), lambda: _report(engine, found))
    print_notes(spec.distribution_notes)
    files.write(found)
    return found.agrees


def _devices(engine: str) -> nullcontext[Devices]:
    if engine == "jax":
        from einmap.distribute.backends.jax.engine import check_jax
        from einmap.distribute.training_run.server import ProcessDevices

        check_jax()
        return ProcessDevices()  # type: ignore[return-value]
    return nullcontext(LocalDevices())


def _names(text: str | None) -> list[str]:
    return [name for name in "".join((text or "").split()).split(",") if name]


def _rows(program: TrainingProgram) -> list[tuple[int, str]]:
    """For each stage its device in a group, and its Einsums."""
    return [(program.schedule.device_of[i], ", ".join(names)) for i, names in enumerate(program.stages)]


def _report(engine: str, found: TrainingRun) -> str:
    program = found.program
    schedule = program.schedule
    where = "in processes of their own, on JAX" if engine == "jax" else "in this process"
    lines = [
        f"training step: {program.groups} x {schedule.devices} devices {where}, {program.groups} x "
        f"{schedule.micro_batches} micro-batches, schedule {schedule.name}",
        *(f"  stage {i} on device {device}: {names}" for i, (device, names) in enumerate(_rows(program))),
        f"{found.rounds} rounds, {found.shifts} shifts of a tensor from stage to stage, at most "
        f"{max(found.most_held)} micro-batches held by a device",
    ]
    word = "equals" if found.agrees else "is NOT"
    lines.append(f"{', '.join(found.apart)}: {word} the unpartitioned step (largest difference {found.difference:.1e})")
    return "\n".join(lines)


def _document(engine: str, found: TrainingRun) -> dict[str, object]:
    schedule = found.program.schedule
    return {
        "schema": SCHEMA,
        "engine": engine,
        "groups": found.program.groups,
        "devices": schedule.devices,
        "micro_batches": schedule.micro_batches,
        "schedule": schedule.name,
        "stages": [[*names] for names in found.program.stages],
        "device_of": [*schedule.device_of],
        "rounds": found.rounds,
        "shifts": found.shifts,
        "most_held": [*found.most_held],
        "differences": dict(found.apart),
        "agrees": found.agrees,
    }
