"""Import time of einmap above a bare interpreter: medians of several fresh processes, limit 0.4 s."""

import statistics
import subprocess
import sys
import time


def seconds(code: str, runs: int = 9) -> float:
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


bare = seconds("pass")
whole = seconds("import einmap")
above = (whole - bare) * 1e3
print(f"bare interpreter {bare * 1e3:.0f} ms, with einmap {whole * 1e3:.0f} ms: {above:.0f} ms above (limit 400)")
