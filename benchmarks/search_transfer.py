"""How well cost models rank mappings that they have not seen, and what one from other workloads saves.

    python -m benchmarks.search_transfer --seeds 5

For each of the five shipped problems a model is trained on other workloads of the same architecture: uniform draws,
and the history of an annealing run. `learned` then runs with it and without it, and the evaluations to 10 % of the
optimum are compared. The rank correlation is Spearman's, over valid uniform draws that a model has not seen.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from statistics import median

import numpy as np
from benchmarks.search_problems import SHIPPED, question

import einmap
from einmap.arrays import Floats
from einmap.mapper.mapspace.mapspace import Point
from einmap.search.cost_model.cost_model import CostModel
from einmap.search.experiment import Run
from einmap.search.problem import SearchProblem, problem_of
from einmap.search.run import search
from einmap.search.strategy import Budget

LAYERS = ("conv1_2", "conv2_1", "conv4_2", "conv5_1")
"""Layers of VGG-16 that models of convolutions are trained on."""
PRODUCTS = ({"M": 256, "K": 64, "N": 128}, {"M": 64, "K": 512, "N": 64}, {"M": 512, "K": 128, "N": 32})
"""Matrix products that the model of a matrix product is trained on."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--draws", type=int, default=800, help="and as many evaluations of annealing, of each workload")
    parser.add_argument("--own", type=int, default=3000, help="draws of the problem itself for its own model")
    parser.add_argument("--evaluations", type=int, default=600)
    parser.add_argument("--problems", default=",".join(SHIPPED))
    asked = parser.parse_args()
    print("| problem | Spearman, own draws | Spearman, other workloads | to 10 %, without | with | reached, of |")
    print("|---|---|---|---|---|---|")
    for name in asked.problems.split(","):
        problem = question(name).problem()
        points, values = _valid(problem, 1000, 3)
        both = [
            _rank(model, problem, points, values) for model in (_own(problem, asked.own), _others(name, asked.draws))
        ]
        transferred = _others(name, asked.draws)
        limit = problem.optimum().value * 1.1
        counts: list[list[float]] = [[], []]
        for seed in range(asked.seeds):
            for number, model in enumerate((None, transferred)):
                result = search(problem, "learned", Budget(asked.evaluations), seed=seed, model=model)
                counts[number].append(Run.of("learned", seed, result).reached(limit)[0])
        soon = " | ".join(f"{median(count):.0f}" for count in counts)
        reached = ", ".join(str(int(np.isfinite(count).sum())) for count in counts)
        print(f"| {name} | {both[0]:.3f} | {both[1]:.3f} | {soon} | {reached}, {asked.seeds} |", flush=True)


def _others(name: str, draws: int) -> CostModel:
    """A model that has seen other workloads of the architecture, half of it draws, half an annealing run."""
    files = SHIPPED[name][0]
    if files[1] == "matmul":
        problems = [problem_of(einmap.load(*files, define=sizes)) for sizes in PRODUCTS]
    else:
        spec = einmap.load(files[0], "vgg16")
        problems = [problem_of(spec, einsum=layer) for layer in LAYERS]
    model = CostModel()
    for problem in problems:
        points = problem.space.draw(np.random.default_rng(1), draws)
        model.learn(problem, points, problem.evaluate(points))
        run = search(problem, "annealing", Budget(draws), seed=1)
        model.learn(problem, run.points, run.values)
    model.train()
    return model


def _own(problem: SearchProblem, draws: int) -> CostModel:
    """A model that was trained on draws of this workload."""
    model = CostModel()
    points = problem.space.draw(np.random.default_rng(2), draws)
    model.learn(problem, points, problem.evaluate(points))
    model.train()
    return model


def _valid(problem: SearchProblem, n: int, seed: int) -> tuple[list[Point], Floats]:
    """Valid uniform draws with their objective."""
    rng = np.random.default_rng(seed)
    points: list[Point] = []
    values: list[float] = []
    while len(points) < n:
        drawn = problem.space.draw(rng, 2000)
        costs = problem.evaluate(drawn).tolist()
        kept = [(point, cost) for point, cost in zip(drawn, costs, strict=True) if np.isfinite(cost)]
        points += [point for point, _ in kept]
        values += [cost for _, cost in kept]
    return points[:n], np.array(values[:n])


def _rank(model: CostModel, problem: SearchProblem, points: Sequence[Point], values: Floats) -> float:
    """Spearman's correlation of prediction and objective."""
    return float(np.corrcoef(ranks(model.predict(problem, points)), ranks(values))[0, 1])


def ranks(values: Floats) -> Floats:
    """Ranks, equal values with the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: Floats = (last - (counts - 1) / 2)[inverse]
    return means


if __name__ == "__main__":
    main()
