"""Engines by name. Their modules are imported when they are asked for: some need optional libraries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from einmap.distribute.backends.base import Engine
from einmap.errors import SpecError, did_you_mean
from einmap.progress import Progress

ENGINES = ("local", "jax")
"""The engines that there are; the first one is the default."""


@dataclass(frozen=True, slots=True)
class EngineOptions:
    """Where PEs are: `processes` on this host; the rest as in `jax.engine.JaxOptions`. None: the engine's default."""

    processes: int | None = None
    platform: str | None = None
    hosts: int | None = None
    host: int | None = None
    coordinator: str | None = None
    time_limit: float | None = None
    meeting_limit: float | None = None

    @property
    def given(self) -> dict[str, Any]:
        """The options that are not None, by name."""
        return {name: value for name in self.__slots__ if (value := getattr(self, name)) is not None}


def engine_named(name: str, options: EngineOptions | None = None, progress: Progress | None = None) -> Engine:
    """The engine of that name. Use it as a context manager: it may have processes that end with it.

    Raises SpecError for an unknown name, for options that it does not have, and where its library is missing.
    """
    chosen = (options or EngineOptions()).given
    match name:
        case "local":
            return _local(chosen)
        case "jax":
            from einmap.distribute.backends.jax.engine import JaxEngine, JaxOptions, check_jax

            check_jax()
            return JaxEngine(JaxOptions(**chosen), progress)
    raise SpecError(f"there is no engine {name!r}", hint=did_you_mean(name, ENGINES, listing="engines"))


def _local(chosen: dict[str, Any]) -> Engine:
    for option, value in chosen.items():
        if (option, value) != ("processes", 1):
            flag = f"--{option.replace('_', '-')}"
            raise SpecError(
                f"the engine 'local' is one process; {flag} is for the engine 'jax'", hint="add --engine jax"
            )
    from einmap.distribute.backends.local import LocalEngine

    return LocalEngine()
