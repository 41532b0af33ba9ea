"""Writes docs/reference from the input models and from the texts beside this file: `make reference`.

With `--check` nothing is written; pages that would change are named, and the status is 1.
"""

from __future__ import annotations

import sys
from pathlib import Path

from docs.generate import capability_page, expression_pages, field_pages

REFERENCE = Path(__file__).parents[1] / "reference"


def pages() -> dict[str, str]:
    """All pages by the name of their file."""
    return {
        "architecture.md": field_pages.architecture(),
        "workload.md": field_pages.workload_page(),
        "mapping.md": field_pages.mapping_page(),
        "sparsity.md": field_pages.sparsity_page(),
        "options.md": field_pages.options_page(),
        "capabilities.md": capability_page.capabilities(),
        "distribution.md": field_pages.distribution_page(),
        "cluster.md": field_pages.cluster_page(),
        "machine.md": field_pages.machine_page(),
        "expressions.md": expression_pages.expressions(),
        "map-functions.md": expression_pages.map_functions(),
    }


def outdated() -> list[str]:
    """Names of pages that are not what would be written, and of files that would not be there."""
    made = pages()
    there = {file.name: file.read_text() for file in REFERENCE.glob("*")} if REFERENCE.exists() else {}
    return sorted(name for name in {*made, *there} if made.get(name) != there.get(name))


def main() -> None:
    """Write the pages, or check them."""
    if "--check" in sys.argv[1:]:
        names = outdated()
        print("\n".join(f"docs/reference/{name} is not up to date: make reference" for name in names))
        sys.exit(bool(names))
    REFERENCE.mkdir(exist_ok=True)
    for name, text in pages().items():
        (REFERENCE / name).write_text(text)


if __name__ == "__main__":
    main()
