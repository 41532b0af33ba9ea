"""A schedule of a pipeline as data: the actions of each device, in order.

A model is cut into stages 0, 1, ...; a micro-batch passes them forward (`F`) and then backward. The backward pass of a
stage is one action (`B`), or two: the gradient of its inputs (`I`), for which the stage before waits, and the gradient
of its weights (`W`), for which nobody waits (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice, product
from typing import Literal, NamedTuple

from einmap.errors import SpecError

type Kind = Literal["F", "I", "W", "B"]
KINDS: tuple[Kind, ...] = ("F", "I", "W", "B")
"""Forward; backward for inputs, for weights; the whole backward pass."""
SPLIT: tuple[Kind, ...] = ("F", "I", "W")
"""The kinds of a schedule whose backward passes are in two parts."""
_SHOWN = 5


class Action(NamedTuple):
    """One pass of a micro-batch through a stage, on its device. Written as PyTorch does: `2F0`."""

    stage: int
    kind: Kind
    micro_batch: int

    def __str__(self) -> str:
        return f"{self.stage}{self.kind}{self.micro_batch}"


type Step = tuple[Action, ...]
"""Actions that a device does as one: a single action, or a forward and a backward that overlap."""


@dataclass(frozen=True)
class PipelineSchedule:
    """Which actions each device does, and in which order. `device_of`: the device of each stage; `name`: of reports.

    Raises SpecError where a micro-batch misses an action, has one twice or on a device that does not have the stage, or
    where a device does an action before another one of its own that it needs.
    """

    device_of: tuple[int, ...]
    steps: tuple[tuple[Step, ...], ...]
    name: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        problem = next(self._problems(), None)
        if problem is not None:
            raise SpecError(f"not a schedule of a pipeline: {problem}")

    @property
    def devices(self) -> int:
        """Number of devices."""
        return len(self.steps)

    @property
    def stages(self) -> int:
        """Number of stages."""
        return len(self.device_of)

    @cached_property
    def micro_batches(self) -> int:
        """Number of micro-batches."""
        return 1 + max((action.micro_batch for action in self.actions()), default=-1)

    def actions(self) -> Iterator[Action]:
        """All actions, device by device."""
        return (action for steps in self.steps for step in steps for action in step)

    def _problems(self) -> Iterator[str]:
        if set(self.device_of) - set(range(self.devices)):
            yield f"stages are on devices {sorted(set(self.device_of))}, there are {self.devices} rows"
        times = Counter(self.actions())
        yield from (f"{action} is there {n} times" for action, n in times.items() if n > 1)
        for device, steps in enumerate(self.steps):
            yield from self._misplaced(device, steps)
        missing = list(islice(self._missing(times), _SHOWN))
        if missing:
            yield f"missing are {', '.join(map(str, missing))}{', ...' if len(missing) == _SHOWN else ''}"

    def _missing(self, times: Mapping[Action, int]) -> Iterator[Action]:
        """Actions that are not there, one after the other: a file may name a micro-batch of any number."""
        for stage, batch in product(range(self.stages), range(self.micro_batches)):
            is_whole = Action(stage, "B", batch) in times
            for kind in ("F", "B") if is_whole else SPLIT:
                if (action := Action(stage, kind, batch)) not in times:
                    yield action

    def _misplaced(self, device: int, steps: Sequence[Step]) -> Iterator[str]:
        done: set[Action] = set()
        for step in steps:
            for action in step:
                if not 0 <= action.stage < self.stages or self.device_of[action.stage] != device:
                    yield f"{action} is not an action of device {device}"
                for needed in needed_here(action):
                    if needed not in done:
                        yield f"{action} of device {device} comes before {needed}"
                if action.kind == "B" and Action(action.stage, "I", action.micro_batch) in done:
                    yield f"{action} of device {device} follows a backward pass in two parts"
            done.update(step)


def needed_here(action: Action) -> tuple[Action, ...]:
    """Actions of the same stage that come first."""
    match action.kind:
        case "F":
            return ()
        case "W":
            return (action._replace(kind="I"),)
        case _:
            return (action._replace(kind="F"),)


def looped(devices: int, chunks: int) -> tuple[int, ...]:
    """The device of each stage where stages go round the devices `chunks` times."""
    return tuple(stage % devices for stage in range(devices * chunks))


def folded(devices: int) -> tuple[int, ...]:
    """The device of each of twice as many stages that go to the last device and back, in the form of a V."""
    return (*range(devices), *reversed(range(devices)))
