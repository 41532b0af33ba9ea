"""Names of partitions: `K` becomes `K1, K0`, its rank variable `k` becomes `k1, k0`."""

from __future__ import annotations

import re
from collections.abc import Collection

_NUMBERED = re.compile(r"(.*\D)(0|[1-9]\d*)\Z")


def stem_and_level(name: str, names: Collection[str]) -> tuple[str, int] | None:
    """("K", 1) for `K1` where `K0` and `K1` are both among the names: a partition of `K`; None for other names."""
    match = _NUMBERED.match(name)
    if match is None:
        return None
    stem, level = match[1], int(match[2])
    return (stem, level) if level < n_partitions(stem, names) else None


def n_partitions(stem: str, names: Collection[str]) -> int:
    """3 where `K2`, `K1` and `K0` are among the names but not `K3`; 0 where there are fewer than two."""
    n = 0
    while f"{stem}{n}" in names:
        n += 1
    return n if n > 1 else 0


def level_of(name: str, names: Collection[str]) -> int:
    """1 for `k1` of the partitions `k1, k0`; 0 for a name that is not a partition."""
    partition = stem_and_level(name, names)
    return partition[1] if partition else 0


def partition_names(name: str, n: int, names: Collection[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """The names of the `n` partitions of `name`, outermost first, and new names for others of `names`.

    K in 2: K1, K0. A partition is partitioned again: K0 of K1, K0 in 2 gives K1, K0, and the old K1 becomes K2.
    """
    partition = stem_and_level(name, names)
    if partition is None:
        stem = f"{name}_" if name[-1].isdigit() else name
        return tuple(f"{stem}{level}" for level in reversed(range(n))), {}
    stem, level = partition
    above = range(level + 1, n_partitions(stem, names))
    renamed = {f"{stem}{outer}": f"{stem}{outer + n - 1}" for outer in above}
    return tuple(f"{stem}{level + inner}" for inner in reversed(range(n))), renamed


def common_stem(partitions: Collection[str], names: Collection[str]) -> str | None:
    """`K` for all of its partitions (`K1, K0`), None for other names."""
    stems = {partition[0] if (partition := stem_and_level(name, names)) else None for name in partitions}
    stem = stems.pop()
    if stems or stem is None or len(partitions) != n_partitions(stem, names):
        return None
    return stem.removesuffix("_")
