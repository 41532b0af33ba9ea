"""Facts that must be the same on all hosts, and words where they are not."""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einmap.distribute.plans.plan import Plan
from einmap.distribute.steps.notation import lines
from einmap.einsum.einsum import Einsum, TensorName
from einmap.visible import short

MAX_LINES = 300
"""Lines of plans that are compared in words; beyond, plans are told apart by a digest of all of them."""
LONGEST_FACT = 200
"""Characters of a fact; a longer one is cut, and ends with its digest."""
NOWHERE = "not there"
"""The value of a fact that a host does not know."""

type Level = tuple[tuple[str, str], ...]
"""Facts by name."""


@dataclass(frozen=True, slots=True)
class Facts:
    """The words of a host about itself. `levels`: facts by name; those of one may differ because those before do."""

    levels: tuple[Level, ...]

    def encoded(self) -> list[Any]:
        """In the types of JSON."""
        return [[list(fact) for fact in level] for level in self.levels]

    @classmethod
    def decoded(cls, document: object) -> Facts | None:
        """The facts that `encoded` gave; None for anything else, whoever wrote it."""
        match document:
            case list() if all(isinstance(level, list) for level in document):
                levels = [[_fact(one) for one in level] for level in document]
                if all(one is not None for level in levels for one in level):
                    return cls(tuple(tuple(one for one in level if one is not None) for level in levels))
        return None


def _fact(document: object) -> tuple[str, str] | None:
    match document:
        case [str() as name, str() as value]:
            return name[:LONGEST_FACT], value[: 2 * LONGEST_FACT]
    return None


def facts_of(
    processes: Mapping[str, object], plans: Sequence[Plan], inputs: Mapping[TensorName, NDArray[Any]], encoded: object
) -> Facts:
    """The facts of this host: versions, what it says of its `processes`, the plans and the values of their inputs.

    `encoded`: the request as a whole, in the types of JSON.
    """
    first = [("version of einmap", _version("einmap")), ("version of Python", _python())]
    first += [(f"version of {name}", _version(name)) for name in ("jax", "jaxlib")]
    first += [(name, str(value)) for name, value in processes.items()]
    for plan in plans:
        first += [("mesh", str(plan.mesh)), ("type of values", plan.dtype)]
        first += [(f"Einsum {one.name}", _cut(_bounds(one))) for one in plan.workload.einsums[:MAX_LINES]]
    steps = [f"{line.einsum}   {line.what}   {line.where}".strip() for plan in plans for line in lines(plan)]
    second = [(f"line {i} of the plan", _cut(step)) for i, step in enumerate(steps[:MAX_LINES], 1)]
    third = [("digest of the plan", _digest(json.dumps(encoded).encode()))]
    fourth = [(f"digest of the values of {tensor}", _array_digest(values)) for tensor, values in inputs.items()]
    return Facts((tuple(first), tuple(second), tuple(third), tuple(fourth)))


def differences(by_host: Mapping[int, Facts]) -> list[str]:
    """Facts that are not the same on all hosts, one text each; of facts that depend on others only the first that
    differ.
    """
    depth = max((len(facts.levels) for facts in by_host.values()), default=0)
    for level in range(depth):
        values = {host: dict(f.levels[level]) if level < len(f.levels) else {} for host, f in by_host.items()}
        names = list(dict.fromkeys(name for facts in values.values() for name in facts))
        found = [text for name in names if (text := _difference(name, values))]
        if found:
            return found[:1] if found[0].startswith("line ") else found
    return []


def _difference(name: str, values: Mapping[int, Mapping[str, str]]) -> str | None:
    """`mesh: x=8 on host 1, x=4 on hosts 0 and 2`; None where it is the same."""
    hosts: dict[str, list[int]] = {}
    for host in sorted(values):
        hosts.setdefault(values[host].get(name, NOWHERE), []).append(host)
    if len(hosts) == 1:
        return None
    # the odd one out first
    order = sorted(hosts, key=lambda value: (len(hosts[value]), -hosts[value][0]))
    return f"{name}: {', '.join(f'{_told(value)} on {named(hosts[value])}' for value in order)}"


def _told(value: str) -> str:
    return short(value, 2 * LONGEST_FACT) if " " in value and value != NOWHERE else value


def named(hosts: Sequence[int]) -> str:
    """`host 1`, `hosts 0 and 2`, `hosts 0, 1 and 2`; of many, how many more there are.

    >>> named([0, 2, 3])
    'hosts 0, 2 and 3'
    """
    shown = [str(host) for host in sorted(hosts)]
    if len(shown) == 1:
        return f"host {shown[0]}"
    if len(shown) > 9:
        return f"hosts {', '.join(shown[:8])} and {len(shown) - 8} more"
    return f"hosts {', '.join(shown[:-1])} and {shown[-1]}"


def _bounds(einsum: Einsum) -> str:
    return ", ".join(f"{variable}={bound}" for variable, bound in einsum.bounds)


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_FACT else f"{text[: LONGEST_FACT - 20]}... ({_digest(text.encode())})"


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "unknown"


def _python() -> str:
    # the last number changes no meaning
    return ".".join(platform.python_version_tuple()[:2])


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:12]


def _array_digest(values: NDArray[Any]) -> str:
    digest = hashlib.sha256(f"{values.dtype.str} {values.shape}".encode())
    digest.update(np.ascontiguousarray(values).data)
    return digest.hexdigest()[:12]
