"""How each file of the examples that AccelForge installs ends here: loaded, bound, evaluated or mapped, or refused by name.

    EINMAP_ACCELFORGE_EXAMPLES=.../site-packages/examples python tests/peer_examples.py     prints the table

`tests/test_peer_examples.py` tests the ends. Examples of the package (1.0.467) and of its repository are understood.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from einmap import evaluate, load, map_workload
from einmap.errors import EinmapError, ManyErrors
from einmap.spec.spec import Spec

VARIABLE = "EINMAP_ACCELFORGE_EXAMPLES"
DEFINE = {
    "N_EINSUMS": 2, "M": 64, "KN": 64, "BATCH_SIZE": 1, "N_TOKENS": 256, "N_NEW_TOKENS": 256, "N_CACHED_TOKENS": 256,
    "DECODE": False, "CHUNK_SIZE": 128, "ATTENTION_TYPE": "grouped_query",
}  # fmt: skip
SEARCH_SECONDS = 10.0
IN_MEMORY = "compute_in_memory"
NO_ACCELFORGE = "No module named 'accelforge'"
NO_NEUROSIM = "NeuroSim ships a program that needs glibc 2.38"
MISSPELT = "name 'P' is not defined"
NO_MAPPING = "no mapping of Einsum 'Matmul'"
OLD_FORMAT = "unknown field 'version'"
NOT_A_SPECIFICATION = "unknown top-level key"
SINGLE_NODE = "this file is a single node"


@dataclass(frozen=True)
class End:
    """How far a file came: `stage` is loads, binds, evaluates, maps, or refused with the reason in `said`."""

    stage: str
    said: str
    energy: float | None = None
    """What the mapping costs under `accelforge`, in the examples' own unit."""


def examples() -> Path | None:
    """The folder that the environment names; None without one."""
    named = os.environ.get(VARIABLE)
    return Path(named) if named else None


def files(folder: Path) -> list[Path]:
    """Every file that is meant to be loaded: not the parts, whose name or folder begins with `_`."""
    found = sorted(folder.rglob("*.yaml"))
    return [f for f in found if not any(part.startswith("_") for part in f.relative_to(folder).parts)]


def end_of(file: Path, folder: Path) -> End:
    """Load the file with what it needs beside it, and go as far as it goes."""
    kind = file.relative_to(folder).parts[0]
    try:
        if file.parent.name == IN_MEMORY and kind == "arches":
            return _mapped(in_memory(file))
        alone = load(file, define=DEFINE)
        match kind:
            case "arches":
                return _mapped(alone if alone.raw.get("workload") is not None else _with(file, *_matmuls(folder)))
            case "mappings":
                return _evaluated(file, folder)
            case _:
                _ = alone.workload
                return _mapped(_with(folder / "arches/simple.yaml", file))
    except EinmapError as error:
        problems = error.problems if isinstance(error, ManyErrors) else (error,)
        return End("refused", "; ".join(dict.fromkeys(f"{one.message} ({one.hint})" for one in problems)))


def in_memory(file: Path, installed: bool | str = True) -> Spec:
    """An architecture with the workload in its file, as AccelForge's `_load_spec.py` makes it with a main memory.

    `installed`: whether installed models go before built-in ones ("first").
    """
    beside = (file.parent / "_include_functions.py", file.with_name(f"{file.stem}_helper_functions.py"))
    code = [path for path in beside if path.exists()]
    spec = load(file, top_key=("arch", "variables", "workload"), allow_code=code)
    memory = {"type": "Memory", "name": "MainMemory", "component_class": "Dummy", "size": "inf"}
    nodes = [{**memory, "tensors": {"keep": "~weight"}}, *spec.get("arch.nodes")]
    return spec.set("arch.nodes", nodes).set("config.use_installed_component_models", installed)


def _with(*files: Path) -> Spec:
    return load(*files, define=DEFINE)


def _matmuls(folder: Path) -> Iterator[Path]:
    yield next(f for f in (folder / "workloads/matmuls.yaml", folder / "workloads/basic/matmuls.yaml") if f.exists())


def _evaluated(mapping: Path, folder: Path) -> End:
    name = "matvecs" if "matvecs" in mapping.name else "matmuls"
    if not mapping.stem.endswith("simple") and "_simple_" not in mapping.stem:
        return End("loads", "its architecture and workload are not shipped")
    workload = next(iter(sorted((folder / "workloads").rglob(f"{name}.yaml"))))
    cost = evaluate(_with(folder / "arches/simple.yaml", workload, mapping), semantics="accelforge")
    return End("evaluates", f"energy {cost.energy:g}", cost.energy)


def _mapped(spec: Spec) -> End:
    spec.archs  # noqa: B018
    start = time.perf_counter()
    found = map_workload(
        spec, metrics="energy", semantics="accelforge", fuse=len(spec.workload.einsums) <= 20,
        max_fused_loops=1, time_limit_s=SEARCH_SECONDS,
    )  # fmt: skip
    took = time.perf_counter() - start
    proven = "proven" if found.optimal else "not proven"
    return End("maps", f"energy {found.cost.energy:g}, {proven}, {took:.1f} s", found.cost.energy)


def main() -> None:
    """Print the table."""
    folder = examples()
    if folder is None:
        sys.exit(f"set {VARIABLE} to the folder `examples` that AccelForge installs")
    for file in files(folder):
        end = end_of(file, folder)
        print(f"{file.relative_to(folder)} | {end.stage} | {end.said[:200]}", flush=True)


if __name__ == "__main__":
    main()
