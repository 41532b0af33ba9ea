"""What is worked out once for all uses of the fanouts is the same as worked out for some of them."""

import pytest

import einmap
from einmap.mapper.cost_bounds import coefficients
from einmap.mapper.mapspace.lanes import fanout_table

CASES = {
    "eyeriss": (("eyeriss", "matmul"), {}),
    "simple": (("simple", "feed_forward"), {"max_fused_loops": 1}),
}


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("few", [0, 5])
def test_without_what_is_kept_the_best_is_the_same(monkeypatch, case, few):
    names, options = CASES[case]

    def best():
        return einmap.map_workload(einmap.load(*names), metrics="energy_delay_product", **options)

    kept = best()
    monkeypatch.setattr(fanout_table, "FEW_USES", few)
    monkeypatch.setattr(coefficients, "FEW_USES", few)
    alone = best()
    assert alone.optimal
    assert alone.cost.edp == kept.cost.edp
    assert alone.mapping == kept.mapping
