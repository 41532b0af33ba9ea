"""Cost models in files. A file holds what a model was trained on, as plain numbers; loading trains it again.

So a file that comes from elsewhere runs no code, as a pickled model would, and takes no more memory than its own size:
a line of JSON, then the table as float32, a row for each mapping, features first and the target last.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from einmap.errors import At, SpecError
from einmap.search.cost_model.cost_model import MOST_ROWS, CostModel, Learnt
from einmap.search.cost_model.features import parts_of
from einmap.search.problem import SearchProblem

VERSION = 1
"""Version of the format."""
LARGEST_FILE = 100_000_000
"""Bytes of a file that is read."""
NUMBERS = np.dtype("<f4")
"""How numbers are written."""


def model_bytes(model: CostModel) -> bytes:
    """The file of a model: the same for the same rows, byte by byte."""
    n, columns = model.rows.shape
    about = {"einmap_cost_model": VERSION, "parts": list(model.parts), "rows": n, "columns": columns}
    table = np.concatenate([model.rows, model.targets[:, None]], axis=1).astype(NUMBERS)
    return json.dumps(about).encode() + b"\n" + table.tobytes()


def load_cost_model(path: str | Path, seed: int = 0, *, problem: SearchProblem | None = None) -> CostModel:
    """A saved model, trained again.

    Raises SpecError for a file that cannot be read or is not a cost model, where scikit-learn is missing, and with a
    `problem` also for a model of another architecture.
    """
    file = Path(path)
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise ValueError(f"it is larger than {LARGEST_FILE:,} bytes")
        model = _model(file.read_bytes(), seed)
    except OSError as error:
        raise SpecError(f"cannot read a cost model: {error.strerror or error}", at=At(str(path))) from None
    except (ValueError, RecursionError) as error:
        hint = "name a file that `einmap search --save-model` has written"
        raise SpecError(f"this is not a cost model: {error}", at=At(str(path)), hint=hint) from None
    if problem is not None:
        try:
            model.check(problem)
        except SpecError as error:
            raise SpecError(error.message, at=At(str(path)), hint=error.hint) from None
    model.train()
    return model


def _model(content: bytes, seed: int) -> CostModel:
    """The model of a file, not trained yet. Raises ValueError that says what is wrong with it."""
    head, _, body = content.partition(b"\n")
    about = _about(head)
    n, columns = about["rows"], about["columns"]
    if len(body) != n * (columns + 1) * NUMBERS.itemsize:
        expected = n * (columns + 1) * NUMBERS.itemsize
        raise ValueError(f"{len(body):,} bytes follow its first line, expected {expected:,}")
    table = np.frombuffer(body, NUMBERS).reshape(n, columns + 1).astype(np.float64)
    rows, targets = table[:, :-1].copy(), table[:, -1].copy()
    if not np.isfinite(rows).all() or np.isnan(targets).any() or not (targets > -np.inf).all():
        raise ValueError("it has numbers that are not finite")
    if not np.isfinite(targets).any():
        raise ValueError("it has no valid mapping")
    return CostModel(rows, targets, tuple(about["parts"]), seed)


def _about(head: bytes) -> dict[str, Any]:
    """The first line of a file. Raises ValueError where it is something else."""
    try:
        about = json.loads(head)
    except ValueError:
        about = None
    if not isinstance(about, dict) or "einmap_cost_model" not in about:
        raise ValueError("its first line does not say that it is one")
    if about["einmap_cost_model"] != VERSION:
        raise ValueError(f"it has version {about['einmap_cost_model']!r} of the format, expected {VERSION}")
    parts = about.get("parts")
    if not isinstance(parts, list) or not parts or not all(isinstance(part, str) for part in parts):
        raise ValueError(f"'parts' should be names of memories and fanouts, found {parts!r:.60}")
    for name, most in (("rows", MOST_ROWS), ("columns", LARGEST_FILE)):
        number = about.get(name)
        if type(number) is not int or not 0 < number <= most:
            raise ValueError(f"{name!r} should be a number from 1 to {most:,}, found {number!r:.60}")
    return about


def with_evaluations(model: CostModel | None, problem: SearchProblem, evaluated: Sequence[Learnt]) -> CostModel:
    """A model to be saved, not trained: what `model` was trained on, and what runs on a problem have evaluated.

    Where there are too many rows, mappings of the runs are left out evenly until they are no more than half of all,
    and then the oldest rows of `model`.
    """
    table = np.concatenate([np.column_stack(pair) for pair in evaluated]).astype(np.float64)
    # runs come across the same mappings; each counts once
    _, first = np.unique(table, axis=0, return_index=True)
    table = table[np.sort(first)]
    before = len(model.targets) if model is not None else 0
    most = MOST_ROWS - min(before, MOST_ROWS // 2)
    if len(table) > most:
        table = table[np.linspace(0, len(table) - 1, most).round().astype(np.int64)]
    rows, targets = table[:, :-1], table[:, -1]
    if model is not None:
        kept = min(before, MOST_ROWS - len(table))
        rows = np.concatenate([model.rows[before - kept :], rows])
        targets = np.concatenate([model.targets[before - kept :], targets])
    return CostModel(rows, targets, parts_of(problem))
