"""Multiply-accumulates per second of the reference simulator, all counts included; at least 20 million on one core."""

import time

import einmap

for size in (64, 256):
    spec = einmap.load("simple", "matmul", "simple_matmul", define=dict.fromkeys("MKN", size))
    times = []
    for _ in range(4):
        start = time.perf_counter()
        einmap.execute(spec)
        times.append(time.perf_counter() - start)
    first, best = times[0], min(times)
    rate = size**3 / best / 1e6
    timed = f"{best * 1e3:.0f} ms (first run {first:.2f} s)"
    print(f"{size}^3 matmul, two memories: {timed}, {rate:.0f} million MAC/s (at least 20)")
