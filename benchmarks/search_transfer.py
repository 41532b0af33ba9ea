"""How well cost models rank mappings that they have not seen, and what one from other workloads saves.

    python -m benchmarks.search_transfer --seeds 5

For each architecture a model is trained on uniform draws of some layers, and used on another one: evaluations of
`learned` to 10 % of the optimum with it and without it. The rank correlation is Spearman's over valid mappings.
"""

from __future__ import annotations

import argparse
from statistics import median

import numpy as np

import einmap
from einmap.arrays import Floats
from einmap.search.cost_model import CostModel
from einmap.search.experiment import Run
from einmap.search.problem import SearchProblem, problem_of
from einmap.search.run import search
from einmap.search.strategy import Budget

ARCHITECTURES = ("nvdla", "eyeriss", "simba")
TRAINED_ON = ("conv1_2", "conv2_1", "conv3_1", "conv4_2")
USED_ON = ("conv3_2", "conv5_1")
"""Layers of VGG-16."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--draws", type=int, default=1500)
    parser.add_argument("--evaluations", type=int, default=1000)
    asked = parser.parse_args()
    print("| architecture | layer | Spearman, own draws | Spearman, other layers' | to 10 % without | with | seeds |")
    print("|---|---|---|---|---|---|---|")
    for architecture in ARCHITECTURES:
        spec = einmap.load(architecture, "vgg16")
        transferred = CostModel()
        for layer in TRAINED_ON:
            problem = problem_of(spec, einsum=layer)
            points = problem.space.draw(np.random.default_rng(1), asked.draws)
            transferred.learn(problem, points, problem.evaluate(points))
        transferred.train()
        for layer in USED_ON:
            problem = problem_of(spec, einsum=layer)
            both = _own(problem, 2 * asked.draws), _rank(transferred, problem, asked.draws, 3)
            limit = problem.optimum().value * 1.1
            counts: list[list[float]] = [[], []]
            for seed in range(asked.seeds):
                for number, model in enumerate((None, transferred)):
                    result = search(problem, "learned", Budget(asked.evaluations), seed=seed, model=model)
                    counts[number].append(Run.of("learned", seed, result).reached(limit)[0])
            soon = " | ".join(f"{median(count):.0f}" for count in counts)
            print(f"| {architecture} | {layer} | {both[0]:.3f} | {both[1]:.3f} | {soon} | {asked.seeds} |", flush=True)


def _own(problem: SearchProblem, draws: int) -> float:
    """The correlation of a model that was trained on draws of this workload."""
    model = CostModel()
    points = problem.space.draw(np.random.default_rng(2), draws)
    model.learn(problem, points, problem.evaluate(points))
    return _rank(model, problem, draws // 2, 3)


def _rank(model: CostModel, problem: SearchProblem, draws: int, seed: int) -> float:
    """Spearman's correlation of prediction and objective over valid draws that the model has not seen."""
    points = problem.space.draw(np.random.default_rng(seed), draws)
    values = problem.evaluate(points)
    valid = np.isfinite(values)
    predicted = model.predict(problem, [point for point, ok in zip(points, valid.tolist(), strict=True) if ok])
    return float(np.corrcoef(ranks(predicted), ranks(values[valid]))[0, 1])


def ranks(values: Floats) -> Floats:
    """Ranks, equal values with the mean of theirs."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    means: Floats = (last - (counts - 1) / 2)[inverse]
    return means


if __name__ == "__main__":
    main()
