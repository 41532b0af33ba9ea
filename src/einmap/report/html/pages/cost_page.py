"""Pages about one mapping and its cost: what `evaluate`, `map` and `explain` show."""

from __future__ import annotations

from collections.abc import Sequence

from einmap.frontends.yaml.spec import dump_mapping
from einmap.mapper.fusion_saving import Saving
from einmap.mapper.result.result import MapResult
from einmap.mapping.mapping import Mapping
from einmap.model.cost import Cost
from einmap.model.explanation.energy_terms import EnergyExplanation
from einmap.model.explanation.values import Explanation
from einmap.report.costs.tables import fanouts_table, memories_table
from einmap.report.html.parts import Code, Folded, Page, Section
from einmap.report.html.sections.drawings import architecture_section, loop_tree_section, workload_section
from einmap.report.html.sections.energy import energy_section
from einmap.report.html.sections.explained import explained_sections, terms_section
from einmap.report.html.sections.front import front_section
from einmap.report.html.sections.fusion import fusion_section
from einmap.report.html.sections.inputs import inputs_section
from einmap.report.html.sections.latency import latency_section
from einmap.report.html.sections.occupancy import occupancy_section
from einmap.report.html.sections.roofline import roofline_section
from einmap.report.html.sections.search import search_section, verdict
from einmap.report.html.sections.summary import summary_section
from einmap.spec.spec import Spec
from einmap.units import counted
from einmap.visible import listed

_MOST_NAMED = 4


def evaluation_page(cost: Cost, spec: Spec, mapping: Mapping, names: Sequence[str] = ()) -> Page:
    """Page on the cost of a mapping. `names`: of the files or examples that it was made from, for the title.

    Raises as `evaluate` does.
    """
    sections = (summary_section(cost), *cost_sections(cost, spec, mapping), inputs_section(spec))
    return Page.of(title_of("Evaluation", spec, names), _subtitle(spec), sections, cost.notes)


def map_page(result: MapResult, saving: Saving | None = None, names: Sequence[str] = ()) -> Page:
    """Page on a search: how good it is, the Pareto front, the best mapping in full, what the search did.

    `saving`: what fusion saves. Raises as `evaluate` does.
    """
    spec, cost, mapping = result.spec, result.cost, result.mapping
    found = result.front[0]
    best = Folded("the best mapping as YAML", (Code(dump_mapping(mapping, **found.made_for)),))
    sections = (
        summary_section(cost, *verdict(result)),
        front_section(result),
        fusion_section(mapping, spec, saving),
        *cost_sections(cost, spec, mapping),
        search_section(result),
        inputs_section(spec, best),
    )
    title = title_of("Best mapping" if len(result.front) == 1 else "Best mappings", spec, names)
    return Page.of(title, _subtitle(spec), sections, cost.notes)


def explanation_page(explanation: Explanation, spec: Spec, mapping: Mapping, names: Sequence[str] = ()) -> Page:
    """Why a mapping costs what it does. Raises as `evaluate` does."""
    cost = explanation.cost
    sections = (
        summary_section(cost),
        *explained_sections(explanation),
        *cost_sections(cost, spec, mapping),
        inputs_section(spec),
    )
    return Page.of(title_of("Explanation", spec, names), _subtitle(spec), sections, explanation.notes)


def energy_page(explanation: EnergyExplanation, cost: Cost, spec: Spec, names: Sequence[str] = ()) -> Page:
    """Every joule of a mapping followed to a line or a publication; `cost` is that of the specification's mapping."""
    sections = (summary_section(cost), terms_section(explanation), energy_section(cost), inputs_section(spec))
    return Page.of(title_of("Energy", spec, names), _subtitle(spec), sections, explanation.notes)


def cost_sections(cost: Cost, spec: Spec, mapping: Mapping) -> tuple[Section | None, ...]:
    """Everything about one mapping but the first numbers and the inputs."""
    return (
        loop_tree_section(mapping, spec, cost),
        energy_section(cost),
        latency_section(cost),
        roofline_section(cost, spec),
        occupancy_section(spec, mapping),
        usage_section(cost, spec),
        architecture_section(spec, cost),
        workload_section(spec.workload),
    )


def usage_section(cost: Cost, spec: Spec) -> Section:
    """How full each memory is at most, and how much of each fanout works."""
    fanouts = fanouts_table(cost, spec)
    parts = (memories_table(cost, spec), *([fanouts] if fanouts.rows else []))
    return Section("usage", "Memories and fanouts", parts)


def title_of(what: str, spec: Spec, names: Sequence[str]) -> str:
    """`Best mapping of QK, AV: tpu_v4i, gpt3`, from the names of files or else of the Einsums."""
    if names:
        return f"{what}: {', '.join(names)}"
    return f"{what} of {listed(spec.workload.by_name, most=_MOST_NAMED)}"


def _subtitle(spec: Spec) -> str:
    arch = spec.arch()
    return f"{counted(len(spec.workload.einsums), 'Einsum')} on {', '.join(arch.components)}"
