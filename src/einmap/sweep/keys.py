"""Keys of everything that a result depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from einmap.frontends.store import own_code
from einmap.spec.raw import content
from einmap.spec.spec import Spec
from einmap.sweep.definition.definition import Asked, Definition

FORMAT = 1
"""Version of what is kept of a result."""


def key_of(spec: Spec, asked: Asked) -> str:
    """64 hexadecimal digits, equal for equal content with its component models, what is asked, and einmap."""
    head = _head(json.dumps(asdict(asked), sort_keys=True, default=str))
    text = f"{head}\n{spec.models.fingerprint}\n{content(spec.raw)}"
    return hashlib.sha256(text.encode()).hexdigest()


def text_key(text: str) -> str:
    """64 hexadecimal digits of a text."""
    return hashlib.sha256(text.encode()).hexdigest()


def sweep_key(definition: Definition, drawn: Sequence[object]) -> str:
    """Key that tells a sweep from others: the text of its definition, and the points that are drawn."""
    return text_key(json.dumps([FORMAT, definition.name, definition.content, list(definition.files), list(drawn)]))


@cache
def _head(asked: str) -> str:
    try:
        number = version("einmap")
    except PackageNotFoundError:
        number = ""
    return json.dumps([FORMAT, number, own_code(), asked])
