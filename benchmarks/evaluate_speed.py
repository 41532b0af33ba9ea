"""Time of one evaluation of a loaded GPT-3 6.7B layer mapping on tpu_v4i; limit 20 ms."""

import statistics
import time

import einmap

spec = einmap.load("tpu_v4i", "gpt3_6.7b")
spec = spec.with_mapping(einmap.map_workload(spec, max_evaluations=20_000).mapping)
for preset in ("exact", "accelforge"):
    times = []
    einmap.evaluate(spec, semantics=preset)
    for _ in range(50):
        start = time.perf_counter()
        einmap.evaluate(spec, semantics=preset)
        times.append(time.perf_counter() - start)
    print(f"{preset}: median {statistics.median(times) * 1e3:.1f} ms, worst {max(times) * 1e3:.1f} ms of 50 (limit 20)")
