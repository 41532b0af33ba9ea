"""The space of a search is the mapper's mapspace: as large, and each mapping has its point."""

import numpy as np
import pytest
from tests.mapper.specs import SPECS

import einmap
from einmap.mapper.mapspace.mapspace import mapspace_of
from einmap.progress import Progress
from einmap.search.problem import problem_of
from einmap.search.space.genome import Genome
from einmap.search.space.moves import Moves


@pytest.fixture(scope="module", params=SPECS)
def problem(request):
    return problem_of(SPECS[request.param](), semantics="accelforge")


def test_the_size_is_that_of_the_mapspace_built_subspace_by_subspace(problem):
    built = mapspace_of(problem.einsum, problem.arch, backed_outside=problem.einsum.tensors, first_partial_matters=True)
    assert problem.space.size == built.size
    assert problem.space.size_is_exact


def test_the_optimum_of_the_mapper_is_a_point_that_costs_as_much(problem):
    best = problem.optimum()
    assert best.proven
    assert problem.space.decode(best.point) == best.mapping


def test_an_optimum_whose_search_is_stopped_is_not_said_to_be_proven():
    stopped = Progress()
    stopped.stop()
    assert not problem_of(einmap.load("simple", "matmul")).optimum(stopped).proven


def test_moves_and_genomes_lead_to_points_of_the_space(problem):
    rng = np.random.default_rng(1)
    space, moves, genome = problem.space, Moves(problem.space), Genome(problem.space)
    points = space.draw(rng, 20)
    for _ in range(10):
        points = [moves.random(point, rng) for point in points]
        points.append(genome.point(rng.random(genome.length).tolist()))
    for number, digits in points:
        radices = [digit.radix for digit in space.subspace(number).digits]
        assert len(digits) == len(radices)
        assert all(0 <= digit < radix for digit, radix in zip(digits, radices, strict=True))


def test_draws_are_uniform_over_mappings(problem):
    rng = np.random.default_rng(2)
    sizes, n = problem.space.sizes, 10_000
    drawn = np.bincount(problem.space.draw_numbers(rng, n), minlength=len(sizes))
    expected = n * sizes / sizes.sum()
    assert (drawn[sizes == 0] == 0).all()
    # five standard deviations of each count
    assert (np.abs(drawn - expected) <= 5 * np.sqrt(expected) + 5).all()


def test_costs_of_points_together_are_those_of_each_by_itself(problem):
    points = problem.space.draw(np.random.default_rng(3), 60)
    alone = np.concatenate([problem.evaluate([point]) for point in points])
    assert np.allclose(problem.evaluate(points), alone, rtol=1e-12)
