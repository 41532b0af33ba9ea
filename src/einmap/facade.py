"""Functions of the public interface that take paths: files are read here, so that the core takes values alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from einmap.distribute.costs.cluster import Cluster
from einmap.distribute.planner.read_cluster import cluster_of
from einmap.errors import At, SpecError, did_you_mean
from einmap.frontends.files import exists
from einmap.frontends.store import Store, own_code
from einmap.frontends.yaml.folders import FolderNames, Roots
from einmap.frontends.yaml.given import load_given
from einmap.frontends.yaml.spec import example_paths, load
from einmap.mapper.given.read import Given
from einmap.mapper.mapper import best_mappings
from einmap.mapper.result.result import MapResult
from einmap.mapper.result.result_cache import ResultCache
from einmap.model.counting.semantics import Semantics
from einmap.progress import Progress
from einmap.spec.spec import Spec, checked_spec
from einmap.visible import short

ARCHES = "arches"
"""The folder of shipped architectures."""


def map_workload(
    spec: Spec,
    *,
    metrics: str | Sequence[str] | None = None,
    semantics: str | Semantics | None = None,
    time_limit_s: float | None = None,
    max_evaluations: int | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
    seed: int = 0,
    brute_force: bool = False,
    given: Given | str | Path | None = None,
    fuse: bool = True,
    cache: str | Path | None = None,
    rewrites: Sequence[str] = (),
    **options: Any,
) -> MapResult:
    """Find the best mapping of a workload.

    `metrics`: `energy`, `latency`, `energy_delay_product` (`edp`), `dynamic_energy`, `leak_energy`, `resource_usage`
    (of every memory, one Einsum only), or several joined by `|` or `,` for a Pareto front; default is `mapper.metrics`
    of the specification, else `energy_delay_product`. `semantics`: `exact` or `accelforge`. `time_limit_s`,
    `max_evaluations`: end early with the best found; the latter gives the same result on every machine. `workers`:
    threads, one for each processor by default; the result is the same for any number.
    `fuse`: whether intermediate tensors may stay inside between Einsums; else each Einsum is mapped by itself, every
    tensor backed by the outermost memory that may keep it. A graph input that several Einsums read is filled once for
    all of them where that is better (option `share_inputs`): the result's `spec` has a copy Einsum then.
    `brute_force`: try every mapping without pruning, to check the search (Einsum by Einsum).
    `given`: what the mapping must be like: a PartialMapping, a complete Mapping, one of each by name of the Einsum, or
    a YAML file (docs/mapper.md); Einsums that it does not name are free.
    `rewrites`: changes of the cascade that may be chosen, `online_softmax P=512`, or `best` (docs/rewrites.md).
    `cache`: a directory that keeps complete results: the same call gives its result again without a search, the
    result's `cached` is then true. It is made if there is none. `options`: names as under `mapper` in a
    specification. The result's `optimal` says whether the best mapping is proven.

    Raises SpecError for bad options and a `cache` that cannot be written, MappingError for a given mapping that cannot
    be, NoMappingError when no mapping fits.
    """
    spec = checked_spec(spec, "map_workload")
    results = results_in(cache) if cache is not None else None
    return best_mappings(
        spec,
        given=load_given(given, spec) if isinstance(given, str | Path) else given,
        fuse=fuse,
        cache=results,
        rewrites=rewrites,
        progress=progress,
        metrics=metrics,
        semantics=semantics,
        time_limit_s=time_limit_s,
        max_evaluations=max_evaluations,
        workers=workers,
        seed=seed,
        brute_force=brute_force,
        **options,
    )


def results_in(directory: str | Path) -> ResultCache:
    """The complete results that are kept in a directory. SpecError if no file can be written there."""
    return ResultCache(Store.opened(directory), own_code())


def cluster_in(spec: Spec, root: FolderNames = ()) -> Cluster | None:
    """The cluster of a specification, the architecture of its PEs read from the file that it names; None without one.

    That file lies beside the one with the cluster or below it, or in the folders `root`, or is a shipped example. The
    mapper costs the Einsums of the workload of `spec` on it. Raises SpecError: all problems of the cluster together.
    """
    return cluster_of(checked_spec(spec, "cluster_in"), partial(arch_of_pes, root))


def arch_of_pes(root: FolderNames, name: str, at: At) -> Spec:
    """The architecture that a cluster names at `at`: a file beside that one or below, or in the folders `root`, or a
    shipped example. Raises SpecError.
    """
    shipped = example_paths((ARCHES,))
    folder = Path(at.file).parent if at.file else Path()
    beside = folder / name if name and "\0" not in name else folder
    if name and exists(beside):
        if at.file:
            Roots.of([Path(at.file)], root).check(beside.absolute(), name)
        return load(beside, root=root)
    if name not in shipped:
        hint = did_you_mean(name, shipped, listing="shipped architectures")
        raise SpecError(f"there is no file {short(name)} here, and no shipped architecture of that name", hint=hint)
    return load(shipped[name])
