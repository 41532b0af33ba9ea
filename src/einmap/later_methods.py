"""Methods of dataclasses that are compiled when they are first called: a command calls one of ten that it imports."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

LATER = frozenset({"__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__"})
"""Methods that wait. Not `__init__`: its arguments are looked at, of component models of users too."""


def compile_methods_later() -> None:
    """Let dataclasses that are made from now on wait with some methods, to the end of a process of einmap's own.

    Python 3.12 compiles up to six methods of each one by one, a sixth of a short command's time. Later versions do it
    otherwise, and are left as they are.
    """
    at_once = getattr(dataclasses, "_create_fn", None)
    if at_once is None or at_once.__module__ == __name__:
        return

    def created(name: str, *text: Any, **names: Any) -> Any:
        compiled = partial(at_once, name, *text, **names)
        return _later(name, compiled) if name in LATER else compiled()

    dataclasses._create_fn = created  # type: ignore[attr-defined]


def _later(name: str, compiled: Callable[[], Any]) -> Any:
    """A method that takes the place of itself, compiled, when it is first called."""
    real: Any = None

    def method(*given: Any) -> Any:
        nonlocal real
        if real is None:
            real = compiled()
            real.__qualname__ = method.__qualname__
            for owner in type(given[0]).__mro__:
                if getattr(owner, name, None) is method:
                    setattr(owner, name, real)
        return real(*given)

    method.__name__ = name
    return method
