"""Completions of a shell for values of parameters, by the placeholder in the help: `FILES` or `exact|accelforge`."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

type Offer = Callable[[str], Iterable[str]]

CHOICES = re.compile(r"[a-z][\w-]*(\|[a-z][\w-]*)+")
"""A placeholder that lists all values."""
ENDINGS = (".yaml", ".yml")


def completes(parameter: Any) -> Callable[[Any, Any, str], list[str]] | None:
    """The completion of a parameter's values, as the parser calls it; None where the shell knows as much."""
    placeholder = str(parameter.metavar or "")
    offer = OFFERS.get("--option" if "--option" in parameter.opts else placeholder)
    if offer is None and not CHOICES.fullmatch(placeholder):
        return None

    def complete(_context: Any, _parameter: Any, incomplete: str) -> list[str]:
        offered = offer(incomplete) if offer else placeholder.split("|")
        return [text for text in offered if text.startswith(incomplete)]

    return complete


def _files(incomplete: str) -> Iterable[str]:
    """Shipped examples, and YAML files of the folder that is named so far."""
    folder = incomplete.rpartition("/")[0]
    try:
        here = sorted(entry.name for entry in Path(folder or ".").iterdir() if entry.suffix in ENDINGS)
    except OSError:
        here = []
    return [*_examples(), *(f"{folder}/{name}" if folder else name for name in here)]


def _examples() -> list[str]:
    from einmap.frontends.yaml.spec import example_paths  # here and below: most starts complete nothing

    return sorted(example_paths())


def _machines(_incomplete: str) -> list[str]:
    from einmap.frontends.yaml.spec import example_paths

    return [*sorted(example_paths(("machines",))), "this-cpu"]


def _metrics(incomplete: str) -> list[str]:
    from einmap.mapper.objective.metrics import METRICS

    return _after_commas(incomplete, ("edp", *METRICS))


def _strategies(incomplete: str) -> list[str]:
    from einmap.search.strategy import strategy_names

    return _after_commas(incomplete, strategy_names())


def _after_commas(incomplete: str, names: Iterable[str]) -> list[str]:
    """Names after those that stand there already, joined by commas."""
    before = incomplete[: incomplete.rfind(",") + 1]
    return [before + name for name in names]


def _options(_incomplete: str) -> list[str]:
    from einmap.spec.schema.options import MapperInput

    return [f"{name}=" for name in MapperInput.model_fields]


OFFERS: Mapping[str, Offer] = {
    **dict.fromkeys(("FILES", "A", "B"), _files),
    "NAME|FILE|this-cpu": _machines,
    **dict.fromkeys(("METRICS", "METRIC"), _metrics),
    "NAMES": _strategies,
    "--option": _options,
}
"""Completions by the placeholder of a parameter or its name."""
