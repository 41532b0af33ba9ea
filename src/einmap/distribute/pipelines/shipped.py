"""The schedules of pipelines that have names."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from einmap.distribute.pipelines.schedule import SPLIT, Action, Kind, PipelineSchedule, Step, folded, looped
from einmap.errors import SpecError, did_you_mean
from einmap.units import counted


@dataclass(frozen=True, slots=True)
class Named:
    """A schedule by name: `make(devices, micro_batches, chunks)`; a sentence on it, and where it is from."""

    make: Callable[[int, int, int], PipelineSchedule]
    text: str
    source: str
    takes_chunks: bool = False


class _Device:
    """The steps of one device while they are written: the next micro-batch of each stage and kind is known."""

    def __init__(self, *stages: int) -> None:
        self.stages = stages
        self.steps: list[Step] = []
        self._next: dict[tuple[int, Kind], int] = {}

    def do(self, *actions: tuple[Kind, int]) -> None:
        """One step; each action is its kind and the number of the stage on the device."""
        step = []
        for kind, chunk in actions:
            number = self.done(kind, chunk)
            self._next[chunk, kind] = number + 1
            step.append(Action(self.stages[chunk], kind, number))
        self.steps.append(tuple(step))

    def done(self, kind: Kind, chunk: int = 0) -> int:
        """Micro-batches that have had an action of this kind."""
        return self._next.get((chunk, kind), 0)


def fill_drain(devices: int, batches: int, _chunks: int = 1) -> PipelineSchedule:
    """All micro-batches forward, then all backward. The bubble is (p - 1)(F + I + W)."""
    rows = []
    for number in range(devices):
        device = _Device(number)
        for _ in range(batches):
            device.do(("F", 0))
        for _ in range(batches):
            device.do(("B", 0))
        rows.append(tuple(device.steps))
    return PipelineSchedule(looped(devices, 1), tuple(rows))


def one_forward_one_backward(devices: int, batches: int, _chunks: int = 1) -> PipelineSchedule:
    """Device i begins with p - 1 - i forward passes, then each is followed by a backward pass.

    The bubble is that of `fill_drain`; device i holds p - i micro-batches at most, not all.
    """
    rows = []
    for number in range(devices):
        device = _Device(number)
        first = min(batches, devices - 1 - number)
        for _ in range(first):
            device.do(("F", 0))
        for _ in range(batches - first):
            device.do(("F", 0))
            device.do(("B", 0))
        for _ in range(first):
            device.do(("B", 0))
        rows.append(tuple(device.steps))
    return PipelineSchedule(looped(devices, 1), tuple(rows))


def interleaved(devices: int, batches: int, chunks: int) -> PipelineSchedule:
    """1F1B over `chunks` stages a device: some micro-batches pass one of its stages, then the next one.

    They go in as many equal rounds as there are micro-batches for each device, as PyTorch has it; with p micro-batches
    a round the bubble is that of 1F1B divided by `chunks`. Raises SpecError where rounds cannot be equal.
    """
    rounds = max(1, batches // devices)
    if batches % rounds:
        raise SpecError(
            f"interleaved: {counted(batches, 'micro-batch')} on {counted(devices, 'device')} are not {rounds} equal "
            "rounds",
            hint=f"take a multiple of {devices}, e.g. {devices * (rounds + 1)}",
        )
    device_of, whole, together = looped(devices, chunks), batches * chunks, batches // rounds

    def action(device: int, kind: Kind, number: int) -> Step:
        turn, rest = divmod(number, together * chunks)
        chunk, within = divmod(rest, together)
        if kind == "B":
            chunk = chunks - 1 - chunk
        return (Action(chunk * devices + device, kind, turn * together + within),)

    rows = []
    for device in range(devices):
        first = min(whole, (1 + (chunks > 1)) * (devices - 1 - device) + (chunks - 1) * together)
        steps = [action(device, "F", number) for number in range(first)]
        for number in range(whole - first):
            steps += [action(device, "F", first + number), action(device, "B", number)]
        steps += [action(device, "B", number) for number in range(whole - first, whole)]
        rows.append(tuple(steps))
    return PipelineSchedule(device_of, tuple(rows))


def zero_bubble(devices: int, batches: int, first: Callable[[int], int], most: int) -> PipelineSchedule:
    """Backward passes in two parts; device i begins with `first(i)` forward passes and holds `most` micro-batches.

    A gradient of weights waits until its memory is needed for the next forward pass, or until nothing else is left.
    """
    rows = []
    for number in range(devices):
        device = _Device(number)
        for _ in range(min(batches, first(number))):
            device.do(("F", 0))
        for _ in range(batches):
            device.do(("I", 0))
            is_full = device.done("F") - device.done("W") >= most
            if device.done("F") == batches:  # the others still wait for gradients of inputs: fill their gaps
                is_full = device.done("I") - device.done("W") > number
            if is_full:
                device.do(("W", 0))
            if device.done("F") < batches:
                device.do(("F", 0))
        while device.done("W") < batches:
            device.do(("W", 0))
        rows.append(tuple(device.steps))
    return PipelineSchedule(looped(devices, 1), tuple(rows))


def zb_1p(devices: int, batches: int, _chunks: int = 1) -> PipelineSchedule:
    """A bubble of (p - 1)(F + I - W), with the memory of 1F1B's first device on all devices."""
    return zero_bubble(devices, batches, lambda number: devices - number, devices)


def zb_2p(devices: int, batches: int, _chunks: int = 1) -> PipelineSchedule:
    """No bubble within a device where F = I = W, with twice the memory of 1F1B's first device on all devices."""
    return zero_bubble(devices, batches, lambda number: 2 * (devices - number) - 1, 2 * devices)


def zb_v(devices: int, batches: int, _chunks: int = 1) -> PipelineSchedule:
    """Two stages a device in the form of a V: no bubble within a device where F = I = W, with the memory of 1F1B."""
    rows = []
    enough = max(batches, 2 * devices - 1)  # with fewer micro-batches their actions are left out
    for number in range(devices):
        device = _Device(number, 2 * devices - 1 - number)
        for _ in range(2 * (devices - number) - 1):
            device.do(("F", 0))
        for _ in range(number):
            device.do(("F", 1))
            device.do(("F", 0))
        for _ in range(devices - number):
            for kind in SPLIT:
                device.do((kind, 1))
        while device.done("F", 1) < enough:
            if device.done("F", 0) < enough:
                device.do(("F", 0))
            device.do(("I", 0))
            device.do(("W", 0))
            for kind in SPLIT:
                device.do((kind, 1))
        for _ in range(number):
            device.do(("I", 0))
            device.do(("I", 1))
        for _ in range(devices - number):
            device.do(("I", 0))
            device.do(("W", 0))
        for chunk in (1, 0):
            while device.done("W", chunk) < enough:
                device.do(("W", chunk))
        rows.append(tuple(step for step in device.steps if step[0].micro_batch < batches))
    return PipelineSchedule(folded(devices), tuple(rows))


def dual_pipe_v(devices: int, batches: int, _chunks: int = 1) -> PipelineSchedule:
    """Two stages a device in the form of a V; a forward pass of one overlaps with a backward pass of the other.

    Raises SpecError for fewer than two micro-batches a device.
    """
    if batches < 2 * devices:
        raise SpecError(
            f"dual-pipe-v: {counted(batches, 'micro-batch')} on {counted(devices, 'device')}",
            hint=f"take at least {2 * devices}",
        )
    rows = []
    for number in range(devices):
        device, later = _Device(number, 2 * devices - 1 - number), deque[int]()
        after = devices - number - 1

        def backward(chunk: int, split: bool, device: _Device = device, later: deque[int] = later) -> None:
            device.do(("I" if split else "B", chunk))
            if split:
                later.append(chunk)

        for _ in range(2 * after):
            device.do(("F", 0))
        for _ in range(number + 1):
            device.do(("F", 0))
            device.do(("F", 1))
        for _ in range(after):
            backward(1, split=True)
            device.do(("W", later.popleft()))
            device.do(("F", 1))
        for turn in range(batches - 2 * devices + number + 1):
            if turn == 0 and not after:
                device.do(("F", 0))
                device.do(("B", 1))
            else:
                device.do(("F", 0), ("B", 1))
            device.do(("F", 1), ("B", 0))
        for _ in range(after):
            backward(1, split=False)
            device.do(("F", 1), ("B", 0))
        for turn in range(number + 1):  # from the middle on gradients of weights wait
            backward(1, split=2 * turn > number)
            backward(0, split=2 * turn >= number)
        for _ in range(after):
            device.do(("W", later.popleft()))
            backward(0, split=True)
        while later:
            device.do(("W", later.popleft()))
        rows.append(tuple(_numbered(device)))
    return PipelineSchedule(folded(devices), tuple(rows))


def _numbered(device: _Device) -> list[Step]:
    """The steps with the micro-batch of each backward pass, whole or in two parts, in one count."""
    next_back: dict[int, int] = {}
    split: dict[int, deque[int]] = {}
    steps = []
    for step in device.steps:
        numbered = []
        for action in step:
            stage, kind, number = action
            if kind in ("I", "B"):
                number = next_back.get(stage, 0)
                next_back[stage] = number + 1
                if kind == "I":
                    split.setdefault(stage, deque()).append(number)
            elif kind == "W":
                number = split[stage].popleft()
            numbered.append(Action(stage, kind, number))
        steps.append(tuple(numbered))
    return steps


SCHEDULES: Mapping[str, Named] = {
    "fill-drain": Named(fill_drain, "all forward, then all backward", "Huang et al., GPipe, NeurIPS 2019"),
    "1f1b": Named(
        one_forward_one_backward, "one forward, one backward", "Narayanan et al., PipeDream, SOSP 2019; Megatron-LM"
    ),
    "interleaved": Named(
        interleaved, "1f1b over several stages a device", "Narayanan et al., SC 2021", takes_chunks=True
    ),
    "zb-1p": Named(zb_1p, "backward in two parts, the memory of 1f1b", "Qi et al., ICLR 2024 (ZB-H1)"),
    "zb-2p": Named(zb_2p, "backward in two parts, twice the memory", "Qi et al., ICLR 2024 (ZB-H2)"),
    "zb-v": Named(zb_v, "backward in two parts, two stages a device", "Qi et al., NeurIPS 2024 (controllable memory)"),
    "dual-pipe-v": Named(
        dual_pipe_v, "forward and backward overlap, two stages a device", "DeepSeek-V3 technical report, 2024"
    ),
}
"""By name."""


def pipeline_schedule(name: str, devices: int, micro_batches: int, *, chunks: int = 2) -> PipelineSchedule:
    """A shipped schedule by name; `chunks`: stages of each device, where the schedule leaves them open.

    Raises SpecError for an unknown name and for numbers that the schedule does not know.
    """
    if name not in SCHEDULES:
        raise SpecError(f"no schedule has the name {name!r}", hint=did_you_mean(name, SCHEDULES, listing="schedules"))
    if min(devices, micro_batches, chunks) < 1:
        raise SpecError("a pipeline has at least one device, one stage a device and one micro-batch")
    return replace(SCHEDULES[name].make(devices, micro_batches, chunks), name=name)
