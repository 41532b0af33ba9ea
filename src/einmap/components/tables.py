"""Component models that are tables, and those read from CSV; `reference_tables` reads those of Accelergy and Timeloop.

Pure functions from text to models: files are read elsewhere.
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from einmap.components.base import ActionCost, Attribute, AttributeValue, Estimate, quantity
from einmap.errors import At, SpecError, did_you_mean
from einmap.visible import brief, short

NEAREST = 3
"""Rows that an error shows where none matches."""
_PERIOD = Attribute(
    "cycle_period",
    "s",
    "time of one cycle, for leakage given as energy of a cycle",
    optional=True,
    aliases=("global_cycle_seconds", "cycle_seconds", "cycle_time", "clock_period"),
)
_UNITS = {
    "energy": {"J": 1.0, "mJ": 1e-3, "uJ": 1e-6, "nJ": 1e-9, "pJ": 1e-12, "fJ": 1e-15},
    "latency": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "ps": 1e-12},
    "area": {"m^2": 1.0, "mm^2": 1e-6, "um^2": 1e-12},
    "leak": {"W": 1.0, "mW": 1e-3, "uW": 1e-6, "nW": 1e-9, "pW": 1e-12},
}
_ATTRIBUTE_UNITS = {"tech_node": "m", "voltage": "V", "cycle_period": "s"}
_HEADER = re.compile(r"\s*(\w+)\s*(?:\[\s*([^\]]+?)\s*\])?\s*")


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a table: an action (empty: area and leakage alone) and the attribute values for which it holds.

    `energy` in J, `latency` in s, `area` in m^2, `leak_power` in W; None where the table is silent. `at`: its place.
    """

    __repr__ = brief

    action: str
    values: Mapping[str, float | str]
    energy: float | None = None
    latency: float | None = None
    area: float | None = None
    leak_power: float | None = None
    at: At | None = None


@dataclass(frozen=True, slots=True)
class TableModel:
    """A component of a table. A value is looked up by exact match, never interpolated.

    With `arguments_optional` (reference tables), an argument without a value stands for the most expensive of its
    rows, with a warning; otherwise it is an error. `cycle_leak`: J that leak in one cycle, where the table says so.
    """

    __repr__ = brief

    name: str
    rows: tuple[Row, ...]
    source: str
    aliases: tuple[str, ...] = ()
    arguments_optional: bool = False
    cycle_leak: float | None = None
    attributes: tuple[Attribute, ...] = field(init=False)
    actions: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        names = dict.fromkeys(name for row in self.rows for name in row.values)
        attributes = [
            Attribute(name, _ATTRIBUTE_UNITS.get(name, ""), "a column of the table", optional=self.arguments_optional)
            for name in names
        ]
        leak = [_PERIOD] if self.cycle_leak is not None and _PERIOD.name not in names else []
        object.__setattr__(self, "attributes", (*attributes, *leak))
        object.__setattr__(self, "actions", tuple(dict.fromkeys(row.action for row in self.rows if row.action)))

    @property
    def summary(self) -> str:
        """One sentence on what is modelled."""
        return f"{self.name}, from a table"

    @property
    def content(self) -> tuple[object, ...]:
        """Rows of the table, whatever file they are from."""
        rows = tuple(
            (row.action, sorted(row.values.items()), row.energy, row.latency, row.area, row.leak_power)
            for row in self.rows
        )
        return self.name, self.aliases, rows, self.arguments_optional, self.cycle_leak

    def estimate(
        self, attributes: Mapping[str, AttributeValue], actions: Mapping[str, Mapping[str, AttributeValue]]
    ) -> Estimate:
        """Costs of the rows that match; each entry of `actions` overrides `attributes` for that action.

        Raises SpecError if no row matches, an attribute is missing, or an action is unknown.
        """
        warnings: list[str] = []
        log: list[str] = []
        costs = {}
        values = self._read(attributes)
        for action in actions or self.actions:
            read = self._read({**attributes, **actions.get(action, {})})
            row = self._row(self._action(action), read, warnings)
            log.append(f"{self.name} {action}: {row.at or self.source}")
            rate = 1 / row.latency if row.latency else math.inf
            costs[action] = ActionCost(row.energy or 0.0, rate, self.source, delay=row.latency)
        rows = [row for row in self.rows if not _misses(row, values)]
        area = self._unambiguous("area", {row.area for row in rows if row.area is not None}, values)
        leak = self._unambiguous("leakage", {row.leak_power for row in rows if row.leak_power is not None}, values)
        if leak is None and self.cycle_leak is not None:
            leak = self._leak_of_a_cycle(attributes, warnings)
        warnings += [
            f"{self.name} has no {kind} in {self.source}: 0"
            for kind, value in (("area", area), ("leakage", leak))
            if value is None
        ]
        return Estimate(area or 0.0, leak or 0.0, costs, self.source, (), tuple(log), tuple(dict.fromkeys(warnings)))

    def _read(self, attributes: Mapping[str, AttributeValue]) -> dict[str, float | str]:
        """Values of the columns that `attributes` give. Raises SpecError for a list and the like."""
        names = _present(attributes)
        return {
            attribute.name: value_of(attribute.name, names[folded(attribute.name)], None)
            for attribute in self.attributes
            if folded(attribute.name) in names
        }

    def _action(self, name: str) -> str:
        """The action of the table that `name` stands for, without regard to case. Raises SpecError."""
        action = next((action for action in self.actions if action.lower() == name.lower()), None)
        if action is None:
            words = ", ".join(self.actions) or "none"
            raise SpecError(
                f"{self.name} has no action {short(name)} in {self.source}, it has {words}",
                hint=did_you_mean(name, self.actions, listing="actions"),
            )
        return action

    def _row(self, action: str, values: Mapping[str, float | str], warnings: list[str]) -> Row:
        """The row of `action` that matches. Raises SpecError with the nearest rows."""
        rows = [row for row in self.rows if row.action == action]
        absent = [name for name in dict.fromkeys(name for row in rows for name in row.values) if name not in values]
        if absent and not self.arguments_optional:
            raise SpecError(
                f"{self.name} needs {', '.join(absent)}, which is missing",
                hint=f"columns of {self.source}; rows: {_listed(rows)}",
            )
        matches = [row for row in rows if not _misses(row, values)]
        if not matches:
            columns = {name for row in rows for name in row.values}
            words = ", ".join(f"{name} {_shown(value)}" for name, value in values.items() if name in columns)
            raise SpecError(
                f"{self.name} has no row for {action} with {words} in {self.source}, expected an exact match",
                at=rows[0].at,
                hint=f"nearest rows: {_listed(sorted(rows, key=lambda row: _distance(row, values)))}",
            )
        if len({row.energy for row in matches}) > 1:
            warnings.append(f"{action} of {self.name} has no value of {', '.join(absent)}: its highest energy is taken")
        return max(matches, key=lambda row: row.energy or 0.0)

    def _unambiguous(self, kind: str, numbers: set[float], values: Mapping[str, float | str]) -> float | None:
        """The one number that matching rows give, or None. Raises SpecError that names the missing attributes."""
        if len(numbers) > 1:
            absent = ", ".join(attribute.name for attribute in self.attributes if attribute.name not in values)
            raise SpecError(f"the {kind} of {self.name} depends on {absent}, which is missing for the component")
        return next(iter(numbers), None)

    def _leak_of_a_cycle(self, attributes: Mapping[str, AttributeValue], warnings: list[str]) -> float:
        """W of the energy that leaks in a cycle, 0 with a warning where the length of a cycle is not known."""
        names = _present(attributes)
        spelling = next((name for name in (_PERIOD.name, *_PERIOD.aliases) if name in names), None)
        if spelling is None:
            warnings.append(f"{self.name} has leakage for each cycle and no cycle_period: 0")
            return 0.0
        return (self.cycle_leak or 0.0) / float(_PERIOD.read(names[spelling], self.name))


def models_from_csv(text: str, at: At | None = None) -> tuple[TableModel, ...]:
    """Models of a CSV table with a header: one for each component class.

    Columns `component_class` and `action`; `energy`, `latency`, `area`, `leak` in J, s, m^2, W, or with a unit,
    `energy [pJ]`; every other column is an attribute that a row is found by, an empty cell matches any value. A row
    without an action holds area and leakage alone. Raises SpecError with the line.
    """
    source = (at.file if at else None) or "the table"
    reader = csv.reader(text.lstrip("\ufeff").splitlines(), skipinitialspace=True)
    columns: list[tuple[str, float]] | None = None
    classes: dict[str, list[Row]] = {}
    try:
        for cells in reader:
            where = replace(at or At(), line=reader.line_num)
            if not any(cell.strip() for cell in cells) or cells[0].startswith("#"):
                continue
            if columns is None:
                columns = _columns(cells, where)
                continue
            if len(cells) != len(columns):
                raise SpecError(f"{len(cells)} cells, expected {len(columns)} as in the header", at=where)
            name, row = _csv_row(columns, [cell.strip() for cell in cells], where)
            rows = classes.setdefault(name, [])
            _refuse_contradiction(name, rows, row)
            rows.append(row)
    except csv.Error as error:
        raise SpecError(f"not a CSV table: {error}", at=replace(at or At(), line=reader.line_num)) from error
    if not classes:
        raise SpecError("the table has no rows, expected a header and rows", at=at)
    return tuple(TableModel(name, tuple(rows), source) for name, rows in classes.items())


def _columns(header: Sequence[str], at: At) -> list[tuple[str, float]]:
    """Names of the columns, and what a cell of each is multiplied by. Raises SpecError."""
    columns: list[tuple[str, float]] = []
    for title in header:
        match = _HEADER.fullmatch(title)
        name = folded(match[1]) if match else ""
        name = {"class": "component_class", "leak_power": "leak"}.get(name, name)
        units = _UNITS.get(name, {})
        unit = match[2] if match else None
        if not name or (unit and unit not in units) or any(name == other for other, _ in columns):
            expected = f"{name} [{'|'.join(units)}]" if units else "a name, once, and a unit only behind a cost"
            raise SpecError(f"column {short(title)}, expected {expected}", at=at)
        columns.append((name, units[unit] if unit else 1.0))
    for name in ("component_class", "action", "energy"):
        if all(name != other for other, _ in columns):
            raise SpecError(f"the header has no column {name}", at=at, hint="component_class, action, energy, ...")
    return columns


def _csv_row(columns: Sequence[tuple[str, float]], cells: Sequence[str], at: At) -> tuple[str, Row]:
    """Component class and row of one line. Raises SpecError."""
    costs: dict[str, float] = {}
    values: dict[str, float | str] = {}
    words = {"component_class": "", "action": ""}
    for (name, factor), cell in zip(columns, cells, strict=True):
        where = replace(at, path=name)
        if name in words:
            words[name] = cell
        elif cell and name in _UNITS:
            costs[name] = cost_of(cell, name, where) * factor
        elif cell:
            values[name] = value_of(name, cell, where)
    if not words["component_class"]:
        raise SpecError("the row has no component_class", at=replace(at, path="component_class"))
    if words["action"] and "energy" not in costs:
        raise SpecError(f"action {short(words['action'])} has no energy", at=replace(at, path="energy"))
    energy, latency, area, leak = (costs.get(name) for name in ("energy", "latency", "area", "leak"))
    return words["component_class"], Row(words["action"], values, energy, latency, area, leak, at)


def _refuse_contradiction(name: str, rows: Sequence[Row], row: Row) -> None:
    """Raise SpecError if an earlier row could be meant by the same values and says something else."""
    for other in rows:
        if _misses(other, row.values):
            continue
        pairs = [(other.area, row.area), (other.leak_power, row.leak_power)]
        if row.action and other.action == row.action:
            pairs += [(other.energy, row.energy), (other.latency, row.latency)]
        if any(a is not None and b is not None and a != b for a, b in pairs):
            line = other.at.line if other.at else None
            raise SpecError(f"{name} {row.action} is also in line {line}, with other costs", at=row.at)


def folded(name: str) -> str:
    """A name as attributes are compared."""
    return name.strip().lower().replace("-", "_")


def _present(attributes: Mapping[str, AttributeValue | None]) -> dict[str, AttributeValue]:
    """Attributes that have a value, by their names as they are compared."""
    return {folded(name): value for name, value in attributes.items() if value is not None}


def cost_of(value: object, name: str, at: At) -> float:
    """A finite number, not negative. Raises SpecError."""
    number = quantity(value, "")
    if number is None or not math.isfinite(number) or number < 0:
        raise SpecError(f"{name} is {short(value)}, expected a finite number, 0 or above", at=at)
    return number


def value_of(name: str, value: object, at: At | None) -> float | str:
    """A number where it can be read as one, a name otherwise; nodes of 1 and above are nm. Raises SpecError."""
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, int | float | str):
        raise SpecError(f"{name} is {short(value)}, expected a number or a name", at=at)
    number = quantity(value, _ATTRIBUTE_UNITS.get(folded(name), ""))
    if number is None:
        return str(value).strip().lower()
    return number * 1e-9 if folded(name) == "tech_node" and number >= 1 else number


def _same(a: float | str, b: float | str) -> bool:
    """Whether two values are one, apart from rounding of their decimal forms."""
    return a == b if isinstance(a, str) or isinstance(b, str) else math.isclose(a, b, rel_tol=1e-9)


def _misses(row: Row, values: Mapping[str, float | str]) -> list[str]:
    """Attributes of the row that have another value in `values`."""
    return [name for name, value in row.values.items() if name in values and not _same(value, values[name])]


def _distance(row: Row, values: Mapping[str, float | str]) -> tuple[int, float]:
    """How far a row is: attributes that differ, then the logarithms of the ratios of numbers."""
    misses = _misses(row, values)
    ratio = 0.0
    for name in misses:
        here, there = row.values[name], values[name]
        if isinstance(here, float | int) and isinstance(there, float | int):
            ratio += abs(math.log(here) - math.log(there)) if here > 0 and there > 0 else abs(here - there)
    return len(misses), ratio


def _shown(value: float | str) -> str:
    return short(value) if isinstance(value, str) else f"{value:g}"


def _listed(rows: Sequence[Row]) -> str:
    """The first rows, as an error shows them."""
    return "; ".join(
        ", ".join(f"{name} {_shown(value)}" for name, value in row.values.items()) or "any" for row in rows[:NEAREST]
    )
