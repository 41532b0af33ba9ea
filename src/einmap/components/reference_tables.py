"""Component models read from energy and area reference tables, as Accelergy and Timeloop write them.

A pure function from parsed data to models: files are read elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from einmap.components.tables import Row, TableModel, cost_of, folded, value_of
from einmap.errors import At, SpecError, did_you_mean
from einmap.visible import short

PICOJOULE, SQUARE_MICROMETRE = 1e-12, 1e-12
"""J and m^2 of the units in which reference tables are written."""
LEAK = "leak"
"""The action that is energy of a cycle."""
_OLD = "0.2"


def models_from_reference_tables(
    energies: object, areas: object = None, *, energies_at: At | None = None, areas_at: At | None = None
) -> tuple[TableModel, ...]:
    """Models of the parsed content of an energy reference table and, if there is one, an area reference table.

    Both forms are read: `ERT: {version, tables: [{name, actions: [{name, arguments, energy}]}]}` and `ERT_summary:
    {version, table_summary: [{name, actions: [{name, energy}]}]}` with `average_energy` for `energy`; likewise `ART`.
    Energies are in pJ, areas in um^2. The last part of a path, without `[0..13]`, is an alias where it is unique. An
    action `leak` is energy of a cycle. Raises SpecError, at `energies_at` or `areas_at` with the field's path.
    """
    tables = _tables(energies, "ERT", energies_at)
    area_of = _areas(areas, areas_at)
    tails = [_tail(name) for name, _, _ in tables]
    models = []
    for (name, table, at), tail in zip(tables, tails, strict=True):
        rows = _energy_rows(table, at)
        leaks = [row.energy or 0.0 for row in rows if row.action.lower() == LEAK]
        if name in area_of:
            rows.append(Row("", {}, area=area_of[name]))
        alias = (tail,) if tail != name and tails.count(tail) == 1 else ()
        rows = [row for row in rows if row.action.lower() != LEAK]
        source = (energies_at.file if energies_at else None) or "the energy reference table"
        models.append(TableModel(name, tuple(rows), source, alias, True, max(leaks, default=None)))
    unknown = next((name for name in area_of if all(name != model.name for model in models)), None)
    if unknown is not None:
        names = [model.name for model in models]
        raise SpecError(
            f"the area table has {short(unknown)}, which the energy table does not have",
            at=areas_at,
            hint=did_you_mean(unknown, names, listing="components"),
        )
    return tuple(models)


def _tables(parsed: object, kind: str, at: At | None) -> list[tuple[str, Mapping[str, object], At]]:
    """Name, content and place of each table of an ERT or ART. Raises SpecError."""
    at = at or At()
    if not isinstance(parsed, Mapping) or not ({kind, f"{kind}_summary"} & parsed.keys()):
        raise SpecError(f"{short(parsed)}, expected {kind}: {{version, tables: [...]}}", at=at)
    root = kind if kind in parsed else f"{kind}_summary"
    body = parsed[root]
    listing = "tables" if root == kind else "table_summary"
    tables = body.get(listing) if isinstance(body, Mapping) else None
    if isinstance(body, Mapping) and str(body.get("version")) == _OLD and not isinstance(tables, list | tuple):
        tables = _of_old_version(tables, root, at)
    at = _below(at, f"{root}.{listing}")
    if not isinstance(tables, list | tuple):
        raise SpecError(f"{short(tables)}, expected a list of tables", at=at)
    named: dict[str, tuple[str, Mapping[str, object], At]] = {}
    for i, table in enumerate(tables):
        place = _below(at, f"[{i}]")
        name = table.get("name") if isinstance(table, Mapping) else None
        if not isinstance(name, str) or not name:
            raise SpecError(f"{short(table)}, expected a table with a name", at=place)
        if name in named:
            raise SpecError(f"{short(name)} has two tables", at=place)
        named[name] = (name, table, place)
    return list(named.values())


def _of_old_version(tables: object, root: str, at: At) -> list[dict[str, object]]:
    """Tables of version 0.2, which has dictionaries by the names of components and actions, as lists of named ones.

    Raises SpecError for summaries and area tables, which that version writes otherwise.
    """
    if root != "ERT" or not isinstance(tables, Mapping):
        text = f"{root} of version {_OLD} is not read, only its ERT"
        raise SpecError(text, at=_below(at, f"{root}.version"), hint="give the file with the key ERT, or version 0.3")
    listed: list[dict[str, object]] = []
    for name, actions in tables.items():
        if not isinstance(actions, Mapping):
            text = f"{short(actions)}, expected energies by action"
            raise SpecError(text, at=_below(at, f"{root}.tables.{name}"))
        rows = [
            {**row, "name": action}
            for action, costs in actions.items()
            for row in (costs if isinstance(costs, list | tuple) else [costs])
            if isinstance(row, Mapping)
        ]
        listed.append({"name": name, "actions": rows})
    return listed


def _areas(parsed: object, at: At | None) -> dict[str, float]:
    """Areas in m^2 by the name of the component. Raises SpecError."""
    tables = _tables(parsed, "ART", at) if parsed is not None else []
    return {
        name: cost_of(table.get("area"), "area", _below(place, ".area")) * SQUARE_MICROMETRE
        for name, table, place in tables
    }


def _energy_rows(table: Mapping[str, object], at: At) -> list[Row]:
    """Rows of one table of an ERT. Raises SpecError."""
    at = _below(at, ".actions")
    actions = table.get("actions")
    if not isinstance(actions, list | tuple):
        raise SpecError(f"{short(actions)}, expected a list of actions", at=at)
    rows = []
    for i, action in enumerate(actions):
        place = _below(at, f"[{i}]")
        name = action.get("name") if isinstance(action, Mapping) else None
        if not isinstance(action, Mapping) or not isinstance(name, str) or not name:
            raise SpecError(f"{short(action)}, expected an action with a name and an energy", at=place)
        arguments = action.get("arguments") or {}
        if not isinstance(arguments, Mapping):
            raise SpecError(f"{short(arguments)}, expected names and values", at=_below(place, ".arguments"))
        key = "energy" if "energy" in action else "average_energy"
        energy = cost_of(action.get(key), "energy", _below(place, ".energy")) * PICOJOULE
        values = {
            folded(str(argument)): value_of(str(argument), value, _below(place, f".arguments.{argument}"))
            for argument, value in arguments.items()
        }
        rows.append(Row(name, values, energy, at=place))
    return rows


def _below(at: At, path: str) -> At:
    return replace(at, path=at.path + path if at.path else path.removeprefix("."))


def _tail(name: str) -> str:
    """Last part of a dotted path, without the range of its instances."""
    return re.sub(r"\[[^\[\]]*\]", "", name).rpartition(".")[2]
