"""Libraries that only some parts need: imported where they are used, their absence is an error with a hint."""

from __future__ import annotations

import importlib
from typing import Any

from einmap.errors import SpecError


def require(module: str, extra: str) -> Any:
    """The module of that name. Raises SpecError that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise SpecError(
            f"this needs {library}, which is not installed", hint=f"pip install 'einmap[{extra}]'"
        ) from error
