"""Plug-ins: what installed packages add to einmap under a name, by their entry points.

A package is looked at when a name is asked for that einmap does not have, and its module imported when the name is one
of it: so none costs anything at start, and none can take a name of einmap's own. Names are found without regard to
case, `-` and `_`; of two packages with one name the first by name of the package counts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from einmap.errors import At, SpecError
from einmap.visible import short

if TYPE_CHECKING:
    from importlib.metadata import Distribution

GROUPS = {
    "frontends": "formats: an object with `read`, `write` or both (einmap import --from, einmap export --to)",
    "component_models": "models of hardware components: a class or object (component_class)",
    "metrics": "what a mapping is judged by: an AddedMetric (einmap map --metrics)",
    "strategies": "strategies of the search lab: a factory (einmap search --strategy)",
    "emitters": "languages of code: a function of a specification (einmap emit --lang)",
}
"""Kinds of plug-ins by the last word of the entry point's group, `einmap.WORD`."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """One name that a package adds. `value`: `module:attribute`; `file`: where the package says so."""

    group: str
    name: str
    package: str
    version: str
    value: str
    file: str

    def load(self) -> Any:
        """The object itself. Raises SpecError with the place for one that cannot be imported."""
        from importlib.metadata import EntryPoint

        try:
            return EntryPoint(self.name, self.value, f"einmap.{self.group}").load()
        except (Exception, SystemExit) as error:  # whatever a module of others does when it is imported
            text = f"{self.name} of the package {self.package} {self.version} cannot be loaded"
            raise SpecError(
                f"{text}: {type(error).__name__}: {short(str(error), 200)}",
                at=At(self.file, path=f"einmap.{self.group}"),
                hint=f"mend {self.value}, or uninstall {self.package}; einmap plugins --check tries all",
            ) from error


def plugins(group: str | None = None) -> list[Plugin]:
    """Plug-ins of installed packages, none of them loaded; in the order of groups, names and packages."""
    return [one for one in _installed(tuple(sys.path)) if group in (None, one.group)]


@lru_cache(maxsize=4)
def _installed(path: tuple[str, ...]) -> list[Plugin]:
    """Plug-ins of all packages on a path of Python, looked for once: thousands of names may be asked for."""
    from importlib.metadata import distributions  # here, since it takes as long as the rest of einmap

    found = {plugin: None for one in distributions(path=[*path]) for plugin in _of(one)}
    return sorted(found, key=lambda one: ([*GROUPS].index(one.group), same_name(one.name), one.package))


def plugin_names(group: str) -> list[str]:
    """Names that installed packages add to a group, each once."""
    return list(dict.fromkeys(plugin.name for plugin in plugins(group)))


def plugin(group: str, name: str) -> Any:
    """The object that an installed package adds under a name; None if none does. Raises SpecError for a broken one."""
    found = next((one for one in plugins(group) if same_name(one.name) == same_name(name)), None)
    return None if found is None else found.load()


def same_name(name: str) -> str:
    """A name as it is compared: without case, `-` and `_`."""
    return name.lower().replace("_", "").replace("-", "")


def _of(distribution: Distribution) -> Iterator[Plugin]:
    """The entries of one package. One whose metadata cannot be read is passed over, as pip does."""
    try:
        entries = [entry for entry in distribution.entry_points if entry.group.startswith("einmap.")]
        package, version = (str(distribution.metadata[key]) for key in ("Name", "Version")) if entries else ("", "")
        # to list the files of a package looks at each of them
        files = (distribution.files or ()) if entries else ()
        file = next((str(one.locate()) for one in files if one.name == "entry_points.txt"), package)
    except Exception:  # metadata of others: whatever is wrong in them
        return
    for entry in entries:
        group = entry.group.removeprefix("einmap.")
        if group in GROUPS:
            yield Plugin(group, entry.name, package, version, entry.value, file)
