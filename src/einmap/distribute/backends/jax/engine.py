"""The engine `jax`: plans on real devices, with real collectives (`jax.shard_map` over a device mesh).

The parent imports no JAX. It starts processes that do (`server`), sends them plans and arrays, collects the blocks
of the results, and turns whatever happens to a process into an EngineError.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from einmap.distribute.backends.base import Run
from einmap.distribute.backends.check import check_memory
from einmap.distribute.backends.hosts.address import Address
from einmap.distribute.backends.hosts.facts import facts_of
from einmap.distribute.backends.hosts.guest import meet
from einmap.distribute.backends.hosts.meeting import Meeting, Seat
from einmap.distribute.backends.jax.encoding import encode
from einmap.distribute.backends.jax.messages import Message
from einmap.distribute.backends.jax.processes import Command, Processes
from einmap.distribute.backends.observed_collectives import Collective
from einmap.distribute.plans.plan import Buffer, Plan
from einmap.einsum.einsum import TensorName
from einmap.errors import EinmapError, EngineError, InvariantError, SpecError
from einmap.progress import Progress
from einmap.visible import brief

OLDEST_JAX = (0, 7, 0)
"""The first version whose public API has all that is used here."""
PORT_ATTEMPTS = 4
"""Ports that are tried for the coordinator where the user names none."""
SERVER = "einmap.distribute.backends.jax.server"
_PORT_TAKEN = re.compile(
    r"address already in use|failed to bind|could not bind|Failed to (?:start|add) .*(?:port|server)", re.I
)
_OUR_OWN = {
    "JAX_CPU_COLLECTIVES_IMPLEMENTATION": "gloo",
    "JAX_NUM_CPU_DEVICES": "-1",  # XLA_FLAGS says it, in all versions
    # Padding is NaN, and infinities are the neutral elements of max and min: neither is an error.
    "JAX_DEBUG_NANS": "0",
    "JAX_DEBUG_INFS": "0",
    "JAX_DISABLE_JIT": "0",
}
"""Settings of JAX that a user's environment must not change."""
_FORCED = re.compile(r"--xla_force_host_platform_device_count=\d+")


@dataclass(frozen=True)
class JaxOptions:
    """How the engine runs.

    `devices`: of each process, as many as JAX is to make on the CPU; None: as many as the plans need;
    `processes`: on this host; `hosts`, `host`: how many hosts run the same command, and which one this is;
    `coordinator`: "address:port" of host 0, needed for more than one host; `platform`: of the devices: cpu, or one of
    JAX's names (cuda, rocm, tpu, ...), or "any" for the best that JAX finds, whose number is then what is there;
    `time_limit`, `start_limit`: seconds for one request (compilation included), and for starting; `meeting_limit`:
    seconds in which all hosts must be there.

    Raises SpecError for values that fit no machine.
    """

    __repr__ = brief

    devices: int | None = None
    processes: int = 1
    platform: str = "cpu"
    hosts: int = 1
    host: int = 0
    coordinator: str | None = None
    time_limit: float = 600.0
    start_limit: float = 120.0
    meeting_limit: float = 7.0

    def __post_init__(self) -> None:
        for name in ("devices", "processes", "hosts"):
            number = getattr(self, name)
            if number is not None and number < 1:
                raise SpecError(f"{name}: expected a positive number, found {number}")
        if not 0 <= self.host < self.hosts:
            raise SpecError(f"host {self.host}: hosts are numbered from 0 to {self.hosts - 1}")
        if self.hosts > 1 and self.coordinator is None:
            raise SpecError(
                f"{self.hosts} hosts need a coordinator",
                hint="name an address and a free port of host 0, for example 10.0.0.1:9000",
            )
        if self.coordinator is not None:
            Address.parse(self.coordinator)
        for name in ("time_limit", "start_limit", "meeting_limit"):
            if not getattr(self, name) > 0:
                raise SpecError(f"{name}: expected a positive number of seconds, found {getattr(self, name)}")

    @property
    def all_processes(self) -> int:
        """The processes of all hosts."""
        return self.hosts * self.processes

    def check(self, plan: Plan) -> None:
        """Raise SpecError when the mesh of the plan cannot be put on these processes, or not in this memory."""
        needed = plan.mesh.n_devices
        if needed % self.all_processes:
            raise SpecError(
                f"the mesh ({plan.mesh}) has {needed} PEs, which {self.all_processes} processes cannot share evenly",
                hint=f"use a number of processes that divides {needed}",
            )
        if self.platform == "cpu" and self.hosts == 1:
            check_memory(plan)


@dataclass(frozen=True)
class Communication:
    """Communication of a plan as JAX lowers it (`lowered`) and as XLA compiles it (None if it was not compiled)."""

    lowered: tuple[Collective, ...]
    compiled: tuple[Collective, ...] | None


class JaxEngine:
    """Runs plans with JAX. Use it as a context manager: its processes start at the first request and serve all.

    After an EngineError they are gone, and the next request starts new ones.
    """

    def __init__(self, options: JaxOptions | None = None, progress: Progress | None = None) -> None:
        self.options = options or JaxOptions()
        self._progress = progress or Progress()
        self._processes: Processes | None = None
        self._meeting: Meeting | None = None
        self._facts: Mapping[str, Any] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, _error: BaseException | None, _: TracebackType | None) -> None:
        if kind is None:
            self._end(at_once=False)
            self._part(None)
        else:
            self._part(f"it was ended by {kind.__name__}")
            self._end(at_once=True)

    @property
    def pids(self) -> tuple[int, ...]:
        """Ids of the running processes."""
        return self._processes.pids if self._processes is not None else ()

    def check(self, plan: Plan) -> None:
        """See `base.Engine.check`."""
        self.options.check(plan)

    def run(self, plan: Plan, inputs: Mapping[TensorName, NDArray[Any]]) -> Run:
        """See `base.Engine.run`. Raises SpecError for too few devices, EngineError when a process fails."""
        arrays = {tensor: np.asarray(inputs[tensor], dtype=plan.dtype) for tensor, _ in plan.inputs}
        answers = self._ask([plan], Message({"do": "run", "plan": encode(plan)}, arrays))
        outputs = {tensor: _joined(plan, tensor, plan.by_name[name], answers) for tensor, name in plan.outputs}
        communication = _communication(answers[0].document["communication"])
        seconds = max(answer.document["seconds"] for answer in answers)
        return Run(outputs, communication.lowered, communication.compiled, {**self._facts, "seconds": seconds})

    def lower(self, plans: Sequence[Plan], *, compiled: bool = False) -> list[Communication]:
        """The communication of the programs of plans; none is run."""
        request = Message({"do": "lower", "plans": [encode(plan) for plan in plans], "compile": compiled})
        answers = self._ask(plans, request)
        return [_communication(communication) for communication in answers[0].document["communication"]]

    def _ask(self, plans: Sequence[Plan], request: Message) -> list[Message]:
        for plan in plans:
            self.options.check(plan)
        if self.options.coordinator is None or self.options.all_processes == 1:
            return self._answered(plans, request)
        try:
            self._agree(self.options.coordinator, plans, request)
            return self._answered(plans, request)
        except EinmapError as error:
            self._part(error.message)
            self._end(at_once=True)
            raise

    def _answered(self, plans: Sequence[Plan], request: Message) -> list[Message]:
        processes = self._started(plans)
        for plan in plans:
            self._check_devices(plan)
        self._progress.report(f"{request.document['do']} on {self._facts['devices']} devices", 0)
        return processes.ask([request] * self.options.processes, self.options.time_limit)

    def _agree(self, coordinator: str, plans: Sequence[Plan], request: Message) -> None:
        """Wait until all hosts are about to do the same. Raises what `Meeting.agree` does."""
        options = self.options
        if self._meeting is None:
            check_jax()
            address = Address.parse(coordinator)
            seat = Seat(options.host, options.hosts, address, options.meeting_limit, self._report)
            self._meeting = meet(seat)
        described = {
            "number of hosts": options.hosts,
            "processes of each host": options.processes,
            "devices of each process": options.devices or "as many as needed",
            "platform": options.platform,
        }
        self._meeting.agree(facts_of(described, plans, request.arrays, request.document), options.time_limit)

    def _part(self, why: str | None) -> None:
        """End the connection to the other hosts, which hear `why` this one has failed; None: it has not."""
        if self._meeting is not None:
            if why is None:
                self._meeting.close()
            else:
                self._meeting.fail(why)
        self._meeting = None

    def _report(self, what: str) -> None:
        self._progress.report(what, 0)

    def _check_devices(self, plan: Plan) -> None:
        needed, present = plan.mesh.n_devices, self._facts["devices"]
        shared = self.options.all_processes > 1
        if needed > present or (shared and needed != present):
            has = f"JAX has {present} of {self._facts['platform']}"
            rule = "; several processes must use all of them" if needed < present else ""
            raise SpecError(
                f"the mesh ({plan.mesh}) needs {needed} devices, {has}{rule}",
                hint="change the mesh, or use the platform cpu, which makes as many devices as are asked for",
            )

    # starting

    def _started(self, plans: Sequence[Plan]) -> Processes:
        """Processes with enough devices: those that run, or new ones."""
        options = self.options
        if options.devices is None:
            needed = max((plan.mesh.n_devices for plan in plans), default=options.all_processes)
            options = replace(options, devices=needed // options.all_processes)
            if self._processes is not None and needed != self._facts["devices"] and options.platform == "cpu":
                self._end(at_once=False)
        if self._processes is None or not self._processes.alive:
            check_jax()
            self._progress.report(f"starting JAX in {options.processes} processes", 0)
            self._processes, facts = _start(options, self._meeting)
            self._facts = {**facts, "processes": options.all_processes}
        return self._processes

    def _end(self, *, at_once: bool) -> None:
        if self._processes is not None:
            if at_once:
                self._processes.kill()
            else:
                self._processes.close()
        self._processes = None


def check_jax() -> None:
    """Raise SpecError where JAX is missing or too old; it is not imported."""
    hint = "pip install 'einmap[distributed]'"
    if importlib.util.find_spec("jax") is None or importlib.util.find_spec("jaxlib") is None:
        raise SpecError("the engine jax needs JAX, which is not installed", hint=hint)
    version = importlib.metadata.version("jax")
    if tuple(int(part) for part in re.findall(r"\d+", version)[:3]) < OLDEST_JAX:
        oldest = ".".join(map(str, OLDEST_JAX))
        raise SpecError(f"the engine jax needs JAX {oldest} or newer, {version} is installed", hint=hint)


def _start(options: JaxOptions, meeting: Meeting | None) -> tuple[Processes, Mapping[str, Any]]:
    """Running processes that have met, and what JAX says about its devices."""
    for attempt in range(1, PORT_ATTEMPTS + 1):
        processes = Processes(commands_of(options), first=options.host * options.processes, total=options.all_processes)
        if meeting is not None:
            meeting.watch(processes.end_because)
        try:
            hello = [Message({"do": "hello"})] * options.processes
            answers = processes.ask(hello, options.start_limit)
        except EngineError as error:
            # Between our look and its start another program may have taken the port.
            is_ours = options.all_processes > 1 and options.coordinator is None
            if not (is_ours and attempt < PORT_ATTEMPTS and _PORT_TAKEN.search(str(error))):
                raise
        except BaseException:
            processes.kill()
            raise
        else:
            return processes, answers[0].document
    raise AssertionError("the last attempt returns or raises")


def commands_of(options: JaxOptions, module: str = SERVER) -> list[Command]:
    """The processes of this host, which meet one another first. `module`: of their server."""
    coordinator = options.coordinator or f"127.0.0.1:{_free_port()}"
    is_only_here = options.coordinator is None or Address.parse(coordinator).is_of_this_host
    commands = []
    devices = options.devices or 1
    for i in range(options.processes):
        peers = {
            "coordinator": coordinator,
            "bind": coordinator if is_only_here else None,
            "processes": options.all_processes,
            "process": options.host * options.processes + i,
            "time_limit": max(1, int(options.start_limit)),
            # on a CPU each process has devices of its own making
            "devices": None if options.platform == "cpu" else [i * devices + d for d in range(devices)],
        }
        settings = {"hosts": options.hosts, "peers": peers if options.all_processes > 1 else None}
        commands.append(Command((module, json.dumps(settings)), _environment(options)))
    return commands


def _environment(options: JaxOptions) -> dict[str, str]:
    flags = _FORCED.sub("", os.environ.get("XLA_FLAGS", ""))
    variables = {**_OUR_OWN}
    if options.platform != "any":
        variables["JAX_PLATFORMS"] = options.platform
    if options.platform == "cpu":
        variables["XLA_FLAGS"] = f"{flags} --xla_force_host_platform_device_count={options.devices or 1}".strip()
    return variables


def _free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


# answers


def _communication(document: Mapping[str, Any]) -> Communication:
    compiled = document["compiled"]
    return Communication(_collectives(document["lowered"]), None if compiled is None else _collectives(compiled))


def _collectives(listed: Sequence[Any]) -> tuple[Collective, ...]:
    return tuple(Collective(kind, tuple(map(tuple, groups)), *rest) for kind, groups, *rest in listed)


def _joined(plan: Plan, tensor: TensorName, buffer: Buffer, answers: Sequence[Message]) -> NDArray[Any]:
    """The whole tensor from the blocks that the processes sent; addends are reduced.

    Raises InvariantError when blocks are missing.
    """
    placement = buffer.placement
    sizes = tuple(size for _, size in buffer.sizes)
    stacked = (plan.mesh.parts(placement.stacked),) if placement.stacked else ()
    whole = np.zeros(stacked + sizes, plan.dtype)
    received = np.zeros(stacked + sizes, bool)
    for answer in answers:
        for name, (owner, begins) in answer.document["parts"].items():
            if owner == tensor:
                part = answer.arrays[name]
                place = tuple(slice(begin, begin + n) for begin, n in zip(begins, part.shape, strict=True))
                whole[place], received[place] = part, True
    if not received.all():
        raise InvariantError(f"the processes returned {received.sum():,} of {received.size:,} values of {tensor!r}")
    if placement.on:
        shape = [plan.mesh.size(axis) for axis, _ in placement.on]
        addends = whole.reshape(plan.mesh.parts(placement.partial), *shape, *sizes)
        for _, position in placement.on:
            addends = addends[:, position]
        whole = addends
    if not placement.stacked:
        return whole
    reduce = {"sum": np.add, "max": np.maximum, "min": np.minimum}[placement.reduction].reduce
    reduced: NDArray[Any] = reduce(whole, axis=0)
    return reduced
