"""YAML that many tests read, parsed once in a process: each asks for the same few shipped files."""

from __future__ import annotations

from functools import lru_cache

from einmap.frontends.yaml import include
from einmap.frontends.yaml.parsing.parse import parse_yaml
from einmap.frontends.yaml.parsing.places import Places
from einmap.spec.raw import Raw


def parse_once() -> None:
    """Let `einmap.load` keep the trees of the last texts, which nothing changes; those with includes are parsed anew."""
    include.parse_yaml = _parse  # type: ignore[attr-defined]


def _parse(text: str, file: Places, includes: include.SourceFile, anchored: dict[str, bool] | None = None) -> Raw:
    if "!include" in text or "\ue000" in text:
        return parse_yaml(text, file, includes, anchored)
    raw, found = _parsed(text, file.file, None if file.lines is None else tuple(file.lines), tuple(file.columns))
    if anchored is not None:
        anchored |= found
    return raw


@lru_cache(512)
def _parsed(
    text: str, file: str, lines: tuple[int, ...] | None, columns: tuple[int, ...]
) -> tuple[Raw, dict[str, bool]]:
    anchored: dict[str, bool] = {}
    return parse_yaml(text, Places(file, lines, columns), None, anchored), anchored
