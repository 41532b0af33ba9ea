"""Shipped distributions with turns that do as well as a plan in turns."""

from __future__ import annotations

from dataclasses import replace

from einmap.cli.output import print_hint
from einmap.distribute.planner.planner import Planned
from einmap.distribute.plans.lifetimes import peak_memory
from einmap.distribute.read import KEY, plan_of
from einmap.errors import EinmapError
from einmap.frontends.files import read_text_file
from einmap.frontends.yaml.spec import example_paths, load
from einmap.spec.raw import RawMap, from_python, set_value
from einmap.spec.spec import Spec
from einmap.units import format_bytes

FOLDER = "distributions"


def name_shipped(planned: Planned, spec: Spec) -> None:
    """Where the plan runs in turns, name the shipped distributions that keep to the memory, too, on the same mesh."""
    best, request = planned.best, planned.request
    if best.turns is None:
        return
    memory = planned.least_peak if request.metric == "memory" else planned.memory
    for name, path in example_paths((FOLDER,)).items():
        if "\n  turns:" not in read_text_file(path):
            continue
        try:
            plan = plan_of(_with_distribution(spec, name, dict(best.plan.mesh.axes)))
        except EinmapError:
            continue  # it is for another workload or mesh
        peak = peak_memory(plan, best.bits).bytes
        if peak <= (memory or 0.0):
            print_hint(f"the shipped distribution {name} needs {format_bytes(peak)} on each PE (einmap examples)")


def _with_distribution(spec: Spec, name: str, mesh: dict[str, int]) -> Spec:
    """The specification with a shipped distribution over this mesh, and one PE along axes that only the first has.
    Raises SpecError.
    """
    given = load(name).raw.get(KEY)
    assert isinstance(given, RawMap)
    axes = given.get("mesh")
    assert isinstance(axes, RawMap)
    items = (
        ("mesh", from_python(dict.fromkeys((name for name, _ in axes.items), 1) | mesh)),
        *((key, value) for key, value in given.items if key != "mesh"),
    )
    raw = set_value(spec.raw, (KEY,), RawMap(items))
    assert isinstance(raw, RawMap)
    return replace(spec, raw=raw)
