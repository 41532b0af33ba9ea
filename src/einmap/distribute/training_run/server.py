"""Processes that are the PEs of the devices of a pipeline, for the engine on JAX; and the devices of all processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from types import TracebackType
from typing import Any, Self

from einmap.distribute.backends.jax.encoding import decode, encode
from einmap.distribute.backends.jax.engine import JaxOptions, commands_of
from einmap.distribute.backends.jax.messages import Message
from einmap.distribute.backends.jax.processes import Processes
from einmap.distribute.training_run.actions import Part, PlacedStage
from einmap.distribute.training_run.device import Device, Task
from einmap.distribute.training_run.run import Arrays

TIME_LIMIT = 600.0
"""Seconds in which a process answers."""


def start(settings: Mapping[str, Any]) -> DeviceServer:
    """Set JAX up, for values of 64 bits, together with the other PEs of the device if there are any."""
    from einmap.distribute.backends.jax.server import set_up

    set_up(settings)
    peers = settings["peers"]
    return DeviceServer(peers["process"] if peers else 0, is_joined=peers is not None)


class DeviceServer:
    """Answers `begin`, `do`, `rest` and `end`. `place`: of the PE in its device."""

    def __init__(self, place: int, *, is_joined: bool) -> None:
        self._place, self._is_joined = place, is_joined
        self._device: Device | None = None

    def answer(self, request: Message) -> Message:
        """See `jax.worker.Server`."""
        from einmap.distribute.training_run.on_jax import JaxSteps

        asked = request.document
        if asked["do"] == "begin":
            stages = {int(number): _decoded(document) for number, document in asked["stages"].items()}
            values: dict[int, dict[str, Any]] = {number: {} for number in stages}
            for key, array in request.arrays.items():
                number, _, name = key.partition(" ")
                values[int(number)][name] = array
            self._device = Device(stages, values, JaxSteps(self._place))
            return Message({})
        device = self._device
        assert device is not None
        match asked["do"]:
            case "do":
                task = Task(
                    asked["stage"], asked["act"], asked["micro_batch"], request.arrays, tuple(asked["wanted"]),
                    asked["last"],
                )  # fmt: skip
                return Message({}, device.do(task))
            case "end":
                return Message({"most_held": device.most_held, "moved": dict(device.moved)})
            case _:
                return Message({})

    def close(self) -> None:
        """Part from the peers."""
        if self._is_joined:
            import jax

            jax.distributed.shutdown()


class ProcessDevices:
    """Devices whose PEs are processes of this machine, one each. Use it as a context manager."""

    def __init__(self, time_limit: float = TIME_LIMIT) -> None:
        self._time_limit = time_limit
        self._pes: tuple[int, ...] = ()
        self._processes: Processes | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._processes is not None:
            self._processes.__exit__(kind, error, trace)

    def begin(self, stages: Sequence[Mapping[int, PlacedStage]], values: Sequence[Mapping[int, Arrays]]) -> None:
        """See `run.Devices`."""
        self._pes = tuple(next(iter(own.values())).plan.mesh.n_devices for own in stages)
        options = [JaxOptions(devices=1, processes=pes) for pes in self._pes]
        commands = [command for each in options for command in commands_of(each, __name__)]
        self._processes = Processes(commands)
        requests = []
        for own, given, pes in zip(stages, values, self._pes, strict=True):
            document = {"do": "begin", "stages": {str(number): _encoded(stage) for number, stage in own.items()}}
            for pe in range(pes):
                arrays = {f"{i} {name}": every[pe] for i, found in given.items() for name, every in found.items()}
                requests.append(Message(document, arrays))
        self._ask(requests)

    def _ask(self, requests: Sequence[Message]) -> list[Message]:
        assert self._processes is not None
        return self._processes.ask(requests, self._time_limit)

    def do(self, tasks: Sequence[Task | None]) -> list[Arrays]:
        """See `run.Devices`."""
        pairs = zip(tasks, self._pes, strict=True)
        answers = self._ask([_request(task, pe) for task, pes in pairs for pe in range(pes)])
        found: list[Arrays] = []
        for begin, end in pairwise((0, *accumulate(self._pes))):
            own = answers[begin:end]
            found.append({name: [answer.arrays[name] for answer in own] for name in own[0].arrays})
        return found

    def _ends(self) -> list[Mapping[str, Any]]:
        answers = self._ask([Message({"do": "end"})] * sum(self._pes))
        return [answers[begin].document for begin in (0, *accumulate(self._pes[:-1]))]

    def most_held(self) -> list[int]:
        """See `run.Devices`."""
        return [int(one["most_held"]) for one in self._ends()]

    def moved(self) -> list[Mapping[str, float]]:
        """See `run.Devices`."""
        return [one["moved"] for one in self._ends()]


def _request(task: Task | None, pe: int) -> Message:
    if task is None:
        return Message({"do": "rest"})
    names = ("stage", "act", "micro_batch", "wanted", "last")
    arrays = {name: every[pe] for name, every in task.received.items()}
    return Message({"do": "do"} | {name: getattr(task, name) for name in names}, arrays)


def _encoded(stage: PlacedStage) -> dict[str, Any]:
    """The document of a stage, as far as a process needs it."""
    parts = {act: [encode(part.steps), part.kept] for act, part in stage.parts.items()}
    return {
        "plan": encode(stage.plan), "is_whole": stage.is_whole, "parts": parts, "lasting": stage.lasting,
        "words": dict(stage.words),
    }  # fmt: skip


def _decoded(document: Mapping[str, Any]) -> PlacedStage:
    parts = {act: Part(decode(steps), tuple(kept)) for act, (steps, kept) in document["parts"].items()}
    return PlacedStage(
        decode(document["plan"]), document["is_whole"], parts, tuple(document["lasting"]), document["words"]
    )
