"""`python -m tests.fuzz SEED FIRST LAST [SECONDS]` makes calls; `python -m tests.fuzz SEED INDEX` shows one and makes it."""

import sys
import traceback
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


def main():
    seed, *numbers = sys.argv[1:]
    numbers = [int(n) for n in numbers]
    if len(numbers) == 1:
        show(seed, numbers[0])
        return
    tally = workers.run(
        seed, numbers[0], numbers[1], seconds=numbers[2] if len(numbers) > 2 else None, most_failures=10**9
    )
    workers.report(tally, surfaces.SHARES)


if __name__ == "__main__":
    main()
