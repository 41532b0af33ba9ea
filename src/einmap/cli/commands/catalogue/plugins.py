"""`einmap plugins`: what installed packages add."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rich.console import Group
from rich.text import Text

from einmap.cli.commands.exchange.formats import HUGGINGFACE, ONNX, READERS, TORCH, WRITERS
from einmap.cli.options import flag, group
from einmap.cli.output import print_report
from einmap.components.registry import builtin
from einmap.emit.language.identifiers import LANGUAGES
from einmap.errors import SpecError
from einmap.mapper.objective.metrics import ALIASES, METRICS
from einmap.plugins import GROUPS, Plugin, same_name
from einmap.plugins import plugins as installed
from einmap.report.text.layout import Table, section
from einmap.search.strategy import BUILT_IN


@group
class Options:
    """Whether modules of others are imported."""

    check: bool = flag("Load each one, which runs its module, and say which are broken.")


def plugins_command(options: Options) -> None:
    """List what installed packages add: formats, component models, metrics, strategies, languages.

    None of it is loaded before its name is asked for. einmap's own names go first, then the first package with a name.

    Example: einmap plugins --check
    """
    found = installed()
    own = {key: {same_name(name) for name in names} for key, names in _own_names().items()}
    texts, taken = [], {**own}
    for one in found:
        state = _state(one, taken[one.group], own[one.group], options.check)
        taken[one.group] = taken[one.group] | {same_name(one.name)}
        texts.append((one.name, f"einmap.{one.group}", f"{one.package} {one.version}", state))
    if texts:
        print_report(section("Plug-ins", Table(("name", "group", "package", "state"), texts, left=range(4))))
        return
    groups = [Text(f"einmap.{name}: {what}") for name, what in GROUPS.items()]
    print_report(
        Group(Text("No installed package adds anything. What one may add, by the group of its entry point:"), *groups)
    )


def _state(one: Plugin, taken: Iterable[str], own: Iterable[str], check: bool) -> str:
    if same_name(one.name) in taken:
        return "passed over: einmap has this name" if same_name(one.name) in own else "passed over: the name is taken"
    if not check:
        return "not loaded"
    try:
        one.load()
    except SpecError as error:
        return f"broken: {error.message}"
    return "can be loaded"


def _own_names() -> Mapping[str, Iterable[str]]:
    """Names of einmap itself, by group."""
    return {
        "frontends": (ONNX, HUGGINGFACE, TORCH, *READERS, *WRITERS),
        "component_models": [name for model in builtin() for name in (model.name, *model.aliases)],
        "metrics": (*METRICS, *ALIASES),
        "strategies": BUILT_IN,
        "emitters": LANGUAGES,
    }
