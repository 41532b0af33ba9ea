"""`einmap warmup`: compile everything ahead, so that no later command has to."""

from __future__ import annotations

import time

from einmap.cli.output import print_json
from einmap.cli.progress_bar import searching
from einmap.cli.writing.results import SCHEMA, JsonAlone


def warmup_command(output: JsonAlone) -> None:
    """Compile the kernels of the mapper and the simulator, which takes some seconds once on a machine.

    They are kept beside einmap's own files, or where NUMBA_CACHE_DIR says; a new version of einmap compiles them anew.

    Example: einmap warmup
    """
    start = time.perf_counter()
    # Here, not above: importing the compiler takes long, and no other command needs it at once.
    from einmap.mapper.warm import warm, warm_simulator

    with searching() as search:
        made = [*warm(search.progress), warm_simulator()]
    seconds = time.perf_counter() - start
    if output.as_json:
        kernels = [{"name": kernel.name, "compiled": kernel.compiled, "seconds": kernel.seconds} for kernel in made]
        print_json({"schema": SCHEMA, "seconds": seconds, "kernels": kernels})
        return
    for kernel in made:
        how = "compiled" if kernel.compiled else "loaded"
        print(f"{kernel.name:12} {how} in {kernel.seconds:.2f} s")
    if any(kernel.compiled for kernel in made):
        print(f"ready: {sum(k.compiled for k in made)} of {len(made)} kernels compiled, {seconds:.1f} s in all")
    else:
        print(f"ready: all {len(made)} kernels were compiled before, {seconds:.1f} s in all")
