"""A process that is a device of a pipeline, for the engine on JAX; and the devices of all processes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from einmap.distribute.backends.jax.encoding import decode, encode
from einmap.distribute.backends.jax.messages import Message
from einmap.distribute.backends.jax.processes import Command, Processes
from einmap.distribute.training_run.device import Device, Task
from einmap.einsum.einsum import TensorName
from einmap.einsum.numeric import Tensor
from einmap.einsum.workload import Workload

TIME_LIMIT = 600.0
"""Seconds in which a process answers."""


def start(_: Mapping[str, Any]) -> DeviceServer:
    """Set JAX up, for values of 64 bits."""
    import jax

    jax.config.update("jax_enable_x64", True)
    return DeviceServer()


class DeviceServer:
    """Answers `begin`, `do`, `rest`, `sums`, `finish` and `held`."""

    def __init__(self) -> None:
        self._device = Device(Workload(()), {})

    def answer(self, request: Message) -> Message:
        """See `jax.worker.Server`."""
        from einmap.distribute.training_run.on_jax import compute

        asked = request.document
        match asked["do"]:
            case "begin":
                self._device = Device(decode(asked["workload"]), request.arrays, compute)
                return Message({})
            case "do":
                fields = {name: tuple(asked[name]) for name in ("einsums", "sent", "summed")}
                task = Task(asked["stage"], asked["micro_batch"], received=request.arrays, last=asked["last"], **fields)
                return Message({}, self._device.do(task))
            case "sums":
                return Message({}, self._device.sums())
            case "finish":
                return Message({}, self._device.finish(asked["einsums"], request.arrays, asked["wanted"]))
            case "held":
                return Message({"most_held": self._device.most_held})
            case _:
                return Message({})

    def close(self) -> None:
        """Nothing is left to part from."""


class ProcessDevices:
    """Devices that are processes of this machine, one each. Use it as a context manager."""

    def __init__(self, time_limit: float = TIME_LIMIT) -> None:
        self._time_limit = time_limit
        self._count = 0
        self._processes: Processes | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._processes is not None:
            self._processes.__exit__(kind, error, trace)

    def begin(self, workload: Workload, weights: Mapping[TensorName, Tensor], count: int) -> None:
        """See `run.Devices`."""
        command = Command((__name__, json.dumps({})), {"JAX_PLATFORMS": "cpu"})
        self._processes = Processes([command] * count)
        self._count = count
        self._ask([Message({"do": "begin", "workload": encode(workload)}, weights)] * count)

    def _ask(self, requests: Sequence[Message]) -> list[Message]:
        assert self._processes is not None
        return self._processes.ask(requests, self._time_limit)

    def do(self, tasks: Sequence[Task | None]) -> list[Mapping[TensorName, Tensor]]:
        """See `run.Devices`."""
        return [answer.arrays for answer in self._ask([_request(task) for task in tasks])]

    def sums(self) -> list[Mapping[TensorName, Tensor]]:
        """See `run.Devices`."""
        return [answer.arrays for answer in self._ask([Message({"do": "sums"})] * self._count)]

    def finish(
        self, einsums: Sequence[str], given: Mapping[TensorName, Tensor], wanted: Sequence[TensorName]
    ) -> Mapping[TensorName, Tensor]:
        """See `run.Devices`."""
        request = Message({"do": "finish", "einsums": [*einsums], "wanted": [*wanted]}, given)
        return self._ask([request] * self._count)[0].arrays

    def most_held(self) -> list[int]:
        """See `run.Devices`."""
        return [int(answer.document["most_held"]) for answer in self._ask([Message({"do": "held"})] * self._count)]


def _request(task: Task | None) -> Message:
    if task is None:
        return Message({"do": "rest"})
    names = ("stage", "micro_batch", "einsums", "sent", "summed", "last")
    return Message({"do": "do"} | {name: getattr(task, name) for name in names}, task.received)
