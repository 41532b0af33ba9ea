"""Points of tables: where something can stand, and no others."""

import numpy as np
import pytest

import einmap
from einmap.mapper.cost_bounds.cost_to_go.dense_kernels import lead_out, times_lanes
from einmap.mapper.cost_bounds.cost_to_go.dense_tables import Tables
from einmap.mapper.mapspace.tile_lattice import Axis, Lattice

LATTICE = Lattice((Axis((("m", 12),), (1, 2, 3, 4, 6, 12)), Axis((("n", 10),), (1, 2, 5, 10))))


def shapes(points):
    return {tuple(axis.sizes[i] for axis, i in zip(LATTICE.axes, LATTICE.coord[p], strict=True)) for p in points}


def point(m, n):
    return next(p for p in range(LATTICE.size) if shapes([p]) == {(m, n)})


@pytest.mark.parametrize(
    ("axes", "expected"),
    [((), {(2, 5)}), ((0,), {(2, 5), (4, 5), (6, 5), (12, 5)}), ((1,), {(2, 5), (2, 10)})],
)
def test_loops_lead_out_to_multiples_on_their_axes(axes, expected):
    flags = np.arange(LATTICE.size) == point(2, 5)
    lead_out(flags, np.isin(range(2), axes), LATTICE.coord, LATTICE.strides, LATTICE.offsets, *LATTICE.packed("covers"))
    assert shapes(np.flatnonzero(flags)) == expected


def test_lanes_lead_out_to_what_they_divide():
    sizes = LATTICE.axes[0].sizes
    multiples = np.array([[sizes.index(s * n) if s * n in sizes else -1 for s in sizes] for n in (1, 3)])
    flags, out = np.arange(LATTICE.size) == point(2, 5), np.zeros(LATTICE.size, dtype=bool)
    times_lanes(flags, out, 0, LATTICE.coord, int(LATTICE.strides[0]), np.array([0, 1]), multiples)
    assert shapes(np.flatnonzero(out)) == {(2, 5), (6, 5)}


def test_tables_have_rows_where_something_can_stand(monkeypatch):
    rows, finite, fill = [], [], Tables.fill

    def noted(self, stopped):
        filled = fill(self, stopped)
        rows.append(len(self.pool))
        finite.append(np.isfinite(self.pool[:, 0]).sum())
        return filled

    monkeypatch.setattr(Tables, "fill", noted)
    assert einmap.map_workload(einmap.load("simba", "conv"), workers=1).optimal
    assert sum(rows) < 3 * sum(finite)
