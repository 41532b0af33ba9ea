"""The best mapping that is like a partly given one, against all mappings of small problems."""

import math
import random
from functools import cache
from itertools import islice

import numpy as np
import pytest
from tests.amounts import few_and_many
from tests.mapper.given_matching import Matcher
from tests.random_specs.networks import HANDED_ON, ROUND, TOPOLOGIES
from tests.random_specs.networks import draw as draw_with_network
from tests.random_specs.nodes import spec_of
from tests.random_specs.problems import draw_problem

import einmap
from einmap.mapper.cost_bounds.tile_limits import tile_limits
from einmap.mapper.mapspace.mapspace import mapspace_of
from einmap.mapper.problem.searchable import why_not_searchable
from einmap.mapping import nodes as tree
from einmap.mapping.template import AnyPlace, OpenCompute, OpenSpatial, OpenTemporal, PartialMapping
from einmap.model.batch.batch import Batch
from einmap.model.counting.semantics import PRESETS

MOST_MAPPINGS = {"exact": 20_000, "accelforge": 500}
"""Under accelforge every way to write a mapping is evaluated by itself: the order of loops may decide what fits."""
QUICK = 12
OBJECTIVES = ("energy", "latency", "edp")
EVERY_TOPOLOGY = (*TOPOLOGIES, *ROUND, *HANDED_ON)


MOST_WAYS = 2_000
MOST_WRITTEN = 300
"""Mappings of which every way to write them is evaluated."""
TOO_MANY = -1.0
"""Instead of the best cost: there are too many ways to write some mapping."""


def everything(spec, semantics, most=math.inf):
    """All mappings that fit as (energy, latency, subspace, point), and the mapspace; None for too many or none."""
    einsum = spec.workload.einsums[0]
    if why_not_searchable(einsum, spec.arch(), OBJECTIVES) is not None:
        return None
    rules = PRESETS[semantics]
    space = mapspace_of(einsum, spec.arch(), backed_outside=einsum.tensors, first_partial_matters=rules.lowering)
    if space.truncated or not 0 < space.size < min(most, MOST_MAPPINGS[semantics]):
        return None
    found = []
    for number, subspace in enumerate(space.subspaces):
        if not subspace.size:
            continue
        points = subspace.points_at(np.arange(subspace.size))
        batch = Batch(subspace.template, space.einsum, space.arch, rules)
        cost = batch.evaluate(subspace.shapes(points), len(points))
        kept = tile_limits(batch.path, subspace, points)
        # an order of loops that is not in the mapspace may fit where that of the mapspace does not, but never under exact
        fits = kept & (cost.fits | rules.lowering)
        found += [(cost.energy[i], cost.latency[i], number, i, bool(cost.fits[i])) for i in np.flatnonzero(fits)]
    return (space, found) if found else None


def given_of(rng, nodes):
    """A partial mapping that this mapping is like, mostly: nodes and tile shapes dropped, `Any` in their places."""
    flat = list(nodes)
    for i in range(len(flat) - 1):
        loops = (tree.Temporal, tree.Spatial)
        if isinstance(flat[i], loops) and isinstance(flat[i + 1], loops) and rng.random() < 0.3:
            same = str(flat[i].rank_variable) == str(flat[i + 1].rank_variable)
            flat[i : i + 2] = flat[i : i + 2] if same else [flat[i + 1], flat[i]]
    drop, open_, free, lose = rng.choice((0.1, 0.4, 0.7)), rng.choice((0.1, 0.5)), rng.choice((0, 0.1, 0.3)), 0.02
    found = []
    # in half of the cases no temporal loops come in at some places, or at none, as where a whole order is given
    without = random.Random(str(flat)).choice((0, 0, 0.5, 1))
    for node in flat:
        if rng.random() < free or without:
            found.append(AnyPlace(rng.random() >= without if without else True))
        if rng.random() < lose:
            continue
        if rng.random() < drop and not (without == 1 and isinstance(node, tree.Temporal)):
            found.append(AnyPlace(rng.random() >= without if without else True))
        elif isinstance(node, tree.Temporal) and rng.random() < open_:
            found.append(OpenTemporal(node.rank_variable.default))
        elif isinstance(node, tree.Spatial) and rng.random() < open_:
            found.append(OpenSpatial(node.rank_variable.default, node.component, node.name))
        elif isinstance(node, tree.Compute) and rng.random() < 0.3:
            found.append(OpenCompute(node.einsum))
        else:
            found.append(node)
    return PartialMapping(tuple(found))


def value(objective, energy, latency):
    return {"energy": energy, "latency": latency, "edp": energy * latency}[objective]


def best_like(spec, space, found, given, objective, semantics):
    """The least cost over all mappings that can be written like the given one; None when there is none."""
    levels = {leaf.name: i for i, leaf in enumerate(space.arch.path("MAC"))}
    matcher = Matcher(given.nodes, dict(space.einsum.bounds), levels, once=semantics == "exact")
    for energy, latency, number, point, _ in sorted(found, key=lambda row: value(objective, row[0], row[1])):
        subspace = space.subspaces[number]
        digits = tuple(int(x) for x in subspace.points_at(np.array([point]))[0])
        seen = set()
        for n, way in enumerate(matcher.ways(list(subspace.mapping(digits).nodes))):
            if n == MOST_WAYS:
                return TOO_MANY
            if tuple(way) in seen:
                continue
            seen.add(tuple(way))
            if semantics == "exact" or keeps_size(spec, way, semantics):
                return value(objective, energy, latency)
    return None


def keeps_size(spec, nodes, semantics):
    try:
        einmap.evaluate(spec, einmap.Mapping(tuple(nodes)), semantics)
    except einmap.CapacityError:
        return False
    return True


def without_lanes(given):
    """What is given without its spatial loops: any may come in at their places."""
    spatial = (tree.Spatial, OpenSpatial)
    return PartialMapping(tuple(AnyPlace(False) if isinstance(n, spatial) else n for n in given.nodes))


@cache
def case(seed, networks=False):
    """A problem with all its mappings and something given; with networks nothing of their lanes is."""
    rng = random.Random(seed)
    semantics = "accelforge" if seed % 4 == 3 and not networks else "exact"
    for _ in range(200):
        spec = spec_of(draw_with_network(rng, EVERY_TOPOLOGY) if networks else draw_problem(rng))
        made = everything(spec, semantics)
        if made is None:
            continue
        space, found = made
        fitting = [row for row in found if row[4]]
        if not fitting:
            continue
        objective = rng.choice(OBJECTIVES)
        rows = rng.sample(fitting, min(len(fitting), rng.choice((1, 50))))
        _, _, number, point, _ = min(rows, key=lambda row: value(objective, row[0], row[1]))
        subspace = space.subspaces[number]
        digits = tuple(int(x) for x in subspace.points_at(np.array([point]))[0])
        given = given_of(rng, subspace.mapping(digits).nodes)
        return spec, space, found, without_lanes(given) if networks else given, objective, semantics
    raise AssertionError("no problem was small enough")


@cache
def agrees(seed, networks=False):
    """Check one case; whether some mapping is like what is given and that could be checked."""
    spec, space, found, given, objective, semantics = case(seed, networks)
    wanted = best_like(spec, space, found, given, objective, semantics)
    if wanted == TOO_MANY:
        return False
    try:
        result = einmap.map_workload(spec, metrics=objective, semantics=semantics, given=given)
    except (einmap.NoMappingError, einmap.MappingError):
        assert wanted is None, given
        return False
    assert wanted is not None, (given, result.mapping)
    assert result.optimal
    got = value(objective, result.cost.energy, result.cost.latency)
    assert got == pytest.approx(wanted, rel=1e-9), (given, result.mapping)
    levels = {leaf.name: i for i, leaf in enumerate(space.arch.path("MAC"))}
    matcher = Matcher(given.nodes, dict(space.einsum.bounds), levels)
    assert next(matcher.ways(list(result.mapping.nodes)), None) is not None, (given, result.mapping)
    return True


@few_and_many("seeds", (range(QUICK),), (range(QUICK, 300),), parts=10)
def test_the_best_mapping_like_a_given_one_is_found(seeds):
    # most given mappings have one that is like them
    assert sum(map(agrees, seeds)) > len(seeds) / 2


@few_and_many("seeds", ((0, 2, 3, 4),), (range(200),), parts=10)
def test_the_best_mapping_like_a_given_one_is_found_beside_networks(seeds):
    assert sum(agrees(seed, networks=True) for seed in seeds) > len(seeds) / 2


def least_written(spec, space, found, given, objective):
    """The least cost of all mappings in each order of lanes in which they can be written like the given one."""
    levels = {leaf.name: i for i, leaf in enumerate(space.arch.path("MAC"))}
    matcher, best = Matcher(given.nodes, dict(space.einsum.bounds), levels, once=False), math.inf
    for number, point in {(number, point) for _, _, number, point, _ in found}:
        subspace = space.subspaces[number]
        digits = tuple(int(x) for x in subspace.points_at(np.array([point]))[0])
        ways = islice(matcher.ways(list(subspace.mapping(digits).nodes)), MOST_WAYS)
        for way in {tuple(n for n in way if isinstance(n, tree.Spatial)): tuple(way) for way in ways}.values():
            cost = einmap.evaluate(spec, einmap.Mapping(way))
            best = min(best, value(objective, cost.energy, cost.latency))
    return best


@cache
def bounded(seed):
    """Check a case in which lanes of networks are given, in some order; whether the bound is reached."""
    rng = random.Random(seed)
    while True:
        spec = spec_of(draw_with_network(rng, EVERY_TOPOLOGY))
        made = everything(spec, "exact", MOST_WRITTEN)
        fitting = [row for row in made[1] if row[4]] if made is not None else []
        if not fitting:
            continue
        space, _ = made
        _, _, number, point, _ = rng.choice(fitting)
        subspace = space.subspaces[number]
        digits = tuple(int(x) for x in subspace.points_at(np.array([point]))[0])
        given = given_of(rng, subspace.mapping(digits).nodes)
        if any(isinstance(node, (tree.Spatial, OpenSpatial)) for node in given.nodes):
            break
    objective = rng.choice(OBJECTIVES)
    least = least_written(spec, space, fitting, given, objective)
    try:
        result = einmap.map_workload(spec, metrics=objective, given=given)
    except (einmap.NoMappingError, einmap.MappingError):
        assert least == math.inf
        return False
    got = value(objective, result.cost.energy, result.cost.latency)
    levels = {leaf.name: i for i, leaf in enumerate(space.arch.path("MAC"))}
    matcher = Matcher(given.nodes, dict(space.einsum.bounds), levels)
    assert next(matcher.ways(list(result.mapping.nodes)), None) is not None, (given, result.mapping)
    assert result.lower_bound <= least * (1 + 1e-9)
    assert got >= least * (1 - 1e-9)
    assert not result.optimal or got == pytest.approx(least, rel=1e-9)
    return result.optimal


@few_and_many("seeds", ((0, 2, 5),), (range(60),), parts=4)
def test_the_bound_holds_where_lanes_of_networks_are_given(seeds):
    assert 0 < sum(map(bounded, seeds)) < len(seeds)
