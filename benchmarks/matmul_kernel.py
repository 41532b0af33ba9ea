"""A plan on one core of this processor: 1.3x of the best plain loop order and 30 % of BLAS, or status 1."""

import sys

from einmap.matmul.measured.measure import measure, measured_rates
from einmap.matmul.measured.this_cpu import CANDIDATES, detect, machine_of
from einmap.matmul.plan import plan_matmul
from einmap.progress import Progress

processor = detect()
rates = measured_rates(processor, Progress())
reached = True
for dtype, size in (("fp32", (2048, 2048, 2048)), ("fp64", (2048, 2048, 2048)), ("fp32", (1000, 1003, 777))):
    plan = plan_matmul(*size, machine_of(processor, rates, dtype), dtype=dtype, candidates=CANDIDATES)
    found = measure(plan)
    plain, rate = found.plain[0], found.planned.flops_per_s
    times, part = rate / plain.flops_per_s, rate / found.blas.flops_per_s
    reached &= found.correct and times >= 1.3 and part >= 0.3
    print(
        f"{' x '.join(map(str, size))} {dtype}: plan {rate / 1e9:.1f} Gflop/s, {times:.1f}x of {plain.name} "
        f"({plain.flops_per_s / 1e9:.2f}, {plain.rows} rows), {part:.0%} of BLAS ({found.blas.flops_per_s / 1e9:.1f}), "
        f"{rate / found.peak:.0%} of the peak; {'correct' if found.correct else 'WRONG'}"
    )
sys.exit(not reached)
