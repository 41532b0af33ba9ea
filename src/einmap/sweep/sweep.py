"""sweep(): the results of a sweep as they come."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from einmap.frontends.yaml.folders import FolderNames
from einmap.progress import Progress
from einmap.sweep.definition.read import read_sweep
from einmap.sweep.result import PointResult
from einmap.sweep.run import Run
from einmap.sweep.settings import RunSettings
from einmap.sweep.store.checksums import told


def sweep(
    source: str | Path | Mapping[str, Any],
    *,
    store: str | Path | None = None,
    workers: int | None = None,
    sample: int | None = None,
    optimise: int | None = None,
    seed: int = 0,
    bounds: bool = False,
    retry: bool = False,
    scheduler: Any = None,
    root: FolderNames = (),
    progress: Progress | None = None,
) -> Iterator[PointResult]:
    """Map or evaluate every point of a sweep, and give each as soon as it is finished.

    `source`: a YAML file, a shipped sweep by name, or a dictionary of the same form (docs/sweep.md). `store`: a SQLite
    file that keeps every finished point at once and is made if there is none: what it has is not computed again.
    `workers`: processes, one for each processor by default, 0 for none beside this one; a script that uses them calls
    this below `if __name__ == "__main__":`. `sample`: only so many points, a Latin hypercube drawn with `seed`.
    `optimise`: only so many points, proposed by Optuna from what earlier ones cost (extra `search`). `bounds`: points
    that another one beats whatever their mapping are ruled out without a search; the front stays the same. `retry`: try
    again what failed for reasons of the machine. `scheduler`: a Dask cluster in the place of processes (extra
    `cluster`): the address of its scheduler, a `distributed.Client` with its security settings, or `local` for a
    cluster of `workers` processes here. `root`: folders whose files a sweep file may name, beside its own. A point that
    fails is a result with a reason.

    Results come in the order in which they are finished; `number` is the position in the grid.

    Warns where the store is damaged: what its rows no longer tell is computed again.

    Raises SpecError, before any work, for what is wrong with the sweep, its files or the store; EngineError for a
    scheduler that cannot be reached.
    """
    settings = RunSettings.of(
        store, workers, sample, seed, bounds=bounds, retry=retry, scheduler=scheduler, optimise=optimise
    )
    run = Run.of(read_sweep(source, root), settings, progress)
    if run.store.damaged:
        warnings.warn(told(run.store.damaged), stacklevel=2)
    return _results(run)


def _results(run: Run) -> Iterator[PointResult]:
    try:
        yield from run.results()
    finally:
        run.store.close()
