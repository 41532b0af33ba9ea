"""Bounds of cascades up to a limit: they rule out nothing that is within it, and more than those without one."""

import json
import math
import random
from contextlib import suppress

import numpy as np
import pytest
from tests.mapper.fusion.test_long_chains import THREE_LEVELS
from tests.random_specs.fused import draw_problem

import einmap
from einmap.mapper.fusion.refinement.relaxation import Relaxation


class Checked:
    """Compares each join with one that knows nothing of limits."""

    def __init__(self, monkeypatch):
        self.possible, self.impossible, self.raised = 0, 0, 0
        self._tighten, self._join = Relaxation.tighten, Relaxation.join

        def tighten(relaxed, limit):
            return self.tighten(relaxed, limit)

        monkeypatch.setattr(Relaxation, "tighten", tighten)

    def tighten(self, relaxed, limit):
        relaxed.tightened_up_to = -math.inf
        found = self._tighten(relaxed, limit)
        with_limit = relaxed.tightened_paths if found else None
        least = self.joined(relaxed, limit) if found else math.inf
        relaxed.tightened_up_to = -math.inf
        everything = self.joined(relaxed, limit)
        assert least == pytest.approx(everything, rel=1e-12)
        self.possible += math.isfinite(least)
        self.impossible += not found
        if found:
            relaxed.tightened_paths, relaxed.tightened_up_to = with_limit, limit
            assert (with_limit.least >= relaxed.paths.least * (1 - 1e-12)).all()
            self.raised += bool((with_limit.least > relaxed.paths.least * (1 + 1e-9)).any())
        return found

    def joined(self, relaxed, limit):
        near = relaxed.all_near(limit)
        costs = self._join(relaxed, near, limit).reached[-1].costs.prod(axis=1)
        return np.min(costs[costs <= limit * (1 - 1e-9)], initial=math.inf)


@pytest.mark.parametrize("metric", ["energy", "energy_delay_product"])
def test_they_rule_out_nothing_within_the_limit(monkeypatch, metric):
    checked = Checked(monkeypatch)
    for seed in range(8):
        with suppress(einmap.NoMappingError):
            einmap.map_workload(draw_problem(random.Random(seed)).spec, metrics=metric, workers=1)
    assert checked.possible > 5


@pytest.mark.parametrize(
    "metric", [pytest.param("energy", marks=[pytest.mark.slow, pytest.mark.fusion]), "energy_delay_product"]
)
def test_where_products_compete_for_the_buffer_they_rule_out_more(monkeypatch, tmp_path, metric):
    small = (
        THREE_LEVELS.read_text()
        .replace("256 * 1024 * 8", "8 * 1024")
        .replace("32 * 8", "64 * 8")
        .replace("keep: output", "keep: Outputs")
    )
    (tmp_path / "arch.yaml").write_text(small)
    sizes = {"M": 32, **{f"N{i}": size for i, size in enumerate((24, 36, 48, 40, 24))}}
    einsums = [f"T{i + 1}[m, n{i + 1}] = T{i}[m, n{i}] * W{i}[n{i}, n{i + 1}]" for i in range(3)]
    workload = {"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": einsums}
    (tmp_path / "workload.yaml").write_text(json.dumps({"workload": workload}))
    given = einmap.load(tmp_path / "arch.yaml", tmp_path / "workload.yaml", define={"INSIDE": 1})
    checked = Checked(monkeypatch)
    assert einmap.map_workload(given, metrics=metric, workers=1).optimal
    assert checked.possible
    assert checked.impossible
    assert checked.raised
