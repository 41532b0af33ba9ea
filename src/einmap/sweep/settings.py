"""How a sweep is to be run."""

from __future__ import annotations

import os
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

from einmap.errors import SpecError
from einmap.sweep.engines.engine import LOCAL
from einmap.visible import short


@dataclass(frozen=True, slots=True)
class RunSettings:
    """`workers`: processes, 0 for none beside this one. `sample`: points of a Latin hypercube with
    `seed`, None for all; `optimise`: so many points that Optuna proposes.

    `scheduler`: a Dask cluster in the place of processes: an address, `local`, or a `distributed.Client`.

    `bounds`: leave out points that cannot be on the front. `retry`: try failures again that depend on the machine.
    `store`: a file, None for no file.
    """

    store: Path | None = None
    workers: int = 1
    sample: int | None = None
    seed: int = 0
    bounds: bool = False
    retry: bool = False
    scheduler: Any = None
    optimise: int | None = None

    @property
    def drawn(self) -> tuple[object, ...]:
        """Which points are looked at, as what tells sweeps from each other; nothing for all."""
        if self.optimise is not None:
            return ("optimise", self.optimise, self.seed)
        return () if self.sample is None else ("sample", self.sample, self.seed)

    @staticmethod
    def of(
        store: object = None,
        workers: int | None = None,
        sample: int | None = None,
        seed: int = 0,
        *,
        bounds: bool = False,
        retry: bool = False,
        scheduler: Any = None,
        optimise: int | None = None,
    ) -> RunSettings:
        """Settings, checked; `workers` is one for each processor by default. Raises SpecError."""
        if sample is not None and optimise is not None:
            raise SpecError("a sweep takes a sample, or is optimised", hint="give one of sample and optimise")
        if store is not None and (not isinstance(store, str | Path) or not str(store)):
            raise SpecError(f"a store is a file, found {short(store)}")
        return RunSettings(
            None if store is None else Path(store),
            _processors() if workers is None else _integer("workers", workers, 0),
            None if sample is None else _integer("sample", sample, 1),
            _integer("seed", seed, 0),
            bool(bounds),
            bool(retry),
            _scheduler(scheduler, workers),
            None if optimise is None else _integer("optimise", optimise, 1),
        )


def _scheduler(scheduler: Any, workers: int | None) -> Any:
    if scheduler is None or hasattr(scheduler, "scheduler_info"):  # a distributed.Client
        return scheduler
    if not isinstance(scheduler, str) or not scheduler:
        raise SpecError(f"a scheduler is an address, such as tcp://host:8786, or 'local', found {short(scheduler)}")
    if workers is not None and scheduler != LOCAL:
        raise SpecError("a scheduler has workers of its own", hint="leave out workers, or write 'local'")
    return scheduler


def _processors() -> int:
    return os.cpu_count() or 1


def _integer(name: str, value: object, least: int) -> int:
    number = int(value) if isinstance(value, Integral) and not isinstance(value, bool) else None
    if number is None or number < least:
        raise SpecError(f"{name} is an integer of at least {least}, found {short(value)}")
    return number
