"""The engine that works off the tasks of a sweep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

LOCAL = "local"
"""In the place of the address of a scheduler: a Dask cluster of this machine."""
TRIES = 3
"""Processes that a task may take with it until it is given up."""


@dataclass(frozen=True, slots=True)
class Lost:
    """A task without an answer: it took too long, or its processes ended."""

    timed_out: bool
    reason: str


type Answer = tuple[int, Any]
"""The number of a task, and what the function gave or a `Lost`."""


class Engine(Protocol):
    """Works off tasks, several at a time."""

    @property
    def has_room(self) -> bool:
        """Whether a further task would begin at once."""
        ...

    @property
    def busy(self) -> bool:
        """Whether an answer is to be waited for."""
        ...

    def submit(self, number: int, task: Any) -> None:
        """Take a task; its number comes back with the answer."""
        ...

    def wait(self) -> list[Answer]:
        """The answers that are there, at least one."""
        ...

    def close(self) -> None:
        """End at once, also with tasks under way."""
        ...


@dataclass
class Inline:
    """No process at all: a task is done when it is submitted, and takes this process with it if it crashes."""

    function: Callable[[Any], Any]
    _answers: list[Answer] = field(default_factory=list)

    @property
    def has_room(self) -> bool:
        """Whether the last answer was fetched."""
        return not self._answers

    @property
    def busy(self) -> bool:
        """Whether there is an answer."""
        return bool(self._answers)

    def submit(self, number: int, task: Any) -> None:
        """Do the task."""
        self._answers.append((number, self.function(task)))

    def wait(self) -> list[Answer]:
        """The answers."""
        answers, self._answers = self._answers, []
        return answers

    def close(self) -> None:
        """Nothing is under way."""
