"""Actions of a stage on its PEs: steps of its plan that each runs, buffers that wait, and those that are sent."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from einmap.distribute.plans.plan import Buffer, BufferName, Local, Move, Plan, PlanStep, buffers_read, buffers_written
from einmap.distribute.training_run.ending import Ending
from einmap.distribute.training_run.stages import SpreadProgram
from einmap.einsum.einsum import TensorName
from einmap.einsum.numeric import shapes
from einmap.visible import brief

type Act = Literal["begin", "F", "I", "W", "B", "reduce", "update"]
"""An action of a device: one of a schedule, what comes before them all, sums of gradients behind them, the update."""
PASSES: Mapping[Act, str] = {"F": "F", "I": "I", "W": "W", "B": "IW"}


@dataclass(frozen=True)
class Part:
    """The part of a plan that an action runs. `kept`: buffers that later actions of the micro-batch read."""

    __repr__ = brief

    steps: tuple[PlanStep, ...] = ()
    kept: tuple[BufferName, ...] = ()


@dataclass(frozen=True)
class PlacedStage:
    """A stage on the PEs of its device. `is_whole`: each Einsum is done as a whole; `parts`: by action; `lasting`:
    buffers that are there from the begin to the end; `words`: for weights and gradients which of them they are.

    Tensors with their buffers: `first`, `samples`: graph inputs that are dealt at the begin and for each micro-batch;
    `arriving`, `sent`: what passes between stages; `handed`: parts of gradients that another stage adds, with that
    stage; `added`: those from others; `results`: what is there at the end.
    """

    __repr__ = brief

    plan: Plan
    is_whole: bool
    parts: Mapping[Act, Part]
    lasting: tuple[BufferName, ...]
    words: Mapping[TensorName, str]
    first: Mapping[TensorName, BufferName] = field(default_factory=dict)
    samples: Mapping[TensorName, BufferName] = field(default_factory=dict)
    arriving: Mapping[TensorName, BufferName] = field(default_factory=dict)
    sent: Mapping[TensorName, BufferName] = field(default_factory=dict)
    handed: Mapping[TensorName, tuple[int, BufferName]] = field(default_factory=dict)
    added: Mapping[TensorName, BufferName] = field(default_factory=dict)
    results: Mapping[TensorName, BufferName] = field(default_factory=dict)


def placed_stages(spread: SpreadProgram) -> tuple[PlacedStage, ...]:
    """The stages of a training step, ready to be run. Raises NotSupportedError for weights that ZeRO cannot cut."""
    return tuple(_placed(spread, number) for number in range(len(spread.stages)))


def _placed(spread: SpreadProgram, number: int) -> PlacedStage:
    program, stage = spread.program, spread.stages[number]
    ending = Ending(spread, number)
    inputs = dict(stage.plan.inputs)
    own = [t for t in inputs if t not in program.stage_of]
    first = {t: inputs[t] for t in own if t not in program.cut} | ending.first
    actions = _Actions(spread, number, ending)
    loss = program.loss
    if program.stage_of[loss] == number and shapes(program.whole.workload)[loss] == shapes(program.part.workload)[loss]:
        made = actions.home(loss)
        ending.results[loss] = ending.add_up(made, ending.over_groups(made.placement), (), made.name)
    parts = actions.parts({*first.values()})
    update = program.part.update
    words = dict.fromkeys(ending.weights, "gradients")
    words |= {weight.tensor: "weights" for weight in ending.weights.values()}
    words |= dict.fromkeys(update.weights.values() if update else (), "weights")
    return PlacedStage(
        replace(stage.plan, buffers=tuple(ending.names.buffers), derived=tuple(ending.einsums)),
        stage.cost is None,
        parts,
        tuple(dict.fromkeys((*first.values(), *(fill.target for fill in ending.fills)))),
        words,
        first=first,
        samples={t: inputs[t] for t in own if t in program.cut},
        arriving={t: inputs[t] for t in inputs if t in program.stage_of},
        sent={t: actions.home(t).name for t in actions.sent},
        handed=ending.handed,
        added=ending.added,
        results=ending.results,
    )


class _Actions:
    """The joint cascade of a stage, cut into actions."""

    def __init__(self, spread: SpreadProgram, number: int, ending: Ending) -> None:
        self.stage, self.program, self.ending = spread.stages[number], spread.program, ending
        self.plan = self.stage.plan
        self.work = {name: kind for kind in "FIW" for name in self.program.work[number, kind]}  # type: ignore[index]
        self.sent = [t for kind in "FIW" for t in self.program.sends((number, kind))]  # type: ignore[arg-type]
        self.gradients = {*ending.weights}
        self.trained = {weight.tensor for weight in ending.weights.values()}
        self.kinds = self._kinds()
        self.again = self._gathered_again()

    def home(self, tensor: TensorName) -> Buffer:
        """The buffer in which a tensor passes to other stages, or is reported."""
        cost = self.stage.cost
        ends = dict(self.plan.outputs)
        if cost is None or (tensor not in cost.placed and tensor in ends):
            return self.plan.by_name[ends.get(tensor, tensor)]
        placement = cost.placed.get(tensor, cost.chosen.homes[tensor][0])
        return next(b for b in self.plan.buffers if b.tensor == tensor and b.placement == placement)

    def _kinds(self) -> list[str | None]:
        """The kind of action of each step: a collective runs as soon as one of its readers needs it; None: nobody does,
        as gradients of weights are summed over micro-batches first.
        """
        steps = self.plan.steps
        kinds: list[str | None] = [self.work.get(s.einsum, "W") if isinstance(s, Local) else None for s in steps]
        written = {name: kinds[i] for i, s in enumerate(steps) if isinstance(s, Local) for name in buffers_written(s)}
        tensors = {self.plan.by_name[name].tensor: kind for name, kind in written.items()}
        wanted = {
            self.home(tensor).name: tensors[tensor] for tensor in (*self.sent, self.program.loss) if tensor in tensors
        }
        for i in reversed(range(len(steps))):
            step = steps[i]
            if isinstance(step, Move) and self.plan.by_name[step.source].tensor not in self.gradients:
                readers = [kinds[j] for j in range(i + 1, len(steps)) if step.target in buffers_read(steps[j])]
                found = [kind for kind in (*readers, wanted.get(step.target)) if kind]
                kinds[i] = min(found, key="FIW".index, default=None)
        return kinds

    def parts(self, lasting: Collection[BufferName]) -> dict[Act, Part]:
        """The part of each action."""
        ending = self.ending
        steps: dict[Act, list[PlanStep]] = {"F": self._steps("F", ()), "I": self._steps("I", ())}
        done = [name for step in steps["I"] for name in buffers_written(step) if not self._is_trained(name)]
        steps |= {"W": self._steps("W", done), "B": self._steps("B", ())}
        stays = {*lasting, *(fill.target for fill in ending.fills)}
        reads = {act: [name for name in _outside(listed) if name not in stays] for act, listed in steps.items()}
        later = {"F": (*reads["I"], *reads["W"], *reads["B"]), "I": tuple(reads["W"])}
        found = {act: Part(tuple(listed), tuple(dict.fromkeys(later.get(act, ())))) for act, listed in steps.items()}
        return found | {
            "begin": Part(tuple(ending.fills)),
            "reduce": Part(tuple(ending.reduce)),
            "update": Part(tuple(ending.update)),
        }

    def _is_trained(self, name: BufferName) -> bool:
        """Whether a buffer has weights that are not kept: ZeRO 3 gathers them for each action."""
        buffer = self.plan.by_name.get(name)
        return self.ending.zero == 3 and buffer is not None and buffer.tensor in self.trained

    def _steps(self, act: Act, there: Collection[BufferName]) -> list[PlanStep]:
        """The steps of an action, with what it gathers again first. `there`: buffers that need not be."""
        made: list[PlanStep] = []
        done = {*there}
        for step, kind in zip(self.plan.steps, self.kinds, strict=True):
            if kind is None or kind not in PASSES[act]:
                continue
            for name in sorted(buffers_read(step)):
                made += self._provided(name, act, done)
            made.append(step)
            done |= buffers_written(step)
            for name in sorted(buffers_written(step)):
                made += self.ending.after.get(name, ())
        return made

    def _provided(self, name: BufferName, act: Act, done: set[BufferName]) -> list[PlanStep]:
        """Steps that gather a buffer which an action reads, where it does not wait as it is read."""
        if name in done or name in self.ending.first.values():
            return []
        done.add(name)
        if name in self.ending.gathers:
            return [self.ending.gathers[name]]
        if self._is_trained(name):
            move = next(s for s in self.plan.steps if isinstance(s, Move) and s.target == name)
            return [*self._provided(move.source, act, done), move]
        return list(self.again.get(name, ())) if act != "F" else []

    def _gathered_again(self) -> dict[BufferName, list[PlanStep]]:
        """By the buffer that the backward pass reads the gathers that make it from what waits."""
        plan, found = self.plan, dict[BufferName, list[PlanStep]]()
        there = [name for _, name in plan.inputs]
        there += [n for s, kind in zip(plan.steps, self.kinds, strict=True) if kind == "F" for n in buffers_written(s)]
        lies = {(plan.by_name[name].tensor, plan.by_name[name].placement): name for name in there}
        for tensor, (kept, read) in (self.stage.cost.gathered if self.stage.cost else {}).items():
            if (tensor, kept) in lies and (tensor, read) in lies:
                steps = self._gathers(lies[tensor, kept], lies[tensor, read])
                if steps is not None:
                    found[lies[tensor, read]] = steps
        return found

    def _gathers(self, source: BufferName, target: BufferName) -> list[PlanStep] | None:
        """All-gathers from one buffer to another one, rank by rank; None where it takes more than that."""
        before, after = self.plan.by_name[source].placement, self.plan.by_name[target].placement
        steps: list[PlanStep] = []
        for split in before.splits:
            whole = after.of(split.rank)
            axes = whole.axes if whole else ()
            if split == whole:
                continue
            if split.axes[: len(axes)] != axes or split.halo:
                return None
            rest = [one for one in before.splits if one.rank != split.rank]
            before = replace(before, splits=(*rest, whole) if whole else tuple(rest))
            tensor = self.plan.by_name[source].tensor
            name = target if before == after else self.ending.names.make(tensor, "G", before)
            steps.append(Move("all_gather", source, name, split.axes[len(axes) :], gather=split.rank))
            source = name
        return steps if before == after and steps else None


def _outside(steps: Sequence[PlanStep]) -> list[BufferName]:
    """Buffers that steps read before they write them."""
    made, found = set[BufferName](), dict[BufferName, None]()
    for step in steps:
        found |= dict.fromkeys(name for name in sorted(buffers_read(step)) if name not in made)
        made |= buffers_written(step)
    return list(found)
