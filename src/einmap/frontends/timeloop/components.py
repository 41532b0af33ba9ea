"""Costs of components: which model prices one, its own or that of a part, or energies of an `ERT` among the files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from einmap.components.base import AttributeValue
from einmap.components.registry import builtin
from einmap.errors import EinmapError, Note, SpecError
from einmap.expressions.scope import Scope
from einmap.frontends.foreign import Report, a_list, a_map, a_number, a_text, named
from einmap.frontends.timeloop.levels import Level
from einmap.spec.raw import Raw, RawList, RawMap, RawScalar, from_python

SECTIONS = ("compound_components", "components")
TECHNOLOGY = "45nm"
"""The technology of components that name none."""
MODEL_ATTRIBUTES = ("n_banks", "type", "multiplier_width", "adder_width")
"""Attributes that models here and Accelergy's estimators call alike, beside the width."""
MAX_PARTS = 20
"""Classes that lead from a compound component to one with a model."""
_NODE = re.compile(r"\d{1,4}(\.\d{1,4})?\s*(nm)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Prices:
    """The classes that files define: for each compound one the classes of its parts."""

    parts: Mapping[str, tuple[str, ...]]

    def fields(
        self,
        level: Level,
        extra: Mapping[str, AttributeValue],
        own: Mapping[str, AttributeValue],
        actions: Sequence[str],
        report: Report,
    ) -> dict[str, object]:
        """`component_class` and attributes of a level: of its class, of a part of it, or `Dummy`, which costs nothing.

        `extra`: attributes for the model, `own`: fields of the component that the model reads too.
        """
        if level.class_name.lower().startswith("dummy"):
            return {"component_class": "Dummy"}
        reasons: list[str] = []
        for name in self._candidates(level.class_name):
            try:
                builtin().estimate(name, {**own, **extra}, {action: {} for action in actions})
            except EinmapError as problem:
                reasons.append(problem.message)
                continue
            if name != level.class_name:
                reason = f"energy and area are those of its part of the class {name} alone"
                report.leave(named(level.at, level.name), f"class: {level.class_name}", reason)
            # a tree, since an attribute `type: LPDDR4` of a dictionary would be read as the tag of a node
            attributes = RawMap(tuple((key, from_python(value)) for key, value in extra.items()))
            return {"component_class": name, "extra_attributes_for_component_model": attributes}
        reason = f"its energy and area count as 0: {reasons[0]}"
        report.leave(named(level.at, level.name), f"class: {level.class_name}", reason)
        return {"component_class": "Dummy"}

    def _candidates(self, class_name: str) -> Iterator[str]:
        """The class, then its parts, and the parts of these."""
        waiting, seen = [class_name], set[str]()
        while waiting and len(seen) < MAX_PARTS:
            name = waiting.pop(0)
            if name not in seen:
                seen.add(name)
                yield name
                waiting += self.parts.get(name, ())


def read_classes(sections: Mapping[str, Sequence[Raw]], report: Report) -> Prices:
    """The compound components of all sections that may define some. Raises SpecError."""
    parts: dict[str, tuple[str, ...]] = {}
    for section in SECTIONS:
        for raw in sections.get(section, ()):
            if not isinstance(raw, RawList):
                report.leave_others(a_map(raw, section), ("classes", "version"))
            classes = raw if isinstance(raw, RawList) else a_map(raw, section).get("classes")
            if classes is None or (isinstance(classes, RawScalar) and classes.value is None):
                continue
            for item in a_list(classes, f"{section}.classes"):
                # a template that includes several files gives the list of each
                for inner in item.items if isinstance(item, RawList) else (item,):
                    entry = a_map(inner, f"{section}.classes")
                    name = a_text(entry.get("name"), f"{section}.classes.name", entry.at)
                    report.leave_others(entry, ("name", "attributes", "subcomponents", "actions"))
                    parts.setdefault(name, tuple(_parts(entry, name, report)))
    return Prices(parts)


def _parts(entry: RawMap, name: str, report: Report) -> Iterator[str]:
    raw = entry.get("subcomponents")
    for item in a_list(raw, f"{name}.subcomponents") if raw is not None else ():
        part = a_map(item, f"{name}.subcomponents")
        report.leave_others(part, ("name", "class", "attributes"))
        yield a_text(part.get("class"), f"{name}.subcomponents.class", part.at)


def technology_of(level: Level) -> str | None:
    """The technology that a level names; None where it names none, or only says that one is to be set."""
    raw = level.attributes.get("technology")
    if not isinstance(raw, RawScalar) or raw.value is None or isinstance(raw.value, bool):
        return None
    text = str(raw.value).strip()
    return text if _NODE.fullmatch(text) else None


PICOJOULE = 1e-12
"""J of the unit in which these tables are written."""

type Energies = Mapping[str, Mapping[str, float]]
"""J of the actions of a component, by its name: the last part of its path, without `[0..13]`."""


def read_energies(sections: Sequence[Raw], scope: Scope, report: Report) -> Energies:
    """The energies of all sections `ERT`; `ERT: {tables: [{name, actions: [{name, energy}]}]}`. Raises SpecError."""
    found: dict[str, dict[str, float]] = {}
    for raw in sections:
        section = a_map(raw, "ERT")
        report.leave_others(section, ("version", "tables"))
        for item in a_list(section.get("tables"), "ERT.tables", section.at):
            table = a_map(item, "ERT.tables")
            path = a_text(table.get("name"), "ERT.tables.name", table.at)
            name = path.rsplit(".", 1)[-1] if ".." not in path else path.replace("..", ":").rsplit(".", 1)[-1]
            name = name.split("[", 1)[0]
            if name in found:
                raise SpecError(f"two tables of energies end in {name!r}", at=named(table.at, "ERT.tables"))
            actions = found[name] = {}
            for entry in a_list(table.get("actions"), f"ERT {name}.actions", table.at):
                action = a_map(entry, f"ERT {name}.actions")
                what = a_text(action.get("name"), f"ERT {name}.actions.name", action.at)
                energy = a_number(action.get("energy"), f"ERT {name}.{what}", scope, 0, action.at) * PICOJOULE
                actions[what] = max(energy, actions.get(what, 0.0))
                if _is_idle(action.get("arguments")):
                    actions.setdefault(f"gated_{what}", energy)
    if found:
        report.notes.append(Note("energies are those of the ERT; areas and leakage of its components count as 0"))
    return found


def _is_idle(raw: Raw | None) -> bool:
    """Whether an action is one in which neither data nor address change: all of its arguments are 0."""
    values = [value for _, value in raw.items] if isinstance(raw, RawMap) else []
    return bool(values) and all(isinstance(value, RawScalar) and value.value == 0 for value in values)


def energy_of(actions: Mapping[str, float], action: str) -> float:
    """J of a read, a write or an operation, by the names that tables have for it."""
    names = {"write": ("write", "update"), "compute": ("compute", "mac_random", "mac")}.get(action, (action,))
    return max((actions[name] for name in names if name in actions), default=0.0)
