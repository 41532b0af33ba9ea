"""plan_matmul(): blocks for every level, jointly or level by level."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import numpy as np

from einmap.errors import SpecError, did_you_mean
from einmap.matmul.algorithms import Algorithm, Choice, Stage, stages_of
from einmap.matmul.blocks.estimates import transfer_seconds
from einmap.matmul.blocks.joint import JointSearch
from einmap.matmul.blocks.space import Options, check_smallest, even_sizes, options_of
from einmap.matmul.machine.machine import DIMENSIONS_OF, Machine, Sizes
from einmap.matmul.machine.read_machine import load_machine
from einmap.matmul.problem import Method, Product, Rules, product_of, rules_of
from einmap.matmul.result import MatmulPlan
from einmap.numbers import divisors
from einmap.progress import Progress

METHODS: Mapping[str, Method] = {"joint": "joint", "level by level": "level by level"}


def plan_matmul(
    m: int,
    k: int,
    n: int,
    machine: Machine | str | Path,
    *,
    dtype: str,
    accumulator: str | None = None,
    fit: str = "all",
    method: str | None = None,
    accumulate: str = "owned",
    double_buffer: bool = False,
    resident: Mapping[str, str] | None = None,
    grain: Sizes | int | None = None,
    candidates: int | None = None,
    time_limit_s: float | None = None,
    progress: Progress | None = None,
) -> MatmulPlan:
    """Block `C <- A B + C`, A: m x k, B: k x n, for a machine, or the name or file of one.

    `dtype`: of A and B, `accumulator`: of C, everywhere. `fit`: `all`, three blocks fit into every memory, or
    `resident`, the rule of the article (only level by level): the resident block fits. `method`: `joint`, the least
    time over all levels together, or `level by level` from the outermost in; default joint where there is a choice.
    `accumulate`: `owned` or `atomic`, see `Rules`. `double_buffer`: overlap transfers with computing. `resident`:
    operands that lie whole at a level from before, `{"A": "SLC"}`. `grain`: least block, one number or (m, k, n);
    default the machine's. `candidates`: most block sizes of each dimension that are tried at a level, default 16.
    `time_limit_s`: seconds after which the joint search gives its best so far, and says that it is not proven.

    Raises SpecError for bad input, and for levels too small for the smallest blocks.
    """
    if not isinstance(machine, Machine):
        machine = load_machine(machine)
    product = product_of(m, k, n, dtype, accumulator)
    machine.rate(dtype)
    rules = rules_of(
        machine,
        product,
        fit=fit,
        accumulate=accumulate,
        double_buffer=double_buffer,
        resident=resident,
        grain=grain,
        candidates=candidates,
    )
    stages = stages_of(machine, product, rules)
    check_smallest(stages, product.size)
    token = (progress or Progress()).within(time_limit_s)
    return _planned(machine, product, rules, stages, _method(method, rules), token)


def _method(asked: str | None, rules: Rules) -> Method:
    if asked is not None and asked not in METHODS:
        raise SpecError(f"no method {asked!r}", hint=did_you_mean(asked, METHODS, listing="methods"))
    if rules.fit == "resident":
        if asked == "joint":
            text = "fit resident is a rule for one level after the other, there is nothing to optimise jointly"
            raise SpecError(text, hint="leave out joint, or use fit all")
        return "level by level"
    return METHODS[asked] if asked is not None else "joint"


def _planned(
    machine: Machine, product: Product, rules: Rules, stages: tuple[Stage, ...], method: Method, progress: Progress
) -> MatmulPlan:
    choices = _level_by_level(
        stages, product.size, by_resident_matrix if rules.fit == "resident" else by_least_transfers
    )
    if method == "level by level":
        return MatmulPlan(machine, product, rules, choices, method)
    compute = partial(machine.compute.seconds_of_many, rate=machine.rate(product.types[0].name), grain=rules.grain)
    search = JointSearch(stages, product.size, compute, choices, progress)
    best = search.run()
    return MatmulPlan(machine, product, rules, best, method, optimal=search.proven)


def _level_by_level(
    stages: tuple[Stage, ...], size: Sizes, rule: Callable[[Stage, Sizes], Choice]
) -> tuple[Choice, ...]:
    choices: list[Choice] = []
    for stage in stages:
        choices.append(rule(stage, choices[-1].block if choices else size))
    return tuple(choices)


def by_least_transfers(stage: Stage, parent: Sizes) -> Choice:
    """The choice whose own transfers take least; of equal ones that of the largest blocks, then the first algorithm."""
    options = options_of(stage, parent)
    transfers = transfer_seconds(stage, options, parent)
    volume = options.block.astype(float).prod(axis=1)
    # rounded: what is equal by formula may differ in the last digit
    seconds = np.array([float(f"{value:.9e}") for value in transfers.stays + transfers.streams])
    return options.choice(int(np.lexsort((options.algorithm, -volume, seconds))[0]))


def by_resident_matrix(stage: Stage, parent: Sizes) -> Choice:
    """The article's rule: the algorithm whose resident matrix is the largest that fits whole.

    The streamed dimension is then the largest even split for which all three blocks fit, and the grain where there is
    none. Where no matrix fits whole, the resident block is as large and as square as fits, of the algorithm whose
    transfers take least.
    """
    whole = [(stage.block_bits(algorithm.resident, parent), algorithm) for algorithm in Algorithm]
    fitting = [(bits, algorithm) for bits, algorithm in whole if bits <= stage.room]
    if fitting:
        _, algorithm = max(fitting, key=lambda pair: pair[0])
        return Choice.of(algorithm, _streamed(stage, algorithm, parent, parent), parent, stage.level.workers)
    blocks = [
        (algorithm, _streamed(stage, algorithm, square, parent))
        for algorithm in Algorithm
        if (square := _squarest(stage, algorithm, parent)) is not None
    ]
    choices = [Choice.of(algorithm, block, parent, stage.level.workers) for algorithm, block in blocks]
    return min(choices, key=lambda choice: _transfers(stage, choice, parent))


def _streamed(stage: Stage, algorithm: Algorithm, block: Sizes, parent: Sizes) -> Sizes:
    """`block` with the streamed dimension chosen by the rule."""
    sizes = even_splits(parent[algorithm.inner], stage.rules.grain[algorithm.inner])
    candidates = [_with(block, algorithm.inner, size) for size in sizes]
    return next((b for b in candidates if stage.needed_bits(algorithm, b) <= stage.room), candidates[-1])


def _squarest(stage: Stage, algorithm: Algorithm, parent: Sizes) -> Sizes | None:
    """The largest resident block that fits, the squarest of equally large ones; None when none fits."""
    first, second = DIMENSIONS_OF[algorithm.resident]
    best: tuple[int, int, Sizes] | None = None
    for rows in even_sizes(parent[first], stage.rules.grain[first], None):
        for columns in even_sizes(parent[second], stage.rules.grain[second], None):
            block = _with(_with(parent, first, rows), second, columns)
            if stage.block_bits(algorithm.resident, block) <= stage.room:
                ranked = (rows * columns, min(rows, columns), block)
                best = ranked if best is None else max(best, ranked)
                break  # further ones are smaller
    return None if best is None else best[2]


def even_splits(size: int, grain: int) -> list[int]:
    """Block sizes that divide the dimension, counted in grains, largest first.

    >>> even_splits(4096, 1024)
    [4096, 2048, 1024]
    """
    return [min(units * grain, size) for units in reversed(divisors(-(-size // grain)))]


def _with(block: Sizes, dimension: int, size: int) -> Sizes:
    m, k, n = (size if d == dimension else s for d, s in enumerate(block))
    return m, k, n


def _transfers(stage: Stage, choice: Choice, parent: Sizes) -> float:
    options = Options(
        parent,
        stage.level.workers,
        np.array([choice.algorithm.value]),
        np.array([choice.block], np.int64),
        np.array([choice.share]),
    )
    transfers = transfer_seconds(stage, options, parent)
    return float(transfers.stays[0] + transfers.streams[0])
