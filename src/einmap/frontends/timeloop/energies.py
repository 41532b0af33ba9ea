"""Energy reference tables (`ERT`) among Timeloop's files: energies of actions by component."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from einmap.errors import Note, SpecError
from einmap.expressions.scope import Scope
from einmap.frontends.foreign import Report, a_list, a_map, a_number, a_text, named
from einmap.spec.raw import Raw

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
                actions[what] = a_number(action.get("energy"), f"ERT {name}.{what}", scope, 0, action.at) * PICOJOULE
    if found:
        report.notes.append(Note("energies are those of the ERT; areas and leakage of its components count as 0"))
    return found


def energy_of(actions: Mapping[str, float], action: str) -> float:
    """J of a read, a write or an operation, by the names that tables have for it."""
    names = {"write": ("write", "update"), "compute": ("compute", "mac_random", "mac")}.get(action, (action,))
    return max((actions[name] for name in names if name in actions), default=0.0)
