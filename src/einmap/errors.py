"""Errors and notes. Every error says where (`at`), what is wrong, and what to try (`hint`)."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, cast

from einmap.visible import brief, cut, visible

LONGEST = 2_000
"""Characters of a message, and of a hint, that are shown."""
MOST_NAMES = 40
"""Known names that a hint lists."""


@dataclass(frozen=True, slots=True)
class At:
    """A place in the user's input: file, 1-based line and column, and the path of the field.

    `path` is written as users would say it, e.g. `arch.nodes[2] "Register".size` or
    `mapping.nodes[3].nodes[0]`; every part may be unknown (specs built in Python have no file).
    """

    __repr__ = brief

    file: str | None = None
    line: int | None = None
    column: int | None = None
    path: str = ""

    def __str__(self) -> str:
        place = self.file or ""
        if self.line is not None:
            place += f":{self.line}" if place else f"line {self.line}"
            if self.column is not None:
                place += f":{self.column}"
        return ": ".join(part for part in (place, self.path) if part)


type Where = At | Callable[[], At | None] | None
"""A place, or what finds it when somebody wants to know: most errors that may occur never do, or are never shown."""


@dataclass(frozen=True, slots=True)
class Note:
    """Something the user should know that is not an error; carried by specs and results.

    `advice` is about what could be better, `warning` about what may not be as meant. `mappings_only`: it concerns what
    is counted of mappings; a distribution counts otherwise.
    """

    __repr__ = brief

    text: str
    at: At | None = None
    kind: Literal["warning", "advice"] = "warning"
    mappings_only: bool = False

    def __str__(self) -> str:
        return visible(f"{self.at}: {self.text}" if self.at and str(self.at) else self.text)


class EinmapError(Exception):
    """Base of all errors that einmap raises for bad input or an unanswerable question.

    `message`: what was found and what was expected; `at`: where; `hint`: what to try.
    """

    def __init__(self, message: str, *, at: Where = None, hint: str | Callable[[], str | None] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self._at = at
        self._hint = hint

    @property
    def at(self) -> At | None:
        """Where it was found."""
        if callable(self._at):
            self._at = self._at()
        return self._at

    @at.setter
    def at(self, at: Where) -> None:
        self._at = at

    @property
    def hint(self) -> str | None:
        """Advice on what to try. A function that gives it is called when it is read: many errors are never shown."""
        # Made when it is read: many errors are tried and never shown, and to find the names most like an unknown one
        # among thousands takes as long as to bind the workload.
        if callable(self._hint):
            self._hint = self._hint()
        return self._hint

    @hint.setter
    def hint(self, hint: str | None) -> None:
        self._hint = hint

    def advise(self, first: str) -> None:
        """Put advice before the hint, which is still looked for only when it is shown."""
        then = self._hint
        self._hint = lambda: "; ".join(part for part in (first, then() if callable(then) else then) if part)

    def __reduce__(self) -> tuple[Any, ...]:
        """For a copy in another process: with place and hint themselves, since what finds them may not be copied."""
        self._at, self._hint = self.at, self.hint
        return cast(tuple[Any, ...], super().__reduce__())

    def __str__(self) -> str:
        where = f"{self.at}: " if self.at and str(self.at) else ""
        hint = self.hint
        return visible(cut(where + self.message, LONGEST) + (f"\n  hint: {cut(hint, LONGEST)}" if hint else ""))


class SpecError(EinmapError):
    """The input is not a valid specification."""


class ExpressionError(SpecError):
    """An expression in a specification cannot be parsed or evaluated."""


class NotSupportedError(SpecError):
    """A legal construct that einmap does not handle yet; never ignored silently.

    `about`: the component that it is about, where who raises the error does not know its place; `field`: of it.
    """

    def __init__(
        self,
        message: str,
        *,
        at: At | None = None,
        hint: str | Callable[[], str | None] | None = None,
        about: str | None = None,
        field: str = "",
    ) -> None:
        super().__init__(message, at=at, hint=hint)
        self.about = about
        self.field = field


class MappingError(EinmapError):
    """The mapping does not fit the workload and the architecture."""


class CapacityError(MappingError):
    """Tiles that live at one time need more bits than a memory holds."""

    def __init__(
        self,
        message: str,
        *,
        component: str,
        needed_bits: float,
        capacity_bits: float,
        at: At | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, at=at, hint=hint)
        self.component = component
        self.needed_bits = needed_bits
        self.capacity_bits = capacity_bits


class FanoutError(MappingError):
    """Spatial loops use more instances than a fanout dimension has."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """A change that is enough for a mapping to exist, and no smaller one of the same fields is.

    `settings`: paths and values as `Spec.set` takes them; `text`: the same in words; `size`: how large the change is,
    the ratio of the larger value to the smaller one, or 2 for one constraint that is dropped, 3 for two.
    """

    __repr__ = brief

    text: str
    settings: tuple[tuple[str, object], ...]
    size: float
    at: At | None = None


class NoMappingError(EinmapError):
    """The mapspace holds no valid mapping; the message says what clashes.

    `remedies`: the smallest changes, smallest first, each enough by itself; `complete`: whether all were tried,
    and, of tensors with zeros, whether the search was done: otherwise a mapping may exist.
    """

    def __init__(
        self,
        message: str,
        *,
        at: At | None = None,
        hint: str | None = None,
        remedies: Sequence[Remedy] = (),
        complete: bool = True,
    ) -> None:
        super().__init__(message, at=at, hint=hint)
        self.remedies = tuple(remedies)
        self.complete = complete

    def with_message(self, message: str) -> NoMappingError:
        """An error that says `message` instead, with the place, hint and changes of this one."""
        return NoMappingError(message, at=self.at, hint=self.hint, remedies=self.remedies, complete=self.complete)


class InvariantError(EinmapError):
    """A result that cannot be: a bug in einmap, never a number that is handed out."""


class EngineError(EinmapError):
    """A process of a distributed engine was lost, raised an exception, or did not answer in time."""


MOST_COMPARED = 50
"""Names that are compared closely with a misspelt one."""
MOST_PROBLEMS = 20
"""Problems that the text of an error lists; `problems` has all of them."""


class ManyErrors(EinmapError):
    """All problems found in one stage, reported together."""

    def __init__(self, problems: Iterable[EinmapError]) -> None:
        self.problems = tuple(problems)
        EinmapError.__init__(self, f"{len(self.problems)} problems found")

    def __str__(self) -> str:
        """The first problems, and how many more there are."""
        shown = [str(problem) for problem in self.problems[:MOST_PROBLEMS]]
        more = len(self.problems) - len(shown)
        return "\n".join([*shown, f"... and {more:,} more problems"] if more else shown)


class ManySpecErrors(ManyErrors, SpecError):
    """Several problems of a specification."""


class ManyMappingErrors(ManyErrors, MappingError):
    """Several problems of a mapping."""


def attempt[T](problems: list[EinmapError], step: Callable[[], T]) -> T | None:
    """Result of `step`; None after adding its error to `problems`, so that the next steps are checked too."""
    try:
        return step()
    except EinmapError as problem:
        problems.append(problem)
        return None


def attempt_all(**steps: Callable[[], Any]) -> dict[str, Any]:
    """Results of the steps, by name. Raises the problems of all of them together."""
    problems: list[EinmapError] = []
    found = {name: attempt(problems, step) for name, step in steps.items()}
    raise_all(problems)
    return found


def _single(problem: EinmapError) -> tuple[EinmapError, ...]:
    return problem.problems if isinstance(problem, ManyErrors) else (problem,)


def raise_all(problems: Sequence[EinmapError]) -> None:
    """Raise nothing, the one problem, or all of them together under the class that they share.

    A problem that was found several times (by several Einsums) is reported once.
    """
    problems = list({(str(p.at), p.message): p for one in reversed(problems) for p in reversed(_single(one))}.values())
    problems.reverse()
    if len(problems) == 1:
        raise problems[0]
    if problems and all(isinstance(p, MappingError) for p in problems):
        raise ManyMappingErrors(problems)
    if problems:
        raise ManySpecErrors(problems)


def closest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` was probably meant to be, or None."""
    names = tuple(known)
    folded, letters = _folded(names)
    if name.lower() in folded:
        return folded[name.lower()]
    if len(names) > MOST_COMPARED:  # those whose letters and length are most like
        own = frozenset(name.lower())
        order = sorted(range(len(names)), key=lambda i: (len(own ^ letters[i]), abs(len(names[i]) - len(name))))
        names = tuple(names[i] for i in sorted(order[:MOST_COMPARED]))
    found = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    return found[0] if found else None


@lru_cache(maxsize=4)
def _folded(names: tuple[str, ...]) -> tuple[dict[str, str], list[frozenset[str]]]:
    """Names by their small letters, the first of those that are alike; and the letters of each."""
    return {k.lower(): k for k in reversed(names)}, [frozenset(k.lower()) for k in names]


def did_you_mean(name: str, known: Iterable[str], *, listing: str = "known names") -> str:
    """A hint: the closest known name and the list of all of them.

    >>> did_you_mean("sizzle", ["size", "area"])
    "did you mean 'size'? known names: area, size"
    """
    known = sorted(set(known))
    guess = closest(name, known)
    more = f" and {len(known) - MOST_NAMES} more" if len(known) > MOST_NAMES else ""
    return (
        f"did you mean {guess!r}? " if guess else ""
    ) + f"{listing}: {', '.join(known[:MOST_NAMES]) or 'none'}{more}"
