"""What is looked at of an Einsum depends on its neighbours, not on how long the cascade is."""

import json
from itertools import count, islice
from pathlib import Path

import einmap

THREE_LEVELS = Path(__file__).parents[3] / "benchmarks" / "specs" / "arch_3_levels.yaml"
SIZES = list(islice((n for n in count(64, 8) if sum(n % d == 0 for d in range(1, n + 1)) == 16), 13))
"""Of the ranks between products: all different, 16 divisors each."""


def chain(folder: Path, begin: int, end: int) -> einmap.Spec:
    """Some of the matrix products in a row, on three levels of memory."""
    einsums = [f"T{i + 1}[m, n{i + 1}] = T{i}[m, n{i}] * W{i}[n{i}, n{i + 1}]" for i in range(begin, end)]
    names = [{"input": f"T{i}", "weight": f"W{i}", "output": f"T{i + 1}"} for i in range(begin, end)]
    ranks = {"M": 512, **{f"N{i}": SIZES[i * 5 % 13] for i in range(begin, end + 1)}}
    workload = {
        "rank_sizes": ranks,
        "bits_per_value": {"All": 8},
        "einsums": [{"einsum": text, "renames": own} for text, own in zip(einsums, names, strict=True)],
    }
    file = folder / "workload.yaml"
    file.write_text(json.dumps({"workload": workload}))
    return einmap.load(THREE_LEVELS, file)


def test_a_chain_of_twelve_looks_at_as_many_choices_as_its_thirds(tmp_path):
    looked = {}
    for length in (4, 12):
        results = [
            einmap.map_workload(chain(tmp_path, i, i + length), metrics="energy_delay_product")
            for i in range(0, 12, length)
        ]
        assert all(result.optimal for result in results)
        looked[length] = sum(result.stats.evaluated for result in results)
    assert looked[12] < 1.05 * looked[4]
