"""A training step run: all devices in turn, what passes between them, sums of gradients, and the update."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from einmap.distribute.pipelines.schedule import Action, Kind
from einmap.distribute.training_run.device import Device, Task
from einmap.distribute.training_run.program import TrainingProgram
from einmap.einsum.einsum import TensorName
from einmap.einsum.numeric import Tensor, graph_inputs, random_inputs, run
from einmap.einsum.workload import Workload
from einmap.errors import SpecError
from einmap.visible import brief

AGREES = 1e-10
"""The largest difference from the unpartitioned step, relative to the largest value of a tensor."""


class Devices(Protocol):
    """Devices that do tasks at one time: those of group 0, then those of group 1, ..."""

    def begin(self, workload: Workload, weights: Mapping[TensorName, Tensor], count: int) -> None:
        """Set up so many devices, each with the weights."""

    def do(self, tasks: Sequence[Task | None]) -> list[Mapping[TensorName, Tensor]]:
        """Do a task on each device, or none; what others need of it."""

    def sums(self) -> list[Mapping[TensorName, Tensor]]:
        """Sums over micro-batches, by device; they begin anew."""

    def finish(
        self, einsums: Sequence[str], given: Mapping[TensorName, Tensor], wanted: Sequence[TensorName]
    ) -> Mapping[TensorName, Tensor]:
        """Do Einsums once, on every device alike; some of the results."""

    def most_held(self) -> list[int]:
        """The largest number of micro-batches that each device has held at one time."""


class LocalDevices:
    """Devices in this process, one after another; the reference evaluation."""

    def __init__(self) -> None:
        self._devices: list[Device] = []

    def begin(self, workload: Workload, weights: Mapping[TensorName, Tensor], count: int) -> None:
        """See `Devices`."""
        self._devices = [Device(workload, weights) for _ in range(count)]

    def do(self, tasks: Sequence[Task | None]) -> list[Mapping[TensorName, Tensor]]:
        """See `Devices`."""
        return [device.do(task) if task else {} for device, task in zip(self._devices, tasks, strict=True)]

    def sums(self) -> list[Mapping[TensorName, Tensor]]:
        """See `Devices`."""
        return [device.sums() for device in self._devices]

    def finish(
        self, einsums: Sequence[str], given: Mapping[TensorName, Tensor], wanted: Sequence[TensorName]
    ) -> Mapping[TensorName, Tensor]:
        """See `Devices`."""
        return self._devices[0].finish(einsums, given, wanted)

    def most_held(self) -> list[int]:
        """See `Devices`."""
        return [device.most_held for device in self._devices]


@dataclass(frozen=True)
class TrainingRun:
    """A training step that was run. `results`: gradients and new weights by name; `rounds`: times at which all devices
    did an action or waited; `shifts`: tensors that went from a stage to another one; `most_held`: by device the largest
    number of micro-batches held at one time; `apart`: for each result the difference from that of the unpartitioned
    step, relative to its largest value.
    """

    __repr__ = brief

    program: TrainingProgram
    results: Mapping[TensorName, Tensor]
    rounds: int
    shifts: int
    most_held: tuple[int, ...]
    apart: Mapping[TensorName, float]

    @property
    def difference(self) -> float:
        """The largest difference of all results."""
        return max(self.apart.values())

    @property
    def agrees(self) -> bool:
        """Whether it is the unpartitioned step, up to the rounding of float64."""
        return self.difference <= AGREES


def run_training(program: TrainingProgram, devices: Devices, seed: int = 0) -> TrainingRun:
    """Run a training step on random data, and the unpartitioned step beside it.

    Raises SpecError where the devices would wait for one another for ever.
    """
    inputs = training_inputs(program, seed)
    found = run(program.whole.workload, inputs)
    step = _Run(program, devices, inputs)
    results = step.results()
    names = dict(zip(wanted(program), _wanted_of_whole(program), strict=True))
    apart = {name: _apart(results[name], found[other]) for name, other in names.items()}
    most = tuple(devices.most_held())
    return TrainingRun(program, results, step.rounds, step.shifts, most, apart)


def training_inputs(program: TrainingProgram, seed: int) -> dict[TensorName, Tensor]:
    """Random values for the graph inputs of the whole step; seed and row numbers are what they are.

    Weights are divided by their longest rank, so that sums of products are near 1 and functions such as tanh, whose
    derivative far from 0 is a difference of equal numbers, are not saturated.
    """
    drawn = random_inputs(program.whole.workload, seed)
    drawn |= {tensor: drawn[tensor] / max(drawn[tensor].shape) for tensor in program.whole.gradients}
    return drawn | program.whole.inputs()


def wanted(program: TrainingProgram) -> list[TensorName]:
    """Gradients by weights, and new weights."""
    made = program.part
    return [*made.gradients.values(), *(made.update.weights.values() if made.update else ())]


def _wanted_of_whole(program: TrainingProgram) -> list[TensorName]:
    made = program.whole
    return [*made.gradients.values(), *(made.update.weights.values() if made.update else ())]


def _apart(found: Tensor, expected: Tensor) -> float:
    difference = np.abs(found - expected).max(initial=0.0)
    return float(difference / max(1.0, np.abs(expected).max(initial=0.0))) if np.isfinite(difference) else np.inf


class _Run:
    """The state of a run: what each stage has received, and which actions are still to be done."""

    def __init__(self, program: TrainingProgram, devices: Devices, inputs: Mapping[TensorName, Tensor]) -> None:
        self._program, self._devices, self._inputs = program, devices, inputs
        self.rounds = self.shifts = 0
        rows = program.schedule.steps
        self._todo = [[action for step in row for action in step] for _ in range(program.groups) for row in rows]
        self._mail: dict[tuple[int, int, int], dict[TensorName, Tensor]] = {}
        self._arrived: dict[tuple[int, int, int], set[TensorName]] = {}

    def results(self) -> Mapping[TensorName, Tensor]:
        """Gradients and new weights, once all actions are done."""
        program = self._program
        made = program.part
        weights = {t: self._inputs[t] for t in graph_inputs(made.workload) if t not in program.cut}
        self._devices.begin(made.workload, weights, len(self._todo))
        while any(self._todo):
            self._round()
        found = self._devices.sums()
        # the reduction over groups of devices, and over stages that read one weight
        total = {t: sum((one[t] for one in found if t in one), np.zeros(())) for t in program.summed}
        einsums = [*program.totals, *(e.name for e in made.update.einsums)] if made.update else [*program.totals]
        return self._devices.finish(einsums, total, wanted(program))

    def _round(self) -> None:
        """One action of each device that has what it needs."""
        chosen = [self._ready(device, todo) for device, todo in enumerate(self._todo)]
        if not any(chosen):
            waiting = ", ".join(str(todo[0]) for todo in self._todo if todo)
            raise SpecError(f"the devices wait for one another: {waiting}", hint="take another schedule")
        self.rounds += 1
        tasks = [self._task(device, action) if action else None for device, action in enumerate(chosen)]
        for device, (action, sent) in enumerate(zip(chosen, self._devices.do(tasks), strict=True)):
            if action is None:
                continue
            self._todo[device].pop(0)
            group = device // self._program.schedule.devices
            for tensor, values in sent.items():
                for stage in self._program.receivers(tensor):
                    key = group, stage, action.micro_batch
                    self._mail.setdefault(key, {})[tensor] = values
                    self._arrived.setdefault(key, set()).add(tensor)
                    self.shifts += 1

    def _ready(self, device: int, todo: Sequence[Action]) -> Action | None:
        if not todo:
            return None
        action, group = todo[0], device // self._program.schedule.devices
        arrived = self._arrived.get((group, action.stage, action.micro_batch), set())
        return action if self._program.needs(action.stage, action.kind) <= arrived else None

    def _task(self, device: int, action: Action) -> Task:
        program, (stage, kind, micro_batch) = self._program, action
        group = device // program.schedule.devices
        kinds: tuple[Kind, ...] = ("I", "W") if kind == "B" else (kind,)
        einsums = tuple(name for one in kinds for name in program.work[stage, one])
        received = self._mail.pop((group, stage, micro_batch), {})
        if kind == "F":
            received |= dict(self._samples(stage, group * program.schedule.micro_batches + micro_batch))
        written = {t for name in einsums for t in program.part.workload.by_name[name].outputs}
        sent = tuple(t for one in kinds for t in program.sends((stage, one)))
        summed = tuple(t for t in program.summed if t in written)
        return Task(stage, micro_batch, einsums, received, sent, summed, kind in ("B", "W"))

    def _samples(self, stage: int, number: int) -> Iterator[tuple[TensorName, Tensor]]:
        """The samples of a micro-batch that a stage reads, in whichever of its actions."""
        program = self._program
        read = program.reads((stage, "F")) | program.reads((stage, "I")) | program.reads((stage, "W"))
        for tensor in sorted(read & program.cut.keys()):
            axis = program.cut[tensor]
            yield tensor, np.split(self._inputs[tensor], program.pieces, axis=axis)[number]
