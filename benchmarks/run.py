"""Run the benchmarks and write what they print into docs/performance.md: a section each, with date, commit and machine.

`python benchmarks/run.py` runs all of them, `python benchmarks/run.py startup fusion_scaling` some; sections of scripts
that are not run, and those that no script writes, stay as they are. What limits a figure, and what to try next, is kept
in `benchmarks/notes.yaml`; the page says the first.
"""

from __future__ import annotations

import datetime
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

from ruamel.yaml import YAML

HERE = Path(__file__).parent
PAGE = HERE.parent / "docs" / "performance.md"
HEAD = """# Performance

Measured figures: what was run, when, on which machine, with which result. `make bench` measures them again and writes
this page; `make bench ONLY="startup evaluate_speed"` runs some. "Limit" and "at least" are what a script must keep to.
"""
SECTION = re.compile(r"<!-- (\w+) -->\n(.*?)<!-- end -->\n", re.DOTALL)


def machine() -> str:
    """Cores, processor and Python, in a line."""
    found = (
        re.search(r"model name\s*: (.*)", Path("/proc/cpuinfo").read_text()) if Path("/proc/cpuinfo").exists() else None
    )
    processor = found.group(1) if found else platform.processor() or platform.machine()
    return f"{os.cpu_count()} x {processor}, Python {platform.python_version()}"


def measured(script: str, arguments: list[str]) -> str:
    """What a script prints, a table or text, under a line that says when and where; a status other than 0 is told."""
    command = [sys.executable, str(HERE / f"{script}.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, cwd=HERE, check=False
    )
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    shown = " ".join(["benchmarks/" + f"{script}.py", *arguments])
    ended = "" if done.returncode == 0 else f"; ended with status {done.returncode}"
    when = f"{datetime.date.today()}, commit {commit.stdout.strip()}, {machine()}, load {load:.1f}{ended}"
    text = done.stdout.rstrip() or done.stderr.strip().splitlines()[-1]
    shown_text = text if text.startswith("|") else f"```text\n{text}\n```"
    return f"`{shown}`: {when}.\n\n{shown_text}\n"


def main() -> None:
    """Run what is asked for and write the page."""
    notes = YAML(typ="safe").load((HERE / "notes.yaml").read_text())
    asked = sys.argv[1:] or list(notes)
    unknown = [name for name in asked if name not in notes]
    if unknown:
        sys.exit(f"no benchmark {', '.join(unknown)}; there are {', '.join(notes)}")
    before = PAGE.read_text() if PAGE.exists() else ""
    known = dict(SECTION.findall(before))
    for name in asked:
        print(f"== {name}", flush=True)
        known[name] = measured(name, [str(word) for word in notes[name].get("arguments", [])])
        print(known[name], flush=True)
    written = PAGE.with_suffix(".new")
    written.write_text(page(before, notes, known))
    written.replace(PAGE)


def page(before: str, notes: dict[str, dict[str, str]], known: dict[str, str]) -> str:
    """The page with the figures in `known` (by script), in the order of `before`, of which other sections are kept."""
    sections = {}
    for text in re.split(r"^## ", before, flags=re.MULTILINE)[1:]:
        title, _, body = text.partition("\n")
        sections[title] = body.strip("\n")
    for name, note in notes.items():
        figures = f"<!-- {name} -->\n{known.get(name, 'Not measured yet.\n')}<!-- end -->"
        sections[note["title"]] = f"{figures}\n\n**What limits.** {note['limits']}"
    return "\n".join([HEAD, *(f"## {title}\n\n{body}\n" for title, body in sections.items())])


if __name__ == "__main__":
    main()
