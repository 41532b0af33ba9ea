"""The report for a terminal, in Rich: what limits latency, where energy goes, how full memories are."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from einmap.gc_pause import set_aside
from einmap.mapper.fusion_saving import Saving
from einmap.mapper.objective.metrics import METRICS
from einmap.mapper.result.result import Found, MapResult, MapStats, objective
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.model.cost import Cost
from einmap.model.fusion import fusion_of
from einmap.report.costs import rows, tables
from einmap.report.costs.fusion import fusion_section
from einmap.report.costs.pipelines import pipelines_section
from einmap.report.costs.provenance import models_section
from einmap.report.costs.zeros import zeros_section
from einmap.report.text.console import SafeConsole
from einmap.report.text.formatting import excess, percent, quantity, wall_time
from einmap.report.text.layout import Table, laid_out, more, section, stacked
from einmap.report.text.loop_tree import loop_tree_lines
from einmap.spec.forms.chosen_layouts import Lies
from einmap.spec.schema.documented import flow_text
from einmap.spec.spec import Spec
from einmap.units import format_count, format_si, powers_of_ten
from einmap.visible import listed

OUTCOMES = {
    "lane bounds": "ruled out\nby fanouts",
    "plan bounds": "by data-\nplacements",
    "root bounds": "with\ntables",
    "searched": "searched",
    "not covered": "not\ncovered",
}
"""Fates of parts of the mapspace, and the titles of their columns."""
SIZES = {
    "templates": "data-\nplacements", "lanes": "uses of\nfanouts", "lattice_points": "tile\nshapes", "loops": "loops",
    "loops_removed": "removed", "nodes": "nodes", "heads": "outer\nnests", "outlines": "signa-\ntures",
}  # fmt: skip
"""Counts of a mapspace, and the titles of their columns."""
SHORTER = "docs/slow-searches.md says what tells a weak bound from a weak mapping, and what shortens a search"
"""Page to which a stopped search points."""
_BARS = (10, 8, 6, 4, 2)
_NARROWEST = 3
"""Width of a column, with what stands between two columns."""
_MOST_BEST = 20
"""Rows of a Pareto front that are shown."""


def cost_report(
    cost: Cost, spec: Spec | None = None, mapping: LoopTree | None = None, width: int = 80
) -> RenderableType:
    """Everything about one result. `spec` adds capacities and fanouts, `mapping` the LoopTree."""
    fanouts = tables.fanouts_table(cost, spec)
    memories = laid_out(tables.memories_table(cost, spec), 20 if width >= 100 else 12)
    return stacked(
        [
            totals_section(cost),
            einsums_section(cost, width) if len(cost.latency_by_einsum) > 1 else None,
            energy_section(cost, width),
            busy_section(cost, spec),
            pipelines_section(cost),
            zeros_section(cost),
            section("Memories: how full at most", memories),
            section("Fanouts: how much is used", laid_out(fanouts, 20)) if fanouts.rows else None,
            models_section(spec) if spec else None,
            loop_tree_section(mapping, spec, width) if mapping else None,
        ]
    )


def map_report(
    result: MapResult, spec: Spec | None = None, width: int = 80, stats: bool = False, saving: Saving | None = None
) -> RenderableType:
    """The result of a search: how good it is, the other best mappings, what is fused, and the first mapping in full.

    `stats`: statistics of the search come second. `saving`: the comparison with the best unfused mapping.
    """
    with set_aside():
        fuses = spec is not None and spec.workload.intermediates
        return stacked(
            [
                Text(quality(result), style="bold green" if result.optimal else "bold yellow"),
                *map(Text, shared_texts(result.front[0])),
                stats_section(result.stats) if stats else None,
                front_section(result.front, result.metrics) if len(result.front) > 1 else None,
                fusion_section(fusion_of(result.mapping, spec), saving) if spec is not None and fuses else None,
                cost_report(result.cost, spec, result.mapping, width),
            ]
        )


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
    advice = f"; {SHORTER}" if result.stopped else ""
    return f"best {metrics} of {took}, not proven optimal{reason}{bound}{advice}"


def shared_texts(solution: Found) -> list[str]:
    """`the input I is copied once, as I_shared, for V and K`: a line for each input copied for all its users.

    `A lies in DRAM in the order K, M`: one for each layout that was chosen; `DRAM stores A as csr`: for each format.
    """
    users = solution.spec.workload.consumers
    return (
        [
            f"the input {tensor} is copied once, as {copy}, for {listed(users[copy], between=' and ')}"
            for tensor, copy in solution.copies.items()
        ]
        + [
            f"{tensor} lies in {memory} {lying(lies)}"
            for memory, by_tensor in solution.layouts.items()
            for tensor, lies in by_tensor.items()
        ]
        + [
            f"{memory} stores {tensor} as {flow_text(chosen)}"
            for memory, by_tensor in solution.formats.items()
            for tensor, chosen in by_tensor.items()
        ]
    )


def lying(lies: Lies) -> str:
    """`in the order M, K`; `in blocks of M 8 x K 4`."""
    if isinstance(lies, list):
        return f"in the order {', '.join(lies)}" if lies else "value by value"
    return f"in blocks of {' x '.join(f'{rank} {values}' for rank, values in lies.items())}"


def front_section(front: tuple[Found, ...], metrics: tuple[str, ...]) -> RenderableType:
    """The mappings of which none is better than another in all metrics: their metrics, energy, latency and EDP."""
    names = dict.fromkeys(("energy", "latency", "energy_delay_product", *metrics))
    texts = [
        (str(position), *(quantity(objective(solution.cost, name), name) for name in names))
        for position, solution in enumerate(front[:_MOST_BEST], start=1)
    ]
    table = Table(("", *(METRICS[name].title for name in names)), texts)
    return section(f"Best mappings ({len(front)}); the first one follows", table, *more(len(front) - _MOST_BEST))


# what a search did


def sizes_table(lines: Sequence[tuple[str, dict[str, Any]]]) -> Table:
    """How large the mapspace of each Einsum is, from `MapStats.by_einsum`."""
    keys = [key for key in SIZES if any(key in row for _, row in lines)]
    texts: list[tuple[str, ...]] = []
    for name, row in lines:
        counts = (format_count(row[key]) if key in row else "" for key in keys)
        like = f"like {row['same_as']}" if row.get("same_as") else ""
        texts.append((name, like, *[""] * len(keys)) if like else (name, powers_of_ten(row["mapspace_size"]), *counts))
    return Table(("", "mappings", *(SIZES[key] for key in keys)), texts)


def fates_table(lines: Sequence[tuple[str, dict[str, Any]]]) -> Table:
    """Fates of the mappings of each Einsum."""
    own = [(name, row["outcomes"]) for name, row in lines if row.get("outcomes") and not row.get("same_as")]
    texts = [(name, *(powers_of_ten(fates[key]["mappings"]) for key in OUTCOMES)) for name, fates in own]
    return Table(("", *OUTCOMES.values()), texts)


def stats_section(stats: MapStats) -> RenderableType:
    """How large the mapspace of each Einsum is, what became of its parts, and where the time went."""
    lines = list(stats.by_einsum.items())
    fates = fates_table(lines)
    timed = {step: seconds / stats.seconds for step, seconds in stats.steps.items()} if stats.seconds else {}
    rate = f", {format_si(stats.evaluated / stats.steps['search'], '')}/s" if stats.steps.get("search") else ""
    whole = " of all Einsums" if len(fates.rows) > 1 else ""
    texts = [
        f"  mapspace   {powers_of_ten(stats.mapspace_size)} mappings{whole}",
        f"  evaluated  {format_count(stats.evaluated)} choices{rate}",
        f"  time       {format_si(stats.seconds, 's')}",
        "  of which   " + ", ".join(f"{step} {percent(share)}" for step, share in timed.items()),
    ]
    is_fused = any("outlines" in row for _, row in lines)
    sizes = sizes_table(lines) if is_fused or fates.rows else None
    return stacked(
        [
            section("Search", *map(Text, texts)),
            section(f"{'Chains' if is_fused else 'Mapspace'} of each Einsum", sizes) if sizes else None,
            section("What became of its mappings", fates) if fates.rows else None,
        ]
    )


# one section each


def totals_section(cost: Cost) -> RenderableType:
    """Energy, latency, EDP, area and work, each with what matters most in it."""
    grid = RichTable.grid(padding=(0, 2))
    grid.add_column(style="bold")
    grid.add_column(justify="right", no_wrap=True)
    grid.add_column(style="dim")
    for name, value, note in tables.totals(cost):
        grid.add_row(name, value, Text(note))
    return grid


def einsums_section(cost: Cost, width: int) -> RenderableType:
    """A cascade at a glance: one line for each Einsum; its bar is as long as the width allows."""
    table = tables.einsums_table(cost)
    # a cascade may have a thousand Einsums: one line as wide as any in each column is measured, and the bars are the
    # only part that gives way
    widest = [max(texts, key=cell_len) for texts in zip(*table.rows, strict=True)]
    room = width - _natural_width(laid_out(replace(table, rows=[widest]), 0))
    return section("Einsums", laid_out(table, next((bar for bar in _BARS if bar <= room), 0)))


def energy_section(cost: Cost, width: int) -> RenderableType:
    """Energy by component and tensor; where the columns do not fit, only the tensors that cost most."""
    title = f"Energy ({tables.energy_unit(cost)}) by component and tensor"
    if len(rows.tensors(cost)) * _NARROWEST <= width:
        matrix = laid_out(tables.energy_table(cost))
        if _natural_width(matrix) <= width:
            return section(title, matrix)
    return section(title, tables.largest_energies(cost))


def busy_section(cost: Cost, spec: Spec | None = None) -> RenderableType:
    """How long each component works, for which part of the latency nothing works longer, and why more time passes."""
    parts: list[RenderableType] = [laid_out(tables.busy_table(cost), 20)]
    if cost.longer:
        several = len(cost.latency_by_einsum) > 1
        whose = f"{len(cost.longer)} of {len(cost.latency_by_einsum)} Einsums take longer than their"
        whose = whose if several else "the Einsum takes longer than its"
        parts.append(Text(f"{whose} busiest component: {'; '.join(rows.waiting_reasons(cost, spec))}", style="dim"))
    return section("Latency: how long each component works", *parts)


def loop_tree_section(mapping: LoopTree, spec: Spec | None, width: int) -> RenderableType:
    """The mapping as a loop nest."""
    lines = [_node_text(line) for line in loop_tree_lines(mapping, spec, width - 2)]
    return section("LoopTree", Padding(Group(*lines), (0, 0, 0, 2)))


def _node_text(line: str) -> Text:
    styles = {
        "[": "green", "for": "cyan", "spatial-for": "magenta", "compute": "bold", "first:": "dim", "then:": "dim",
        "stage ": "dim",
    }  # fmt: skip
    style = next((s for start, s in styles.items() if line.lstrip().startswith(start)), "")
    return Text(line, style=style, no_wrap=True, overflow="fold")


def _natural_width(table: RichTable) -> int:
    return SafeConsole(width=10_000, plain=True, file=io.StringIO()).measure(table).maximum
