"""The report for a terminal, in Rich: what limits latency, where energy goes, how full memories are."""

from __future__ import annotations

import io
import math
from collections.abc import Iterable
from typing import NamedTuple

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from einmap.gc_pause import set_aside
from einmap.mapper.fusion_saving import Saving
from einmap.mapper.objective.metrics import METRICS
from einmap.mapper.result.result import Found, MapResult, MapStats, objective
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.model.cost import Cost
from einmap.model.fusion import fusion_of
from einmap.report.costs.fusion import fusion_section
from einmap.report.costs.pipelines import pipelines_section
from einmap.report.costs.provenance import models_section
from einmap.report.text import report_rows
from einmap.report.text.console import SafeConsole
from einmap.report.text.formatting import NONE, Bar, Scale, area, excess, largest, limited, percent, rates, wall_time
from einmap.report.text.layout import new_table, section_title
from einmap.report.text.loop_tree import loop_tree_lines
from einmap.spec.chosen_layouts import Lies
from einmap.spec.spec import Spec
from einmap.units import format_bits, format_count, format_si, powers_of_ten
from einmap.visible import listed

OUTCOMES = {
    "lane bounds": "ruled out\nby fanouts",
    "plan bounds": "by data-\nplacements",
    "root bounds": "with\ntables",
    "searched": "searched",
    "not covered": "not\ncovered",
}
"""What may become of a part of the mapspace, and the titles of its columns."""
_FULL = 0.9
"""Memories filled to this part are worth a look."""
_LONGEST_BAR = 10
_NARROWEST = 3
"""Width of a column, with what stands between two columns."""
_MOST_BEST = 20
"""Rows of a Pareto front that are shown."""


def cost_report(
    cost: Cost, spec: Spec | None = None, mapping: LoopTree | None = None, width: int = 80
) -> RenderableType:
    """Everything about one result. `spec` adds capacities and fanouts, `mapping` the LoopTree."""
    arch = spec.arch() if spec else None
    archs = [bound.arch for bound in spec.bound.values()] if spec else []
    spatial = report_rows.spatial_rows(cost, arch)
    sections = [
        totals_section(cost),
        einsums_section(cost, width) if len(cost.latency_by_einsum) > 1 else None,
        energy_section(cost, width),
        busy_section(cost, spec),
        pipelines_section(cost) if cost.pipelines else None,
        memory_section(report_rows.memory_rows(cost, arch, archs), width),
        spatial_section(spatial) if spatial else None,
        models_section(spec) if spec else None,
        loop_tree_section(mapping, spec, width) if mapping else None,
    ]
    return _stacked(section for section in sections if section is not None)


def map_report(
    result: MapResult, spec: Spec | None = None, width: int = 80, stats: bool = False, saving: Saving | None = None
) -> RenderableType:
    """The result of a search: how good it is, the other best mappings, what is fused, and the first mapping in full.

    `stats`: statistics of the search come second. `saving`: the comparison with the best unfused mapping.
    """
    with set_aside():
        return _map_report(result, spec, width, stats, saving)


def _map_report(result: MapResult, spec: Spec | None, width: int, stats: bool, saving: Saving | None) -> RenderableType:
    head: list[RenderableType] = [quality_section(result), *shared_lines(result.front[0])]
    if stats:
        head.append(stats_section(result.stats))
    if len(result.front) > 1:
        head.append(front_section(result.front, result.metrics))
    if spec is not None and spec.workload.intermediates:
        head.append(fusion_section(fusion_of(result.mapping, spec), saving))
    return _stacked([*head, cost_report(result.cost, spec, result.mapping, width)])


def to_text(report: RenderableType, width: int = 80) -> str:
    """A report as plain text without colours."""
    file = io.StringIO()
    SafeConsole(file=file, width=width, plain=True).print(report)
    return "\n".join(line.rstrip() for line in file.getvalue().splitlines()) + "\n"


# how good


def quality(result: MapResult, *, is_timed: bool = True) -> str:
    """One line: `proven optimal ...`, or `best of N evaluated in T s, not proven optimal ...`.

    A warning comes before it where the latency is 0, and so every product with it. `is_timed`: whether it says how long
    the search took, which no two searches have in common, and whether the result is from the cache.
    """
    return _timeless(result) + _quality(result, is_timed=is_timed)


def _timeless(result: MapResult) -> str:
    timed = [name for name, metric in METRICS.items() if metric.is_timed and name in result.metrics]
    if not timed or result.cost.latency != 0:
        return ""
    names = " and ".join(METRICS[name].title for name in timed)
    every = "" if timed == ["latency"] else f", and with it every {names}: mappings are not compared by more"
    return f"warning: the latency is 0{every}; nothing takes time, look at throughput and total_latency\n"


def _quality(result: MapResult, *, is_timed: bool) -> str:
    stats = result.stats
    metrics = " and ".join(METRICS[name].title for name in result.metrics)
    took = f"{format_count(stats.evaluated)} evaluated"
    if is_timed:
        took += f" in {wall_time(stats.seconds)}" + (", now from the cache" if result.cached else "")
    space = f" of {format_count(stats.mapspace_size)} mappings" if stats.mapspace_size != stats.evaluated else ""
    reason = f": {result.reason}" if result.reason else ""
    if result.optimal:
        return f"proven optimal in {metrics}{space} ({took}){reason}"
    bound = f"; {excess(result.gap)}" if result.gap is not None else ""
    if not stats.evaluated:
        return f"a first mapping, not searched for {metrics} ({took}){reason}{bound}"
    return f"best {metrics} of {took}, not proven optimal{reason}{bound}"


def quality_section(result: MapResult) -> RenderableType:
    """The line that says how far the result can be trusted."""
    return Text(quality(result), style="bold green" if result.optimal else "bold yellow")


def shared_lines(solution: Found) -> list[RenderableType]:
    """For each input that the mapper copies once for all its users a line that says so."""
    return [Text(text) for text in shared_texts(solution)]


def shared_texts(solution: Found) -> list[str]:
    """`the input I is copied once, as I_shared, for V and K`: a line for each input copied for all its users.

    `A lies in DRAM in the order K, M`: one for each layout that was chosen.
    """
    users = solution.spec.workload.consumers
    return [
        f"the input {tensor} is copied once, as {copy}, for {listed(users[copy], between=' and ')}"
        for tensor, copy in solution.copies.items()
    ] + [
        f"{tensor} lies in {memory} {lying(lies)}"
        for memory, by_tensor in solution.layouts.items()
        for tensor, lies in by_tensor.items()
    ]


def lying(lies: Lies) -> str:
    """`in the order M, K`; `in blocks of M 8 x K 4`."""
    if isinstance(lies, list):
        return f"in the order {', '.join(lies)}" if lies else "value by value"
    return f"in blocks of {' x '.join(f'{rank} {values}' for rank, values in lies.items())}"


def front_section(front: tuple[Found, ...], metrics: tuple[str, ...]) -> RenderableType:
    """The mappings of which none is better than another in all metrics: their metrics, energy, latency and EDP."""
    others = [name for name in metrics if name not in ("energy", "latency", "energy_delay_product")]
    table = new_table("", "energy", "latency", "EDP", *(METRICS[name].title for name in others))
    for position, solution in enumerate(front[:_MOST_BEST], start=1):
        cost = solution.cost
        values = format_si(cost.energy, "J"), format_si(cost.latency, "s"), format_si(cost.edp, "J*s")
        more_values = (_metric(objective(cost, name), name) for name in others)
        table.add_row(str(position), *values, *more_values)
    more = len(front) - _MOST_BEST
    rest = [Text(f"  ... and {more} more")] if more > 0 else []
    return Group(section_title(f"Best mappings ({len(front)}); the first one follows"), table, *rest)


def _metric(value: float, name: str) -> str:
    return format_si(value, METRICS[name].unit) if METRICS[name].unit else percent(value)


def stats_section(stats: MapStats) -> RenderableType:
    """How large the mapspace of each Einsum is, what became of its parts, and where the time went."""
    rows = [(name, row) for name, row in stats.by_einsum.items() if row.get("outcomes")]
    sizes = new_table(
        "", "mappings", "data-\nplacements", "uses of\nfanouts", "tile\nshapes", "loops", "removed", "nodes"
    )
    fates = new_table("", *OUTCOMES.values())
    for name, row in rows:
        if row["same_as"]:
            sizes.add_row(name, Text(f"like {row['same_as']}", style="dim"))
            continue
        counts = (row[key] for key in ("templates", "lanes", "lattice_points", "loops", "loops_removed", "nodes"))
        sizes.add_row(name, powers_of_ten(row["mapspace_size"]), *(format_count(n) for n in counts))
        fates.add_row(name, *(powers_of_ten(row["outcomes"][outcome]["mappings"]) for outcome in OUTCOMES))
    timed = {step: seconds / stats.seconds for step, seconds in stats.steps.items()} if stats.seconds else {}
    rate = f", {format_si(stats.evaluated / stats.steps['search'], '')}/s" if stats.steps.get("search") else ""
    lines = [
        f"  mapspace   {powers_of_ten(stats.mapspace_size)} mappings" + (" of all Einsums" if len(rows) > 1 else ""),
        f"  evaluated  {format_count(stats.evaluated)} choices{rate}",
        f"  time       {format_si(stats.seconds, 's')}",
        "  of which   " + ", ".join(f"{step} {percent(share)}" for step, share in timed.items()),
    ]
    parts: list[RenderableType] = [section_title("Search"), *(Text(line) for line in lines)]
    if any("outlines" in row for row in stats.by_einsum.values()):
        parts += [Text(""), section_title("Chains of each Einsum"), _fronts_table(stats)]
    if rows:
        parts += [Text(""), section_title("Mapspace of each Einsum"), sizes]
        parts += [Text(""), section_title("What became of its mappings"), fates]
    return Group(*parts)


def _fronts_table(stats: MapStats) -> Table:
    """Sizes of a fused search, one row for each Einsum."""
    table = new_table("", "mappings", "data-\nplacements", "uses of\nfanouts", "heads", "outlines")
    for name, row in stats.by_einsum.items():
        if row["same_as"]:
            table.add_row(name, Text(f"like {row['same_as']}", style="dim"))
            continue
        counts = (format_count(row[key]) for key in ("templates", "lanes", "heads", "outlines"))
        table.add_row(name, powers_of_ten(row["mapspace_size"]), *counts)
    return table


# one section each


def totals_section(cost: Cost) -> RenderableType:
    """Energy, latency, EDP, area and work, each with what matters most in it."""
    total = report_rows.totals(cost)
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(style="dim")
    parts = {row.component: row.share for row in report_rows.energy_rows(cost)}
    powers = [f"; {report_rows.power_name(name)} {percent(share)}" for name, share in total.by_power.items() if share]
    grid.add_row("energy", format_si(total.energy, "J"), Text(largest(parts) + "".join(powers)))
    limits = {row.component: row.limits for row in report_rows.busy_rows(cost)}
    grid.add_row("latency", format_si(total.latency, "s"), Text(limited(limits)))
    grid.add_row("EDP", format_si(total.edp, "J*s"), "")
    areas = {row.component: row.total_area or 0.0 for row in cost.components}
    if total.area:
        shares = {name: value / total.area for name, value in areas.items()}
        grid.add_row("area", area(total.area), Text(largest(shares)))
    if total.computes:
        grid.add_row("computes", format_count(total.computes), Text(rates(total)))
    if cost.semantics != "exact":
        grid.add_row("counted as", cost.semantics, "")
    return grid


def einsums_section(cost: Cost, width: int) -> RenderableType:
    """A cascade at a glance: one line for each Einsum; its bar is as long as the width allows."""
    rows = report_rows.einsum_rows(cost)
    energy, latency = Scale.of((r.energy for r in rows), "J"), Scale.of((r.latency for r in rows), "s")
    units = f"energy\n{energy.unit}", f"latency\n{latency.unit}"
    lines = [_einsum_line(row, energy, latency) for row in rows]
    # a cascade may have a thousand Einsums: one line as wide as any in each column is measured, and the bars are the
    # only part that gives way
    widest = _EinsumLine(*(max(texts, key=cell_len) for texts in zip(*lines, strict=True)))
    room = width - _natural_width(_einsum_table(units, [(widest, 0.0)], _LONGEST_BAR)) + _LONGEST_BAR
    bar = _LONGEST_BAR if room >= _LONGEST_BAR else next((bar for bar in (8, 6, 4, 2) if bar <= room), 0)
    shares = [row.latency_share for row in rows]
    return Group(section_title("Einsums"), _einsum_table(units, zip(lines, shares, strict=True), bar))


class _EinsumLine(NamedTuple):
    """What is said of one Einsum, but for its bar."""

    einsum: str
    energy: str
    energy_share: str
    latency: str
    latency_share: str
    limited_by: str
    memory: str


def _einsum_line(row: report_rows.EinsumRow, energy: Scale, latency: Scale) -> _EinsumLine:
    return _EinsumLine(
        row.einsum,
        energy.show(row.energy),
        percent(row.energy_share),
        latency.show(row.latency),
        percent(row.latency_share),
        " + ".join(row.limited_by) or NONE,
        f"{row.memory} {percent(row.usage)}" if row.memory else NONE,
    )


def _einsum_table(units: tuple[str, str], lines: Iterable[tuple[_EinsumLine, float]], bar: int) -> Table:
    """`lines`: with the share of the latency, which the bar shows."""
    table = new_table("", units[0], "", units[1], "", "", "\nlimited by", "\nfills most")
    for line, share in lines:
        *numbers, limited_by, memory = line
        table.add_row(*numbers, Bar(share, bar), Text(limited_by), Text(memory))
    _left(table, 5, 6, 7)
    return table


def energy_section(cost: Cost, width: int) -> RenderableType:
    """Energy by component and tensor; where the columns do not fit, only the tensors that cost most."""
    rows, tensors = report_rows.energy_rows(cost), report_rows.tensors(cost)
    scale = Scale.of((row.total for row in rows), "J")
    title = section_title(f"Energy ({scale.unit}) by component and tensor")
    if len(tensors) * _NARROWEST <= width:
        matrix = _energy_matrix(rows, tensors, scale)
        if _natural_width(matrix) <= width:
            return Group(title, matrix)
    table = new_table("", "total", "", "", "of which")
    for row in rows:
        parts = {**row.by_tensor, "compute": row.compute, **row.by_power}
        shares = {name: value / row.total if row.total else 0.0 for name, value in parts.items()}
        shown = Text(largest(shares, most=5))
        table.add_row(row.component, scale.show(row.total), percent(row.share), Bar(row.share), shown)
    _left(table, 3, 4)
    return Group(title, table)


def _energy_matrix(rows: tuple[report_rows.EnergyRow, ...], tensors: tuple[str, ...], scale: Scale) -> Table:
    columns = {tensor: [row.by_tensor.get(tensor, 0.0) for row in rows] for tensor in tensors}
    columns["compute"] = [row.compute for row in rows]
    for name in dict.fromkeys(name for row in rows for name, energy in row.by_power.items() if energy):
        columns[name] = [row.by_power.get(name, 0.0) for row in rows]
    columns["total"] = [row.total for row in rows]
    table = new_table("", *columns, "", "")
    for index, row in enumerate(rows):
        values = [scale.show(column[index]) for column in columns.values()]
        table.add_row(row.component, *values, percent(row.share), Bar(row.share))
    table.add_section()
    sums = [scale.show(math.fsum(column)) for column in columns.values()]
    table.add_row("total", *sums, "", "", style="bold")
    return table


def busy_section(cost: Cost, spec: Spec | None = None) -> RenderableType:
    """How long each component works, for which part of the latency nothing works longer, and why more time passes."""
    rows = report_rows.busy_rows(cost)
    cascade = len(cost.latency_by_einsum) > 1
    scale = Scale.of((row.busy for row in rows), "s")
    table = new_table("", scale.unit, "busy", "", "")
    for row in rows:
        limits = ""
        if row.limits:
            limits = f"limits {percent(row.limits)} of the time" if cascade else "limits the latency"
        bar = Bar(row.share, 20, "yellow" if row.limits else "cyan")
        style = "bold" if row.limits else ""
        table.add_row(row.component, scale.show(row.busy), percent(row.share), bar, limits, style=style)
    _left(table, 3, 4)
    parts: list[RenderableType] = [section_title("Latency: how long each component works"), table]
    if cost.longer:
        whose = (
            f"{len(cost.longer)} of {len(cost.latency_by_einsum)} Einsums take longer than their"
            if cascade
            else "the Einsum takes longer than its"
        )
        why = "; ".join(report_rows.waiting_reasons(cost, spec))
        parts.append(Text(f"{whose} busiest component: {why}", style="dim"))
    return Group(*parts)


def memory_section(rows: tuple[report_rows.MemoryRow, ...], width: int) -> RenderableType:
    """How full each memory is at its fullest, and with what."""
    table = new_table("", "full", "", "capacity", "largest tensors")
    for row in rows:
        if row.size_bits is not None and math.isinf(row.size_bits):
            table.add_row(row.component, NONE, "", "unlimited", "")
            continue
        copies = f"{row.instances:,} x " if row.instances > 1 else ""
        capacity = f"{copies}{format_bits(row.size_bits)}" if row.size_bits is not None else NONE
        bar = Bar(row.usage, 20 if width >= 100 else 12, "yellow" if row.usage >= _FULL else "cyan")
        table.add_row(row.component, percent(row.usage), bar, capacity, Text(largest(row.by_tensor)))
    _left(table, 2, 4)
    return Group(section_title("Memories: how full at most"), table)


def spatial_section(rows: tuple[report_rows.SpatialRow, ...]) -> RenderableType:
    """How much of each fanout works."""
    table = new_table("", "used", "", "fanout", "")
    for row in rows:
        lowest = ""
        if row.highest - row.lowest > 1e-9:
            lowest = f"{percent(row.lowest)} in {row.lowest_in}, up to {percent(row.highest)}"
        fanout = f"{row.fanout:,}" if row.fanout is not None else NONE
        name = f"{row.component}.{row.dimension}"
        table.add_row(name, percent(row.mean), Bar(row.mean, 20), fanout, Text(lowest))
    _left(table, 2, 4)
    return Group(section_title("Fanouts: how much is used"), table)


def loop_tree_section(mapping: LoopTree, spec: Spec | None, width: int) -> RenderableType:
    """The mapping as a loop nest."""
    lines = [_node_text(line) for line in loop_tree_lines(mapping, spec, width - 2)]
    return Group(section_title("LoopTree"), Padding(Group(*lines), (0, 0, 0, 2)))


def _node_text(line: str) -> Text:
    styles = {
        "[": "green",
        "for": "cyan",
        "spatial-for": "magenta",
        "compute": "bold",
        "first:": "dim",
        "then:": "dim",
        "stage ": "dim",
    }
    style = next((s for start, s in styles.items() if line.lstrip().startswith(start)), "")
    return Text(line, style=style, no_wrap=True, overflow="fold")


# small parts


def _stacked(sections: Iterable[RenderableType]) -> Group:
    spaced: list[RenderableType] = []
    for section in sections:
        spaced += [Text(""), section] if spaced else [section]
    return Group(*spaced)


def _left(table: Table, *columns: int) -> None:
    for index in columns:
        table.columns[index].justify = "left"


def _natural_width(table: Table) -> int:
    console = SafeConsole(width=10_000, plain=True, file=io.StringIO())
    return console.measure(table).maximum
