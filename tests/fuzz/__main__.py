"""`python -m tests.fuzz SEED FIRST LAST [SECONDS]` makes calls; `python -m tests.fuzz SEED INDEX` shows one and makes it."""

import sys
import traceback
from collections import defaultdict
from pprint import pprint

from tests.fuzz import surfaces, workers


def show(seed, index):
    name, call = surfaces.call_of(seed, index)
    print(name)
    for key, value in call.items():
        print(f"--- {key}")
        print(value) if isinstance(value, str) else pprint(value, width=150, sort_dicts=False)
    print("---")
    try:
        print(surfaces.ended(name, call))
    except BaseException:
        traceback.print_exc()


def report(tally):
    """Figures by surface, then one failure of each kind."""
    for name in surfaces.SHARES:
        counts = {end: tally.ends[name, end] for end in ("result", "error", "failure")}
        print(f"{name:20} {sum(counts.values()):7} calls: {counts}")
    seconds, index = tally.slowest
    print(
        f"all {sum(tally.ends.values())} calls; slowest {seconds:.1f} s (call {index}); memory grew by {tally.largest / 1e6:.0f} MB at most"
    )
    kinds = defaultdict(list)
    for failure in tally.failures:
        kinds[failure.where].append(failure)
    for where, failures in kinds.items():
        print(f"== {len(failures)} x {where}: calls {[f.index for f in failures][:6]} ({failures[0].surface})")


def main():
    seed, *numbers = sys.argv[1:]
    numbers = [int(n) for n in numbers]
    if len(numbers) == 1:
        show(seed, numbers[0])
        return
    tally = workers.run(
        seed, numbers[0], numbers[1], seconds=numbers[2] if len(numbers) > 2 else None, most_failures=10**9
    )
    report(tally)


if __name__ == "__main__":
    main()
