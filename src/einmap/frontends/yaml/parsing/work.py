"""How much one file of a specification may do, with all that it includes: counted, never timed."""

from __future__ import annotations

from dataclasses import dataclass

from einmap.errors import SpecError

MAX_STEPS = 500_000
"""Nodes of templates evaluated, and what costs more, as follows."""
CALL_STEPS = 4
"""Steps of calling a function or macro."""
NODE_STEPS = 5
"""Steps of reading one value of a file that is included."""
FILE_STEPS = 500
"""Steps of including a file."""
FOLDER_STEPS = 250
"""Steps of looking into a folder."""
MAX_RENDERED = 2_000_000
"""Characters that the templates of a file give, with all that it includes."""
MAX_NODES = 1_000_000
"""Values in YAML documents, aliases and includes expanded."""
MAX_PARSED = 100_000
"""Values that are written in YAML documents, each of which takes the parser some time."""
MAX_DOCUMENT = 4_000_000
"""Characters of one YAML document."""
MAX_INCLUDED = 20
"""Files that include one another, down from the first."""


@dataclass(slots=True)
class Work:
    """Work done so far."""

    steps: int = 0
    characters: int = 0
    nodes: int = 0
    depth: int = 0
    """Levels around the file that a tag includes now, in the files that include it."""
    parsed: int = 0

    def step(self, count: int = 1) -> None:
        """Count steps. Raises SpecError when they are too many."""
        self.steps += count
        if self.steps > MAX_STEPS:
            raise SpecError(f"the template takes more than {MAX_STEPS:,} steps, with all that it includes")

    def write(self, characters: int) -> None:
        """Count rendered text. Raises SpecError when it is too much."""
        self.characters += characters
        if self.characters > MAX_RENDERED:
            raise SpecError(f"the rendered text is longer than {MAX_RENDERED:,} characters, with all that is included")
