"""Large lattices and arrays of three and four dimensions: time, peak memory and proof, a process for each case.

Architectures are those of `specs/array.yaml`. Each process is given a limit of memory and of time, and its peak
must keep to the former; processor seconds say more than wall time where other work runs.

    python benchmarks/large_lattices.py
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SECONDS, BYTES = 30.0, 1_000_000_000
CHILD = """
import json, resource, sys, time
import einmap
from einmap.mapper.warm import warm
files, define, seconds, limit = json.load(sys.stdin)
spec = einmap.load(*files, define=define)
warm()
cpu = time.process_time()
found = einmap.map_workload(spec, time_limit_s=seconds, memory_limit=limit)
print(json.dumps([time.process_time() - cpu, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                  found.optimal, found.gap, found.reason]))
"""


@dataclass(frozen=True)
class Case:
    """A matrix product of these sizes, and template parameters of the architecture."""

    name: str
    sizes: tuple[int, int, int]
    define: dict[str, Any] = field(default_factory=dict)


def cases() -> list[Case]:
    """All of them."""
    found = [Case(f"8 x 16 x 16, reuse {reuse}, 5040^3", (5040,) * 3, {"REUSE": reuse}) for reuse in REUSES]
    found += [Case(f"8 x 16 x 16, reuse {reuse}, 1024^3", (1024,) * 3, {"REUSE": reuse}) for reuse in REUSES]
    found.append(Case("8 x 16 x 16, 720720^3", (720720,) * 3))
    found.append(Case("8 x 16 x 16, 720720 x 720720 x 16", (720720, 720720, 16)))
    found.append(Case("8 x 16 x 16, 720720 x 16 x 16", (720720, 16, 16)))
    found.append(Case("8 x 8 x 8 x 8, reuse mix, 5040^3", (5040,) * 3, {"REUSE": "mix", "DIMS": [8, 8, 8, 8]}))
    found.append(Case("six levels, 16 x 16, 1024^3", (1024,) * 3, {"LEVELS": 6, "DIMS": [16, 16]}))
    return found


REUSES = ("may", "each", "mix", "none")


def main() -> int:
    """Print a table; 1 if a process took more memory than its limit."""
    print("| case | processor s | peak MB | gap |\n|---|---|---|---|")
    over = False
    for case in cases():
        sizes = dict(zip("MKN", case.sizes, strict=True))
        files = [str(HERE / "specs" / name) for name in ("array.yaml", "matmul.yaml")]
        given = json.dumps([files, {**sizes, **case.define}, SECONDS, BYTES])
        done = subprocess.run([sys.executable, "-c", CHILD], input=given, capture_output=True, text=True, check=True)
        cpu, peak, optimal, gap, reason = json.loads(done.stdout)
        shown = "proven" if optimal else "none" if gap is None else f"{gap:.0%}"
        print(f"| {case.name} | {cpu:.1f} | {peak / 1e6:.0f} | {shown} |", flush=True)
        if not optimal:
            print(f"\n{case.name}: {reason}")
        over |= peak > BYTES
    return int(over)


if __name__ == "__main__":
    sys.exit(main())
