"""A training step run: all devices in turn, what passes between them, sums of gradients, and the update."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from einmap.distribute.backends.base import collect, deal
from einmap.distribute.pipelines.schedule import Action, Kind
from einmap.distribute.plans.plan import Buffer, BufferName
from einmap.distribute.training_run.actions import PlacedStage, placed_stages
from einmap.distribute.training_run.device import Device, LocalSteps, Task
from einmap.distribute.training_run.program import TrainingProgram
from einmap.distribute.training_run.stages import SpreadProgram, spread_program
from einmap.einsum.einsum import TensorName
from einmap.einsum.numeric import Tensor, random_inputs, run
from einmap.einsum.spaces.projection import Rank
from einmap.errors import SpecError
from einmap.visible import brief

AGREES = 1e-10
"""The largest difference from the unpartitioned step, relative to the largest value of a tensor."""
SHIFT = "pipeline shift"
"""Tensors that go from stage to stage, in the words of `training.step`."""

type Arrays = dict[BufferName, list[Tensor]]
"""The array of each PE of a device, by buffer."""


class Devices(Protocol):
    """Devices that do tasks at one time, each of so many PEs, which do the same on parts of tensors."""

    def begin(self, stages: Sequence[Mapping[int, PlacedStage]], values: Sequence[Mapping[int, Arrays]]) -> None:
        """Set devices up, each with its stages and what they begin with."""

    def do(self, tasks: Sequence[Task | None]) -> list[Arrays]:
        """Do a task on each device, or none; what others need of it."""

    def most_held(self) -> list[int]:
        """The largest number of micro-batches that each device has held at one time."""

    def moved(self) -> list[Mapping[str, float]]:
        """Bytes that a PE of each device has sent to PEs of the same device, by what and how."""


class LocalDevices:
    """Devices in this process, one after another; the reference evaluation."""

    def __init__(self) -> None:
        self._devices: list[Device] = []

    def begin(self, stages: Sequence[Mapping[int, PlacedStage]], values: Sequence[Mapping[int, Arrays]]) -> None:
        """See `Devices`."""
        self._devices = [Device(own, given, LocalSteps()) for own, given in zip(stages, values, strict=True)]

    def do(self, tasks: Sequence[Task | None]) -> list[Arrays]:
        """See `Devices`."""
        return [device.do(task) if task else {} for device, task in zip(self._devices, tasks, strict=True)]

    def most_held(self) -> list[int]:
        """See `Devices`."""
        return [device.most_held for device in self._devices]

    def moved(self) -> list[Mapping[str, float]]:
        """See `Devices`."""
        return [device.moved for device in self._devices]


@dataclass(frozen=True)
class TrainingRun:
    """A training step that was run. `results`: the loss, where it is one for all samples, gradients and new weights by
    name; `rounds`: times at which all devices did an action or waited; `shifts`: tensors that went from a stage to
    another one, for each group; `most_held`: by device of a pipeline the largest number of micro-batches held at one
    time; `apart`: for each result the difference from that of the unpartitioned step, relative to its largest value;
    `moved`: bytes of values of 64 bits that a PE of each device has sent, by what and how; `spread`: what was run.
    """

    __repr__ = brief

    program: TrainingProgram
    results: Mapping[TensorName, Tensor]
    rounds: int
    shifts: int
    most_held: tuple[int, ...]
    apart: Mapping[TensorName, float]
    moved: tuple[Mapping[str, float], ...]
    spread: SpreadProgram

    @property
    def predicted(self) -> tuple[Mapping[str, float], ...] | None:
        """Bytes as `moved` has them, by the model of `train-plan`; None where that has no plan of such Einsums."""
        return self.spread.predicted

    @property
    def difference(self) -> float:
        """The largest difference of all results."""
        return max(self.apart.values())

    @property
    def agrees(self) -> bool:
        """Whether it is the unpartitioned step, up to the rounding of float64."""
        return self.difference <= AGREES

    @property
    def moves(self) -> tuple[tuple[int, str, float, float | None], ...]:
        """For each device and each way to send something: bytes that were sent, and bytes that were predicted."""
        predicted = self.predicted if self.predicted is not None else (None,) * len(self.moved)
        return tuple(
            (device, what, own.get(what, 0.0), None if told is None else told.get(what, 0.0))
            for device, (own, told) in enumerate(zip(self.moved, predicted, strict=True))
            for what in sorted({*own, *(told or ())})
        )


def run_training(program: TrainingProgram, devices: Devices, seed: int = 0) -> TrainingRun:
    """Run a training step on random data, and the unpartitioned step beside it.

    Raises SpecError where the devices would wait for one another for ever, or a stage has no way over its PEs,
    NotSupportedError for what cannot be spread over them.
    """
    spread = spread_program(program)
    inputs = training_inputs(program, seed)
    found = run(program.whole.workload, inputs)
    step = _Run(program, placed_stages(spread), devices, inputs)
    results = step.results()
    names = dict(zip(wanted(program), _wanted_of_whole(program), strict=True))
    apart = {name: _apart(results[name], found[other]) for name, other in names.items() if name in results}
    most = tuple(devices.most_held())
    shifted = ({SHIFT: float(size)} if size else {} for size in step.sent)
    moved = tuple({**own, **more} for own, more in zip(devices.moved(), shifted, strict=True))
    return TrainingRun(program, results, step.rounds, step.shifts, most, apart, moved, spread)


def training_inputs(program: TrainingProgram, seed: int) -> dict[TensorName, Tensor]:
    """Random values for the graph inputs of the whole step; seed and row numbers are what they are.

    Weights are divided by their longest rank, so that sums of products are near 1 and functions such as tanh, whose
    derivative far from 0 is a difference of equal numbers, are not saturated.
    """
    drawn = random_inputs(program.whole.workload, seed)
    drawn |= {tensor: drawn[tensor] / max(drawn[tensor].shape) for tensor in program.whole.gradients}
    return drawn | program.whole.inputs()


def wanted(program: TrainingProgram) -> list[TensorName]:
    """The loss, gradients by weights, and new weights."""
    made = program.part
    return [program.loss, *made.gradients.values(), *(made.update.weights.values() if made.update else ())]


def _wanted_of_whole(program: TrainingProgram) -> list[TensorName]:
    made = program.whole
    return [program.loss, *made.gradients.values(), *(made.update.weights.values() if made.update else ())]


def _apart(found: Tensor, expected: Tensor) -> float:
    difference = np.abs(found - expected).max(initial=0.0)
    return float(difference / max(1.0, np.abs(expected).max(initial=0.0))) if np.isfinite(difference) else np.inf


class _Run:
    """The state of a run: what each stage has received, and which actions are still to be done."""

    def __init__(
        self,
        program: TrainingProgram,
        stages: Sequence[PlacedStage],
        devices: Devices,
        inputs: Mapping[TensorName, Tensor],
    ) -> None:
        self._program, self._stages, self._devices, self._inputs = program, stages, devices, inputs
        self.rounds = self.shifts = 0
        self._todo = [[action for step in row for action in step] for row in program.schedule.steps]
        self.sent = [0] * len(self._todo)
        self._mail: dict[tuple[int, int], Arrays] = {}
        self._arrived: dict[tuple[int, int], set[TensorName]] = {}

    def results(self) -> Mapping[TensorName, Tensor]:
        """The loss, gradients and new weights, once all actions are done."""
        first = [self._dealt(stage, stage.first, self._inputs) for stage in self._stages]
        on = [[i for i, at in enumerate(self._program.schedule.device_of) if at == d] for d in range(len(self._todo))]
        self._devices.begin(
            [{i: self._stages[i] for i in own} for own in on], [{i: first[i] for i in own} for own in on]
        )
        while any(self._todo):
            self._round()
        return self._ended()

    # values of all PEs

    def _dealt(
        self, stage: PlacedStage, buffers: Mapping[TensorName, BufferName], whole: Mapping[TensorName, Tensor]
    ) -> Arrays:
        """Whole tensors in the parts of the PEs of a stage."""
        plan = stage.plan
        return {
            name: deal(plan, plan.by_name[name], _turned(whole[tensor], self._ranks(tensor), plan.by_name[name].ranks))
            for tensor, name in buffers.items()
        }

    def _ranks(self, tensor: TensorName) -> tuple[Rank, ...]:
        return tuple(rank for rank, _ in self._program.sizes[0][tensor])

    def _collected(self, stage: PlacedStage, name: BufferName, arrays: Sequence[Tensor]) -> Tensor:
        buffer = stage.plan.by_name[name]
        ranks = self._ranks(buffer.tensor) if buffer.tensor in self._program.sizes[0] else buffer.ranks
        return _turned(collect(stage.plan, buffer, arrays), buffer.ranks, ranks)

    def _samples(self, number: int, micro_batch: int) -> Arrays:
        """The samples of a micro-batch that a stage reads, in whichever of its actions: each group has its own."""
        program, stage, found = self._program, self._stages[number], dict[BufferName, list[Tensor]]()
        groups, batches = program.groups(number), program.schedule.micro_batches
        pes = stage.plan.mesh.n_devices // groups
        for group in range(groups):
            piece = micro_batch * groups + group
            whole = {
                tensor: np.split(self._inputs[tensor], batches * groups, axis=program.cut[tensor])[piece]
                for tensor in stage.samples
            }
            for name, arrays in self._dealt(stage, stage.samples, whole).items():
                found.setdefault(name, []).extend(arrays[group * pes : (group + 1) * pes])
        return found

    # actions

    def _round(self) -> None:
        """One action of each device that has what it needs."""
        chosen = [self._ready(todo) for todo in self._todo]
        if not any(chosen):
            waiting = ", ".join(str(todo[0]) for todo in self._todo if todo)
            raise SpecError(f"the devices wait for one another: {waiting}", hint="take another schedule")
        self.rounds += 1
        tasks = [self._task(action) if action else None for action in chosen]
        for device, (action, sent) in enumerate(zip(chosen, self._devices.do(tasks), strict=True)):
            if action is None:
                continue
            self._todo[device].pop(0)
            stage = self._stages[action.stage]
            for tensor, name in stage.sent.items():
                if name not in sent:
                    continue
                for receiver in self._program.receivers(tensor):
                    self._send(action, stage.plan.by_name[name], sent[name], receiver)

    def _send(self, action: Action, buffer: Buffer, arrays: list[Tensor], receiver: int) -> None:
        key, sender, stage = (receiver, action.micro_batch), self._stages[action.stage], self._stages[receiver]
        name = stage.arriving[buffer.tensor]
        target = stage.plan.by_name[name]
        if sender.plan.mesh == stage.plan.mesh:
            dealt = [_turned(values, buffer.ranks, target.ranks) for values in arrays]
        else:
            dealt = self._dealt_anew(action.stage, buffer, arrays, receiver)
        self._mail.setdefault(key, {})[name] = dealt
        self._arrived.setdefault(key, set()).add(buffer.tensor)
        self.shifts += self._program.groups(action.stage)
        device_of = self._program.schedule.device_of
        if device_of[receiver] != device_of[action.stage]:
            self.sent[device_of[action.stage]] += sum(values.nbytes for values in dealt) // len(arrays)

    def _dealt_anew(self, number: int, buffer: Buffer, arrays: Sequence[Tensor], other: int) -> list[Tensor]:
        """Arrays of the PEs of a stage in the parts of a stage on a sub-mesh of another size, group by group; where
        that has more or fewer groups their samples are grouped anew.
        """
        sender, receiver, found = self._stages[number], self._stages[other], list[Tensor]()
        mine, groups = self._program.groups(number), self._program.groups(other)
        own, pes = len(arrays) // mine, receiver.plan.mesh.n_devices // groups
        # a group alone, beside copies of itself
        alone = ([*arrays[group * own : (group + 1) * own]] * mine for group in range(mine))
        whole = [self._collected(sender, buffer.name, one) for one in alone]
        axis = self._program.axis(buffer.tensor, number, other)
        if axis is not None:
            whole = np.split(np.concatenate(whole, axis), groups, axis)
        names = {buffer.tensor: receiver.arriving[buffer.tensor]}
        for group, values in enumerate(whole):
            (dealt,) = self._dealt(receiver, names, {buffer.tensor: values}).values()
            found += dealt[group * pes : (group + 1) * pes]
        return found

    def _ready(self, todo: Sequence[Action]) -> Action | None:
        if not todo:
            return None
        action = todo[0]
        arrived = self._arrived.get((action.stage, action.micro_batch), set())
        return action if self._program.needs(action.stage, action.kind) <= arrived else None

    def _task(self, action: Action) -> Task:
        program, (number, kind, micro_batch) = self._program, action
        stage = self._stages[number]
        kinds: tuple[Kind, ...] = ("I", "W") if kind == "B" else (kind,)
        received = self._mail.pop((number, micro_batch), {})
        if kind == "F":
            received |= self._samples(number, micro_batch)
        sent = tuple(stage.sent[t] for one in kinds for t in program.sends((number, one)))
        return Task(number, kind, micro_batch, received, sent, kind in ("B", "W"))

    # the end of the step

    def _ended(self) -> Mapping[TensorName, Tensor]:
        handed: list[Arrays] = []
        for number, stage in enumerate(self._stages):
            names = tuple(name for _, name in stage.handed.values())
            handed.append(self._asked(number, Task(number, "reduce", wanted=names, last=True)))
        whole: dict[TensorName, Tensor] = {}
        for number, stage in enumerate(self._stages):
            for tensor, (owner, name) in stage.handed.items():
                whole[tensor] = self._collected(stage, name, handed[number][name])
                device_of = self._program.schedule.device_of
                if device_of[owner] != device_of[number]:
                    self.sent[device_of[number]] += handed[number][name][0].nbytes
        results: dict[TensorName, Tensor] = {}
        for number, stage in enumerate(self._stages):
            plan = stage.plan
            added: Arrays = {}
            for tensor, name in stage.added.items():
                added[name] = deal(plan, plan.by_name[name], whole[tensor])
            task = Task(number, "update", 0, added, tuple(stage.results.values()), last=True)
            arrays = self._asked(number, task)
            results |= {t: self._collected(stage, name, arrays[name]) for t, name in stage.results.items()}
        return results

    def _asked(self, number: int, task: Task) -> Arrays:
        """Let the device of a stage do a task while the others wait; its answer."""
        at = self._program.schedule.device_of[number]
        return self._devices.do([task if device == at else None for device in range(len(self._todo))])[at]


def _turned(values: Tensor, ranks: Sequence[Rank], wanted: Sequence[Rank]) -> Tensor:
    """The array with its axes in another order."""
    return values.transpose([list(ranks).index(rank) for rank in wanted])
