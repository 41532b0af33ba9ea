"""How much one file of a specification may do, with all that it includes: counted, never timed."""

from __future__ import annotations

from dataclasses import dataclass

from einmap.errors import SpecError
from einmap.frontends.files import MAX_TEXT

MAX_STEPS = 1_000_000
"""Iterations, calls and elements that templates handle."""
FILE_STEPS = 1_000
"""What it costs to include a file."""
MAX_NODES = 1_000_000
"""Values in YAML documents, aliases and includes expanded."""
MAX_INCLUDED = 20
"""Files that include one another, down from the first."""


@dataclass(slots=True)
class Work:
    """What was done so far."""

    steps: int = 0
    characters: int = 0
    nodes: int = 0

    def step(self, count: int = 1) -> None:
        """Count work of a template. Raises SpecError when it is too much."""
        self.steps += count
        if self.steps > MAX_STEPS:
            raise SpecError(f"the template takes more than {MAX_STEPS:,} steps")

    def write(self, characters: int) -> None:
        """Count rendered text. Raises SpecError when it is too much."""
        self.characters += characters
        if self.characters > MAX_TEXT:
            raise SpecError(f"the rendered text is longer than {MAX_TEXT:,} characters, with all that is included")
