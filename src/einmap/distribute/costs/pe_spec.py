"""The architecture of a PE and a workload as one specification."""

from __future__ import annotations

from dataclasses import replace

from einmap.errors import SpecError
from einmap.spec.raw import Raw, RawMap, content, place
from einmap.spec.spec import Spec

OF_WORKLOAD = ("workload", "renames")
"""Keys that the specification of the workload gives, and that of the architecture only where it does not."""
OF_ARCH = ("arch", "config", "mapper", "model")
"""Keys that the specification of the architecture gives, and that of the workload only where it does not."""


def combined(spec: Spec, arch: Spec) -> Spec:
    """The workload of `spec` on the architecture of `arch`, with the `variables` of both.

    Raises SpecError where `arch` has no architecture, or both have a variable of the same name with other values.
    """
    if arch.raw.get("arch") is None:
        raise SpecError("it has no key 'arch'", hint="name a file with an architecture, such as tpu_v4i")
    parts: dict[str, Raw | None] = {
        "variables": _joined(spec, arch),
        **{key: spec.raw.get(key) or arch.raw.get(key) for key in OF_WORKLOAD},
        **{key: arch.raw.get(key) or spec.raw.get(key) for key in OF_ARCH},
    }
    parts["arch"] = arch.raw.get("arch")
    items = tuple((key, value) for key, value in parts.items() if value is not None)
    functions = {**spec.functions, **arch.functions}
    return replace(arch, raw=RawMap(items, at=arch.raw.at), functions=functions)


def _joined(spec: Spec, arch: Spec) -> Raw | None:
    """The variables of both."""
    ours, theirs = spec.raw.get("variables"), arch.raw.get("variables")
    if not isinstance(ours, RawMap) or not isinstance(theirs, RawMap):
        return ours or theirs
    items, places = list(theirs.items), list(theirs.key_at)
    for (name, value), at in zip(ours.items, ours.key_at or (None,) * len(ours.items), strict=True):
        other = theirs.get(name)
        if other is None:
            items.append((name, value))
            places.append(at)
        elif content(other) != content(value):
            raise SpecError(
                f"the variable {name!r} of the workload is another one in the architecture of the PEs",
                at=place(spec.raw, ("variables", name)),
                hint="rename one of them",
            )
    return RawMap(tuple(items), at=theirs.at, key_at=tuple(places) if len(places) == len(items) else ())
