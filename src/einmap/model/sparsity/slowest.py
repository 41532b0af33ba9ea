"""The busiest lane: how much longer than the mean it takes on average, where zeros are random.

The load of an instance of a component is a sum over the boxes of values that decide about its visits. What boxes of
uniform tensors hold is random; other zeros count as they are known, or as on average.

- One tensor decides, lanes have equally many equal boxes, and the tensor is small: the mean of the maximum over all
  masks, exactly. Nonzeros of disjoint parts are independent binomial numbers, given their sum (the multivariate
  hypergeometric distribution; Johnson, Kotz, Balakrishnan: Discrete Multivariate Distributions, 1997, chapter 39).
- Else lanes are taken to be independent: E[max] = sum over c of 1 - product of F(c) over lanes (David, Nagaraja: Order
  Statistics, 2003, chapter 2). F is that of the binomial, Poisson or negative binomial number (Sundt, Jewell: ASTIN
  Bulletin 12, 1981) with the lane's mean load and the variance by which lanes differ. That variance is exact for equal
  boxes: pairs of visits are counted by which of their boxes are the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import ceil, lgamma, log, prod, sqrt

import numpy as np

from einmap.arch.component import Memory
from einmap.arrays import Amounts, Floats
from einmap.einsum.functions import erf
from einmap.errors import NotSupportedError
from einmap.model.counting.path import EinsumPath
from einmap.model.sparsity.conditions import innermost
from einmap.model.sparsity.expected import EinsumZeros, Passed, TensorZeros
from einmap.model.sparsity.sums import lane_loops
from einmap.model.sparsity.visits import Around
from einmap.model.traffic.tensor_traffic import Exchange, TensorTraffic
from einmap.sparse.densities import LARGE, Density, Uniform, all_zero
from einmap.sparse.savings import Sparsity

MOST_WORK = 200_000
"""Values of a tensor times boxes of a lane for which the mean over all masks is calculated exactly, at most."""
WIDE = 50.0
"""Standard deviation, in boxes, from which on the number of boxes of a lane is taken to be normal."""
MANY = 100_000.0
"""Mean number of boxes of a lane from which on it is."""
MOST_LOADS = 256
"""Mean loads of lanes that are told apart, at most: more are rounded up to as many."""
ALIKE = 1e-9
"""Part of a number below which a difference is rounding."""


@dataclass(frozen=True)
class Deciding:
    """A uniform tensor that decides about visits in boxes of `volume` values.

    `counted`: by how many nonzeros a box has, else by whether it has any. `inside`, `whole`: boxes along each rank
    variable, of one lane and of all.
    """

    whole_values: int
    nonzeros: int
    volume: float
    counted: bool
    inside: Mapping[str, int]
    whole: Mapping[str, int]

    def empty(self, values: float) -> float:
        """Probability that so many values, of boxes of equal length on average, are all zero."""
        rest = self.whole_values - values
        if rest < self.nonzeros:
            return 0.0
        if self.whole_values >= LARGE:
            fewer = all_zero(self.whole_values, self.nonzeros, int(values))
            more = all_zero(self.whole_values, self.nonzeros, ceil(values))
            return float(fewer ** (1 - values % 1) * more ** (values % 1))
        logs = _log_choices(rest, self.nonzeros) - _log_choices(self.whole_values, self.nonzeros)
        return float(np.exp(logs))

    @property
    def mean(self) -> float:
        """Mean of a box: nonzeros, or the probability that there is one."""
        return self.volume * self.nonzeros / self.whole_values if self.counted else 1 - self.empty(self.volume)

    @property
    def same(self) -> float:
        """Mean square of the number that a box gives."""
        return self.mean + self.volume * (self.volume - 1) * self._pair if self.counted else self.mean

    @property
    def different(self) -> float:
        """Mean product of what two boxes give."""
        if self.counted:
            return self.volume**2 * self._pair
        return 1 - 2 * self.empty(self.volume) + self.empty(2 * self.volume)

    @property
    def _pair(self) -> float:
        """Probability that two values are both nonzero."""
        return self.nonzeros * (self.nonzeros - 1) / (self.whole_values * max(1, self.whole_values - 1))


def slower_passing(zeros: TensorZeros, passed: Passed) -> float:
    """Ratio of what the busiest lane of a station passes to the largest mean of a lane.

    At least 1. Raises NotSupportedError for tensors that are indexed by sums.
    """
    sparsity, exchange = zeros.sparsity, _exchange_of(zeros.tensor, passed)
    conditions = innermost(c for c in zeros.conditions(exchange) if c.skips)
    boxes = [(leader, condition.node, False) for leader, condition in conditions.items()]
    form = zeros.form(exchange, passed.station, passed.way)
    fmt = sparsity.formats.get((form.component.name, passed.tensor))
    if fmt is not None and not fmt.is_plain and _is_random(sparsity.densities[passed.tensor]):
        raise NotSupportedError(
            f"lanes: slowest beside blocks or padding of {passed.tensor!r} is not supported yet",
            hint="leave out lanes, or give its zeros position by position",
        )
    if sparsity.compresses(form.component.name, passed.tensor):
        boxes.append((passed.tensor, zeros.node(exchange), True))
    return _slower(sparsity, zeros.path, passed.station.level, boxes, passed.values.timed)


def slower_operations(zeros: EinsumZeros, loads: Amounts) -> float:
    """Ratio of operations of the busiest compute to the largest mean of one. At least 1.

    `loads`: mean operations of each compute, or of all. Raises NotSupportedError for tensors that are indexed by sums.
    """
    path = zeros.path
    conditions = innermost(c for c in zeros.conditions() if c.skips)
    boxes = [(leader, condition.node, False) for leader, condition in conditions.items()]
    return _slower(zeros.sparsity, path, path.compute.level, boxes, loads)


def _exchange_of(tensor: TensorTraffic, passed: Passed) -> Exchange:
    """The exchange in which something passes a station."""
    station = passed.station
    is_memory = isinstance(station.component, Memory)
    as_child = is_memory and (passed.action, passed.way) in (("write", "down"), ("read", "up"))
    return next(e for e in tensor.exchanges if station in e.chain and (e.child == station) == as_child)


def _slower(
    sparsity: Sparsity, path: EinsumPath, level: int, boxes: Sequence[tuple[str, Around, bool]], amounts: Amounts
) -> float:
    lanes = frozenset(lane_loops(path, level))
    loads = np.ravel(amounts)
    most = float(loads.max(initial=0.0))
    random = [box for box in boxes if _is_random(sparsity.densities.get(box[0]))]
    apart = [i for i in lanes if any(_divides(path, i, name, node) for name, node, _ in random)]
    n = prod(int(path.loops[i].iterations) for i in apart)
    if not most or n < 2:
        return 1.0
    deciding = [_deciding(sparsity, path, lanes, *box) for box in random]
    is_even = loads.min() >= most * (1 - ALIKE) and all(
        path.einsum.extents[v] % prod(int(path.loops[i].iterations) for i in loops) == 0
        for v, loops in path.loops_of.items()
    )
    if is_even and len(deciding) == 1:
        (one,) = deciding
        parts = prod(one.inside.values()) * (round(one.volume) if one.counted else 1)
        if one.whole_values * parts <= MOST_WORK:
            volume = 1 if one.counted else round(one.volume)
            found = most_boxes(one.whole_values, one.nonzeros, n, parts, volume)
            return found / (parts * one.mean / (one.volume if one.counted else 1))
    return max(1.0, _of_likely_lanes(deciding, n, loads))


def _is_random(density: Density | None) -> bool:
    return isinstance(density, Uniform) and 0 < density.nonzeros < prod(density.shape)


def _divides(path: EinsumPath, loop: int, tensor: str, node: Around) -> bool:
    """Whether the iterations of a loop use different boxes of a tensor at a node."""
    return loop in node.told and path.loops[loop].variable in path.einsum.by_tensor[tensor].variables


def _deciding(
    sparsity: Sparsity, path: EinsumPath, lanes: frozenset[int], tensor: str, node: Around, counted: bool
) -> Deciding:
    density, access = sparsity.densities[tensor], path.einsum.by_tensor[tensor]
    assert isinstance(density, Uniform)
    if any(len(index.terms) > 1 for _, index in access.projection):
        raise NotSupportedError(
            f"lanes: slowest beside random zeros of {tensor!r}, which is indexed by sums, is not supported yet",
            hint="give its zeros position by position (a file, or a seed), or lanes: mean",
        )
    used = [i for i in node.told if _divides(path, i, tensor, node)]
    times = {v: [i for i in used if path.loops[i].variable == v] for v in access.variables}
    whole = {v: prod(int(path.loops[i].iterations) for i in loops) for v, loops in times.items()}
    inside = {v: prod(int(path.loops[i].iterations) for i in loops if i not in lanes) for v, loops in times.items()}
    values = prod(path.einsum.extents[v] for v in access.variables)
    volume = max(1.0, values / prod(whole.values()))
    return Deciding(prod(density.shape), density.nonzeros, volume, counted, inside, whole)


def most_boxes(values: int, nonzeros: int, lanes: int, boxes: int, volume: int) -> float:
    """Mean, over all masks of a tensor, of the most boxes with a nonzero that any of some lanes has.

    Each of `lanes` has `boxes` disjoint boxes of `volume` values; other values are in no lane. With p the density, a
    box gives (q + p x)^volume to the generating function of the number of nonzeros, of which q^volume is that of an
    empty box; a lane with at most c boxes that are not gives F_c(x). P(all <= c) is the coefficient at the number of
    nonzeros of F_c^lanes (q + p x)^rest, divided by that of (q + p x)^values; it is read off at roots of unity.
    """
    p = nonzeros / values
    if p in (0.0, 1.0):
        return p * boxes
    n = values + 1
    one = 1 - p + p * np.exp(2j * np.pi * np.arange(n) / n)
    empty = (1 - p) ** volume
    filled = one**volume - empty
    rest = one ** (values - lanes * boxes * volume) * np.exp(-2j * np.pi * np.arange(n) * nonzeros / n)
    scale = np.exp(_log_choices(values, nonzeros) + nonzeros * log(p) + (values - nonzeros) * log(1 - p))
    mean, below = 0.0, np.zeros(n, dtype=np.complex128)
    power = np.ones(n, dtype=np.complex128)
    for c in range(boxes):
        # few boxes, so that neither powers nor binomial coefficients leave the range of doubles together
        below = below + np.exp(_log_choices(boxes, c) + volume * (boxes - c) * log(1 - p)) * power
        power = power * filled
        chance = float((below**lanes * rest).mean().real / scale)
        mean += 1 - min(1.0, max(0.0, chance))
    return mean


def _of_likely_lanes(deciding: Sequence[Deciding], n: int, loads: Floats) -> float:
    """The mean of the maximum over `n` lanes that are taken as independent, over the largest of their mean loads."""
    variables = sorted({v for one in deciding for v in one.inside})
    relative = _square(deciding, variables, inside=True) - _square(deciding, variables, inside=False)
    relative *= n / (n - 1)
    boxes = prod(max(one.inside.get(v, 1) for one in deciding) for v in variables)
    mean = boxes * prod(one.mean for one in deciding)
    cap = boxes * prod(one.volume if one.counted else 1.0 for one in deciding)
    shares = loads / loads.max()
    different, times = np.unique(np.round(shares, 6), return_counts=True)
    if len(different) > MOST_LOADS:
        different, times = np.unique(np.ceil(shares * MOST_LOADS) / MOST_LOADS, return_counts=True)
    # lanes that share all boxes that decide are one
    return mean_of_most(mean * different, relative, [float(k) * n / len(loads) for k in times], cap) / mean


def _square(deciding: Sequence[Deciding], variables: Sequence[str], *, inside: bool) -> float:
    """Mean square of the load of a lane, or of all lanes together, over the square of its mean.

    A sum over pairs of visits, sorted by which boxes are the same along each rank variable: the boxes of one tensor lie
    in those of another.
    """
    counts = [one.inside if inside else one.whole for one in deciding]
    choices = [list(_matches([(k, of[v]) for k, of in enumerate(counts) if v in of])) for v in variables]
    total = 0.0
    for match in product(*choices):
        term = prod(chance for _, chance in match)
        for k, one in enumerate(deciding):
            is_same = all(k in alike for v, (alike, _) in zip(variables, match, strict=True) if v in one.inside)
            term *= (one.same if is_same else one.different) / one.mean**2
        total += term
    return total


def _matches(boxes: Sequence[tuple[int, int]]) -> Iterator[tuple[frozenset[int], float]]:
    """Pairs of visits along one rank variable: the tensors whose boxes are the same, and how many pairs are so.

    `boxes`: numbers of tensors with how many boxes each has.
    """
    order = sorted(boxes, key=lambda entry: entry[1])
    chances = [1.0, *(1 / n for _, n in order), 0.0]
    for k in range(len(order) + 1):
        if chances[k] > chances[k + 1]:
            yield frozenset(which for which, _ in order[:k]), chances[k] - chances[k + 1]


def mean_of_most(means: Floats, relative: float, times: Sequence[float], cap: float) -> float:
    """Mean of the maximum of independent numbers from 0 to `cap`; `times`: how many there are of each mean.

    `relative`: their variance, over the square of the mean.
    """
    if relative <= ALIKE**2:
        return float(means.max())
    lanes = [(float(mean), n) for mean, n in zip(means, times, strict=True) if mean]
    spread = float(means.max()) * sqrt(relative)
    low, high = max(0.0, float(means.max()) - 8 * spread), min(cap, float(means.max()) + 12 * spread + 12)
    if spread >= WIDE or means.max() >= MANY:
        grid = np.linspace(low, high, 2001)
        below: Floats = np.ones(len(grid))
        for mean, n in lanes:
            below = below * ((1 + erf(np, (grid - mean) / (mean * sqrt(2 * relative)))) / 2) ** n
        return low + float(np.sum(1 - (below[1:] + below[:-1]) / 2)) * float(grid[1] - grid[0])
    last = ceil(high)
    below = np.ones(last + 1)
    for mean, n in lanes:
        below = below * _distribution(mean, relative * mean**2, last) ** n
    return float(np.sum(1 - below[:-1]))


def _distribution(mean: float, variance: float, last: int) -> Floats:
    """Probability of at most 0, 1, ..., `last` for a number with p(k) = p(k - 1) (a + b / k) of a mean and variance."""
    k = np.arange(1, last + 1)
    if variance < mean * (1 - ALIKE):
        n = max(ceil(mean), round(mean**2 / (mean - variance)))
        p = min(1 - 1e-12, mean / n)
        factors = (n + 1 - k) / k * p / (1 - p)
    else:
        a = 1 - mean / variance
        # (r - 1) a with r = mean^2 / (variance - mean); for variance = mean that of Poisson
        factors = a + (mean * mean / variance - a) / k
    with np.errstate(divide="ignore"):
        logs = np.concatenate([[0.0], np.cumsum(np.log(np.clip(factors, 0, None)))])
    chances = np.exp(logs - logs.max())
    below: Floats = np.cumsum(chances / chances.sum())
    return below


def _log_choices(n: float, k: float) -> float:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)
