"""`einmap run --train`: a pipelined training step on real data, held against the unpartitioned step."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import fields

import typer

from einmap.cli.commands.mesh.ranks import ranks_of
from einmap.cli.inputs import Source
from einmap.cli.options import group, option
from einmap.cli.output import print_notes
from einmap.cli.writing.results import SCHEMA, Output
from einmap.distribute.training.model import Ranks
from einmap.distribute.training.plan import DIMS
from einmap.distribute.training_run.plan_text import plan_of_text
from einmap.distribute.training_run.program import TrainingProgram, training_program
from einmap.distribute.training_run.run import Devices, LocalDevices, TrainingRun, run_training
from einmap.units import counted

TRAINING = "Training"
"""A panel of the help."""
DEFAULT_BATCH = "B"


@group
class TrainingOptions:
    """A training step, its loss and weights, and how it is divided."""

    train: str | None = option(
        "PLAN",
        "Run a training step by a plan of `train-plan --fix`, such as pp=2,tp=2,micro_batch=4,stages=3+4.",
        panel=TRAINING,
    )
    of: str | None = option("TENSOR", "Its loss, a sum over samples.", panel=TRAINING)
    by: str | None = option("TENSORS", "Its weights: W1,W2.", panel=TRAINING)
    batch: str | None = option(
        "B,M,E", "Ranks of samples, of positions and of experts, as far as there are.", shown="B", panel=TRAINING
    )
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
        batch=Ranks(DEFAULT_BATCH, None) if options.batch is None else ranks_of(options.batch, "--batch"),
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
    schedule, plan = program.schedule, program.plan
    where = "in processes of their own, on JAX" if engine == "jax" else "in this process"
    ways = " x ".join(f"{dim} {plan.size(dim)}" for dim in DIMS if plan.size(dim) > 1) or "one device"
    lines = [
        f"training step: {counted(plan.devices, 'device')} ({ways}) {where}, {program.groups(0)} x "
        f"{counted(schedule.micro_batches, 'micro-batch')}, schedule {schedule.name}",
        *(f"  stage {i} on device {device}: {names}" for i, (device, names) in enumerate(_rows(program))),
        f"{counted(found.rounds, 'round')}, {counted(found.shifts, 'shift')} of a tensor from stage to stage, at most "
        f"{counted(max(found.most_held), 'micro-batch')} held by a device",
        *(f"  {line}" for line in _moves(found)),
    ]
    word = "equals" if found.agrees else "is NOT"
    lines.append(f"{', '.join(found.apart)}: {word} the unpartitioned step (largest difference {found.difference:.1e})")
    return "\n".join(lines)


def _moves(found: TrainingRun) -> list[str]:
    """Bytes that a PE of each device has sent, beside the prediction."""
    lines = []
    for device, what, moved, told in found.moves:
        said = "not predicted" if told is None else "as predicted" if moved == told else f"predicted {told:,.0f}"
        lines.append(f"each PE of device {device} sends {moved:,.0f} bytes, {what}: {said}")
    return lines


def _document(engine: str, found: TrainingRun) -> dict[str, object]:
    schedule = found.program.schedule
    return {
        "schema": SCHEMA,
        "engine": engine,
        "groups": found.program.groups(0),
        "devices": schedule.devices,
        "micro_batches": schedule.micro_batches,
        "schedule": schedule.name,
        "stages": [[*names] for names in found.program.stages],
        "device_of": [*schedule.device_of],
        "rounds": found.rounds,
        "shifts": found.shifts,
        "most_held": [*found.most_held],
        "moves": [
            {"device": device, "what": what, "sent_bytes": moved, "predicted_bytes": told}
            for device, what, moved, told in found.moves
        ],
        "differences": dict(found.apart),
        "agrees": found.agrees,
    }
