"""Build the documentation site: `make docs`, or `python docs/site/build.py OUT [OPTIONS OF SPHINX]`.

The pages of docs/ stand as they are. What a site needs beside them is made here: a table of contents from the lists of
docs/README.md, pages of the files at the root of the repository, and the reference of the Python package from its
docstrings.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from sphinx.cmd.build import main as sphinx

import einmap

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
ROOT_PAGES = {"CHANGELOG.md": "changelog.md", "CONTRIBUTING.md": "contributing.md"}
"""Files at the root of the repository that are pages of the site, and their names there."""
OTHER_NAMES = {**ROOT_PAGES, "README.md": "index.md"}
"""Pages that have another name in the site; docs/README.md is its first page."""

GENERATED = {"genindex.md", "py-modindex.md", "search.md", "modindex.md"}
"""Pages that Sphinx writes itself: a page of this name would be lost without a word."""

API_GROUPS = {
    "Specifications": ("load", "loads", "dump", "dump_mapping", "Spec", "LiteralString"),
    "Costs of a mapping": ("evaluate", "Cost", "explain", "Mapping", "PartialMapping", "Template"),
    "Search": ("map_workload", "MapResult", "Mapspace", "Progress", "sweep", "PointResult"),
    "Execution": ("execute", "Execution"),
    "Errors": (),
    "Other": (),
}
"""Public names by heading; exceptions go below Errors, and whatever is not listed below Other."""


def contents(index: str) -> Iterator[tuple[str, list[str]]]:
    """Headings of docs/README.md, each with the pages that its list links to, in order."""
    for part in re.split(r"^## ", index, flags=re.MULTILINE)[1:]:
        heading, _, body = part.partition("\n")
        links = re.findall(r"\]\(([\w./-]+\.md)\)", body)
        yield heading.strip(), [page_name(link) for link in dict.fromkeys(links)]


def page_name(link: str) -> str:
    """Name of a page of the site, without its ending, for a link of a page in docs/."""
    name = Path(link).name
    return (ROOT_PAGES[name] if link.startswith("../") else link).removesuffix(".md")


def with_site_links(text: str, depth: int) -> str:
    """A page, `depth` folders below docs/, whose links lead to pages of the site; other files are named only."""

    def target(match: re.Match[str]) -> str:
        words, link = match[1], match[2]
        path, _, anchor = link.partition("#")
        name = path.rsplit("../", 1)[-1]
        up = "../" * depth
        if name in OTHER_NAMES:
            return f"[{words}]({up}{OTHER_NAMES[name]}{'#' + anchor if anchor else ''})"
        if path.count("../") > depth:
            return words if words.startswith("`") else f"{words} (`{name}`)"
        return match[0]

    return re.sub(r"\[([^\]]*)\]\(([^)\s]+)\)", target, text)


def root_page(text: str) -> str:
    """A page of the repository's root, whose links into docs/ are links beside it."""
    return text.replace("](docs/", "](")


def index_page(readme: str, index: str) -> str:
    """The first page: how the README begins, the lists of docs/README.md, and their pages as a tree (the side bar)."""
    beginning = root_page(readme.split("Both set up everything", maxsplit=1)[0])
    lists = index.partition("\n## ")[2]
    trees = [
        "\n".join(["```{toctree}", ":hidden:", f":caption: {heading}", "", *pages, "```"])
        for heading, pages in contents(index)
    ]
    package = "```{toctree}\n:hidden:\n:caption: Python\n\napi\n```"
    return "\n".join([beginning, with_site_links(f"## {lists}", 0), *trees, package, ""])


def api_page() -> str:
    """The reference of the package: every public name with its docstring, below a few headings."""
    groups = {heading: list(names) for heading, names in API_GROUPS.items()}
    listed = {name for names in groups.values() for name in names}
    for name in sorted(einmap.__all__, key=str.lower):
        if name not in listed:
            public = getattr(einmap, name)
            is_error = isinstance(public, type) and issubclass(public, Exception)
            groups["Errors" if is_error else "Other"].append(name)
    text = [
        "# Python reference\n",
        "Every public name of `einmap`. A guide with examples: [einmap from Python](python.md).\n",
    ]
    for heading, names in groups.items():
        text.append(f"## {heading}\n")
        text += [directive(name) for name in names]
    return "\n".join(text)


def directive(name: str) -> str:
    """What tells Sphinx to write the documentation of one public name."""
    public = getattr(einmap, name)
    kind = "autoclass" if isinstance(public, type) else "autofunction"
    if isinstance(public, type) and issubclass(public, Exception):
        kind = "autoexception"
    members = "    :members:\n" if kind == "autoclass" else ""
    return f"```{{eval-rst}}\n.. {kind}:: einmap.{name}\n{members}```\n"


def stage(folder: Path) -> None:
    """Write all pages of the site into a folder, as Sphinx takes them. Exits where a name is one that Sphinx writes."""
    if clashes := sorted(GENERATED & {page.name for page in DOCS.glob("*.md")}):
        raise SystemExit(f"docs/{clashes[0]} would be overwritten by a page that Sphinx writes: rename it")
    shutil.copytree(DOCS, folder, ignore=shutil.ignore_patterns("site", "generate", "README.md", "__pycache__"))
    shutil.copy(DOCS / "site" / "conf.py", folder)
    shutil.copytree(DOCS / "site" / "static", folder / "static")
    for page in folder.rglob("*.md"):
        page.write_text(with_site_links(page.read_text(), len(page.relative_to(folder).parts) - 1))
    for name, page_file in ROOT_PAGES.items():
        (folder / page_file).write_text(root_page((ROOT / name).read_text()))
    (folder / "api.md").write_text(api_page())
    (folder / "index.md").write_text(index_page((ROOT / "README.md").read_text(), (DOCS / "README.md").read_text()))


def build(out: Path, *options: str) -> int:
    """Build the site into `out`; returns the status of Sphinx. Its warnings (links that lead nowhere) are errors.

    `options`: further ones of Sphinx, e.g. `-D html_theme=basic`.
    """
    with tempfile.TemporaryDirectory() as folder:
        staged = Path(folder) / "docs"
        stage(staged)
        fixed = ["-b", "html", "-q", "-W", "--keep-going", "-d", str(Path(folder) / "trees")]
        return sphinx([*fixed, *options, str(staged), str(out)])


if __name__ == "__main__":
    sys.exit(build(Path(sys.argv[1]), *sys.argv[2:]))
