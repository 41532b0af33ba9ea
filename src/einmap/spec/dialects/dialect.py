"""Which of the two spellings in circulation an architecture is written in.

They differ in names, which are read side by side, and in one default: what `may_reuse` is when only
`reuse` is given. So the dialect matters only there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from einmap.errors import At, SpecError, did_you_mean
from einmap.spec.raw import Raw, RawList, RawMap, RawScalar, tag_of

type Dialect = Literal["older", "newer"]

NEEDED_ACTIONS: Mapping[str, tuple[str, ...]] = {
    "Memory": ("read", "write"),
    "Toll": ("read",),
    "Network": ("hop",),
    "Compute": ("compute",),
}
"""Actions that every component with this tag has, written or not."""

_TAGS: Mapping[str, Dialect] = {"Fanout": "older", "Container": "newer", "Network": "newer", "Array": "newer"}
_COMPONENT_FIELDS: Mapping[str, Dialect] = {
    "latency_scale": "older",
    "bits_per_value_scale": "older",
    **dict.fromkeys(("throughput_scale", "actions_scale", "values_per_action", "bits_per_value"), "newer"),
    **dict.fromkeys(("skip_initial_output_write", "forked_power_gateable", "non_forked_power_gateable"), "newer"),
}
_ACTION_FIELDS: Mapping[str, Dialect] = {
    "latency": "older",
    "latency_scale": "older",
    **dict.fromkeys(("throughput", "throughput_scale", "values_per_action"), "newer"),
}
_NEWER_LATENCY = re.compile(r"\b(n_calls|throughput|max_hops|max_link_traffic)\b")


@dataclass(frozen=True, slots=True)
class Choice:
    """A dialect, what it was chosen for, and whether the file leaves no doubt."""

    dialect: Dialect
    reason: str
    is_certain: bool


def checked_dialect(dialect: str, dialects: Sequence[str] = ("older", "newer"), at: At | None = None) -> Dialect:
    """`dialect` if it is a dialect. Raises SpecError with the closest name of `dialects`."""
    match dialect:
        case "older":
            return "older"
        case "newer":
            return "newer"
    raise SpecError(
        f"unknown dialect {dialect!r}", at=at, hint=did_you_mean(str(dialect), dialects, listing="dialects")
    )


def choose_dialect(arch: Raw | None, wanted: str = "auto", at: At | None = None) -> Choice:
    """`wanted` (`config.dialect`) or, for `auto`, what the architecture uses.

    Older: `!Fanout`, an action's `latency`, or names such as `read_latency` in `total_latency`, unless
    something that only the newer dialect has stands beside it. Raises SpecError for other words, at `at`.
    """
    if wanted != "auto":
        return Choice(checked_dialect(wanted, ["auto", "older", "newer"], at), "config.dialect says so", True)
    nodes = arch.get("nodes") if isinstance(arch, RawMap) else None
    first: dict[Dialect, str] = {}
    for dialect, mark in _marks_of_nodes(nodes):
        first.setdefault(dialect, mark)
    match first:
        case {"older": older, "newer": newer}:
            return Choice("newer", f"it has {newer}, though also {older} of the older one", False)
        case {"older": older}:
            return Choice("older", f"it has {older}", True)
        case {"newer": newer}:
            return Choice("newer", f"it has {newer}", True)
        case _:
            return Choice("newer", "nothing in it tells the dialects apart", False)


def _marks_of_nodes(nodes: Raw | None) -> Iterator[tuple[Dialect, str]]:
    """Marks that tell the dialects apart, as users wrote them, outermost node first."""
    for node in nodes.items if isinstance(nodes, RawList) else ():
        if not isinstance(node, RawMap):
            continue
        tag = tag_of(node) or ""
        if tag in _TAGS:
            yield _TAGS[tag], f"!{tag}"
        for key, value in node.items:
            yield from _marks_of_field(key, value, node, tag)


def _marks_of_field(key: str, value: Raw, node: RawMap, tag: str) -> Iterator[tuple[Dialect, str]]:
    if key in _COMPONENT_FIELDS and (tag, key) != ("Network", "latency_scale"):
        yield _COMPONENT_FIELDS[key], f"`{key}`"
    match key, value:
        case "nodes", _:
            yield from _marks_of_nodes(value)
        case "direction", RawMap():
            yield "newer", "a `direction` for each tensor"
        case "tensors", RawMap() if value.get("no_resend_to_below") is not None:
            yield "newer", "`no_resend_to_below`"
        case "total_latency", RawScalar(value=str(text)):
            yield from _marks_of_latency(text, action_names(node, tag))
        case "actions", RawList(items=actions) if tag != "Network":
            names = [name for action in actions if isinstance(action, RawMap) for name in action.keys()]  # noqa: SIM118
            yield from ((_ACTION_FIELDS[name], f"an action's `{name}`") for name in names if name in _ACTION_FIELDS)


def _marks_of_latency(text: str, actions: Sequence[str]) -> Iterator[tuple[Dialect, str]]:
    if newer := _NEWER_LATENCY.search(text):
        yield "newer", f"`{newer[0]}` in `total_latency`"
    older = {"action2latency", *(f"{action}_{kind}" for action in actions for kind in ("latency", "actions"))}
    marks = [word for word in re.findall(r"\w+", text) if word in older]
    if marks:
        yield "older", f"`{marks[0]}` in `total_latency`"


def action_names(component: RawMap, tag: str) -> list[str]:
    """The actions of a component as written, and those that its tag adds."""
    listed = component.get("actions")
    items = listed.items if isinstance(listed, RawList) else ()
    written = [item.get("name") for item in items if isinstance(item, RawMap)]
    names = [name.value for name in written if isinstance(name, RawScalar) and isinstance(name.value, str)]
    return [*names, *(name for name in NEEDED_ACTIONS.get(tag, ()) if name not in names)]
