"""Choice of what to draw of a specification, and the drawing: the one function behind `einmap show`."""

from __future__ import annotations

from typing import Literal, get_args

from einmap.errors import SpecError, did_you_mean
from einmap.model.evaluate import evaluate
from einmap.report.drawing.arch import arch_picture
from einmap.report.drawing.looptree import looptree_svg
from einmap.report.drawing.svg import to_svg
from einmap.report.drawing.theme import Theme, theme_named
from einmap.report.drawing.workload import workload_picture
from einmap.spec.spec import Spec

type What = Literal["mapping", "arch", "workload"]
WHAT: tuple[What, ...] = get_args(What.__value__)


def draw(
    spec: Spec,
    what: str | None = None,
    *,
    einsum: str | None = None,
    costs: bool = False,
    title: str = "",
    theme: str = "light",
) -> str:
    """A picture of a specification, as the text of an SVG file.

    `what`: `mapping`, `arch` or `workload`; the default is the mapping if there is one, otherwise the only one of the
    other two. `einsum`: only this Einsum. `costs`: the mapping is evaluated, and its nodes say what they cost.
    `theme`: `light` or `dark`. The same arguments always give the same text. Raises SpecError and MappingError.
    """
    colours = theme_named(theme)
    chosen = what_to_draw(spec, what)
    if costs and chosen != "mapping":
        raise SpecError(f"costs belong to a mapping, and this draws the {_WORDS[chosen]}")
    match chosen:
        case "arch":
            return to_svg(arch_picture(spec, einsum=einsum, title=title, theme=colours))
        case "workload":
            return to_svg(workload_picture(spec.workload, einsum=einsum, title=title, theme=colours))
        case "mapping":
            return _mapping_svg(spec, einsum, costs, title, colours)


def _mapping_svg(spec: Spec, einsum: str | None, costs: bool, title: str, theme: Theme) -> str:
    mapping = spec.mapping
    assert mapping is not None
    missing = [_WORDS[name] for name in ("arch", "workload") if spec.raw.get(name) is None]
    if costs and missing:
        raise SpecError(f"costs need the {' and the '.join(missing)} too", hint="give its file beside the mapping")
    # a mapping can be drawn without a workload, and also when it does not fit what is given with it
    context = spec if spec.raw.get("workload") is not None else None
    cost = evaluate(spec) if costs else None
    return looptree_svg(mapping, context, cost, einsum=einsum, title=title, theme=theme)


_WORDS = {"mapping": "mapping", "arch": "architecture", "workload": "workload"}


def what_to_draw(spec: Spec, what: str | None = None) -> What:
    """`what`, or what the specification holds. Raises SpecError when that is nothing, or not clear."""
    held: list[What] = [name for name in WHAT if spec.raw.get(name) is not None]
    if what is not None:
        chosen = next((name for name in WHAT if name == what), None)
        if chosen is None:
            raise SpecError(f"{what!r} cannot be drawn", hint=did_you_mean(what, WHAT, listing="what can be"))
        if chosen not in held:
            raise SpecError(
                f"there is no {_WORDS[chosen]} to draw", hint=f"the files give: {', '.join(held) or 'none'}"
            )
        return chosen
    if not held:
        raise SpecError("there is nothing to draw", hint=f"give a file with one of: {', '.join(WHAT)}")
    if len(held) > 1 and "mapping" not in held:
        raise SpecError(
            "an architecture and a workload, and no mapping: which one is to be drawn?",
            hint="choose with --what arch or --what workload",
        )
    return held[0]
