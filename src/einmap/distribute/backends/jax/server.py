"""A process of the `jax` engine, which lowers and runs plans on the devices of JAX for its parent."""

from __future__ import annotations

import inspect
import json
import time
from collections.abc import Mapping
from dataclasses import astuple
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from numpy.typing import NDArray

from einmap.distribute.backends.jax.encoding import decode_plan
from einmap.distribute.backends.jax.lower_plan import Program, program
from einmap.distribute.backends.jax.messages import Message
from einmap.distribute.backends.jax.read_hlo import compiled_collectives
from einmap.distribute.backends.jax.read_stablehlo import collectives
from einmap.distribute.backends.observed_collectives import Collective
from einmap.distribute.plans.plan import Buffer
from einmap.errors import InvariantError, SpecError

SAME = {"float64": 1e-9, "float32": 1e-3}
"""Relative difference up to which copies of a replicated value count as the same."""
HEARTBEAT = 30
"""Seconds after which JAX gives up a process of another host that no longer reports; parents watch their own."""


def start(settings: Mapping[str, Any]) -> JaxServer:
    """Set JAX up, and answer."""
    set_up(settings)
    return JaxServer(is_joined=settings["peers"] is not None, gathers=settings["hosts"] > 1)


def set_up(settings: Mapping[str, Any]) -> None:
    """Set JAX up, together with the other processes if there are any."""
    jax.config.update("jax_enable_x64", True)
    if settings["peers"] is not None:
        _join(settings["peers"])
    _check_platform()


def _check_platform() -> None:
    try:
        jax.devices()
    except (RuntimeError, AssertionError) as error:  # JAX asserts where no plugin knows the platform
        asked = f"platform {jax.config.jax_platforms!r}" if jax.config.jax_platforms else "any platform"
        detail = f": {error}" if str(error) else ""
        raise SpecError(f"JAX has no devices of {asked}{detail}", hint="the platform cpu is always there") from error


def _join(peers: Mapping[str, Any]) -> None:
    """Meet the other processes at the coordinator, which process 0 runs."""
    parameters = inspect.signature(jax.distributed.initialize).parameters
    # A literal address is listened at alone: only those who know it need to reach the coordinator.
    bind = {"coordinator_bind_address": peers["bind"]} if peers["bind"] else {}
    heartbeat = {"heartbeat_timeout_seconds": HEARTBEAT} if "heartbeat_timeout_seconds" in parameters else {}
    jax.distributed.initialize(
        coordinator_address=peers["coordinator"],
        num_processes=peers["processes"],
        process_id=peers["process"],
        local_device_ids=peers["devices"],
        initialization_timeout=peers["time_limit"],
        **bind,
        **heartbeat,
    )


class JaxServer:
    """Answers `hello`, `lower` and `run`."""

    def __init__(self, *, is_joined: bool, gathers: bool) -> None:
        """`gathers`: results are needed whole in this process, since its parent sees no other host."""
        self._is_joined = is_joined
        self._gathers = gathers
        self._programs: dict[str, Program] = {}

    def answer(self, request: Message) -> Message:
        """See `worker.Server`."""
        match request.document["do"]:
            case "hello":
                return Message(_facts())
            case "lower":
                return self._lower(request)
            case "run":
                return self._run(request)
        raise ValueError("unknown request")

    def close(self) -> None:
        """Part from the peers, so that none of them takes this end for a failure."""
        if self._is_joined:
            jax.distributed.shutdown()

    def _lower(self, request: Message) -> Message:
        communications = []
        for document in request.document["plans"]:
            lowered = self._program(document).lower()
            compiled = lowered.compile().as_text() if request.document["compile"] else None
            communications.append(_communication(lowered, compiled))
        return Message({"communication": communications})

    def _run(self, request: Message) -> Message:
        chosen = self._program(request.document["plan"])
        lowered = chosen.lower()
        compiled = lowered.compile()
        placed = chosen.place(request.arrays)
        begin = time.perf_counter()
        outputs = jax.block_until_ready(compiled(*placed))
        seconds = time.perf_counter() - begin
        arrays, places = {}, {}
        for (tensor, name), values in zip(chosen.plan.outputs, outputs, strict=True):
            whole = _everywhere(chosen.devices, values) if self._gathers else values
            for i, (begins, part) in enumerate(_parts(whole, chosen.plan.by_name[name], chosen.plan.dtype)):
                arrays[f"{tensor} {i}"] = part
                places[f"{tensor} {i}"] = [tensor, begins]
        communication = _communication(lowered, compiled.as_text())
        return Message({"communication": communication, "parts": places, "seconds": seconds}, arrays)

    def _program(self, document: Any) -> Program:
        key = json.dumps(document)
        if key not in self._programs:
            self._programs = {key: program(decode_plan(document), jax.devices())}
        return self._programs[key]


def _facts() -> dict[str, Any]:
    devices = jax.devices()
    return {"jax": jax.__version__, "platform": devices[0].platform, "devices": len(devices)}


def _communication(lowered: jax.stages.Lowered, compiled: str | None) -> dict[str, Any]:
    def listed(rows: tuple[Collective, ...]) -> list[Any]:
        return [astuple(collective) for collective in rows]

    return {
        "lowered": listed(collectives(lowered.compiler_ir("stablehlo"))),
        "compiled": listed(compiled_collectives(compiled)) if compiled is not None else None,
    }


def _everywhere(devices: jax.sharding.Mesh, values: Any) -> Any:
    """The array replicated over all devices: communication that belongs to the report, not to the plan."""
    return jax.jit(lambda x: x, out_shardings=NamedSharding(devices, PartitionSpec()))(values)


def _parts(values: Any, buffer: Buffer, dtype: str) -> list[tuple[list[int], NDArray[Any]]]:
    """The different blocks on the devices of this process without padding, each with its first coordinates.

    Raises InvariantError where copies of a block are not alike.
    """
    addends = [values.shape[0]] if buffer.placement.stacked else []
    ends = [*addends, *(size for _, size in buffer.sizes)]
    blocks: dict[tuple[int, ...], NDArray[Any]] = {}
    for shard in values.addressable_shards:
        begins = tuple(extent.start or 0 for extent in shard.index)
        inside = tuple(slice(max(0, end - begin)) for begin, end in zip(begins, ends, strict=True))
        part = np.asarray(shard.data)[inside]
        if not _alike(blocks.setdefault(begins, part), part, SAME[dtype]):
            raise InvariantError(f"devices hold different values of {buffer.tensor!r} where the plan has copies of one")
    return [(list(begins), part) for begins, part in blocks.items() if part.size]


def _alike(left: NDArray[Any], right: NDArray[Any], tolerance: float) -> bool:
    scale = np.max(np.abs(left), initial=0.0, where=np.isfinite(left))
    return np.allclose(left, right, rtol=tolerance, atol=tolerance * scale, equal_nan=True)
