"""Training steps of the cost model against measured ones.

    python -m benchmarks.training_steps [--vtrain FILE.csv] [--megatron-bridge FILE.csv] [--rows]

Always: Megatron's steps of 22 to 1,000 billion parameters on A100 (Korthikanti et al., "Reducing activation
recomputation in large transformer models", arXiv 2205.05198, Table 5), and two schedules of Llama 3.1 405B.

`--vtrain`: columns `gpus`, `global_batch`, `micro_batch`, `hidden`, `heads`, `layers`, `sequence`, `tensor`, `data`,
`pipeline`, `step_ms` (VIA-Research/vTrain, MICRO 2024). `--megatron-bridge`: its tables of performance (NVIDIA,
Apache-2.0). `--rows`: every row with what the time is spent on.

Three constants are fitted: the part of the peak of an A100 that products reach (0.79: of 0.74, 0.76 ... 0.82 the
best is 0.78, and 0.79 keeps the layer within a tenth), on vTrain's
models of 18.4 billion parameters, Megatron's of 22 and 175, and operators of one layer; the time in which a host starts
a kernel (50 us of 20, 35 and 50), and the part of the bandwidth at which weights are updated (0.85: what a weight adds
to steps of two GPUs that sum no gradients), on vTrain's rows with a hidden size of 1,024 in one node.
All other rows judge.
"""

from __future__ import annotations

import argparse
import csv
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from benchmarks.training_models import MODELS, Transformer, gpt, stage_layers
from benchmarks.training_recipes import places_reached, recipe_of

import einmap
from einmap.distribute.costs.cluster import Cluster
from einmap.distribute.planner.read_cluster import cluster_of
from einmap.distribute.training.model import TrainingModel
from einmap.distribute.training.plan import Recompute, TrainingPlan
from einmap.distribute.training.step import TrainingCosts, TrainingStep

MEGATRON = {
    "22B": (gpt(6144, 64, 96, 48), 1, 4, 4, 1, (1.42, 1.10)),
    "175B": (gpt(12288, 96, 128, 96), 8, 64, 1, 3, (18.13, 13.75)),
    "530B": (gpt(20480, 128, 160, 105), 35, 280, 1, 3, (49.05, 37.83)),
    "1T": (gpt(25600, 160, 160, 128), 64, 512, 1, 1, (94.42, 71.49)),
}
"""Model, stages, sequences of a step and of a micro-batch, stages of a device; seconds with full recomputation, and
with that of attention and sequence parallelism. 8 tensor parallel GPUs.
"""
SYSTEMS = {
    "DGX-H100": "h100_nodes",
    "DGX-B200": "b200_nodes",
    "DGX-B300": "b300_nodes",
    "DGX-GB200": "gb200_racks",
    "DGX-GB300": "gb300_racks",
}
BITS = {"BF16": None, "FP8": 8.0, "MXFP8": 8.0, "NVFP4": 4.0}
SINKS = ("GPT OSS 120B",)
"""Models with a learned addend in the denominator of each softmax, which fused attention of Transformer Engine takes
from cuDNN 9.18 on (NVIDIA/TransformerEngine, issue 2318 and pull request 2568); before, scores go to memory.
"""
MEASURED_SCHEDULES = 128 / 100
"""Tokens/s of interleaved 1F1B by those of 1F1B: Llama 3.1 405B on 512 H100 with 8-bit products (torchtitan's page of
performance).
"""


@dataclass(frozen=True)
class Row:
    """A measured step. `group`: rows that are summed up together; `model`: rows whose plans compete."""

    group: str
    model: str
    name: str
    measured: float
    step: TrainingStep

    @property
    def error(self) -> float:
        """The predicted time by the measured one, less 1."""
        return self.step.seconds / self.measured - 1


@lru_cache
def shipped(name: str) -> Cluster:
    """A cluster of the examples."""
    cluster = cluster_of(einmap.load(name))
    assert cluster is not None
    return cluster


@lru_cache
def costs(model: TrainingModel, cluster: Cluster) -> TrainingCosts:
    """Costs of plans of a model, which remember its layers."""
    return TrainingCosts(model, cluster)


def megatron() -> Iterator[Row]:
    """Megatron's steps."""
    for name, (model, stages, batch, micro, chunks, measured) in MEGATRON.items():
        ways: tuple[Recompute, Recompute] = ("full", "selective")
        for recompute, seconds in zip(ways, measured, strict=True):
            plan = TrainingPlan(
                tp=8,
                pp=stages,
                micro_batch=micro,
                chunks=chunks,
                schedule="interleaved" if chunks > 1 else "1f1b",
                recompute=recompute,
                sequence_parallel=recompute == "selective",
                stages=stage_layers(model.layers, stages * chunks),
            )
            step = costs(model.trained(2048, batch), shipped("a100_training")).step(plan)
            yield Row("Megatron", name, f"{name} {recompute}", seconds, step)


def vtrain(lines: Sequence[Mapping[str, str]]) -> Iterator[Row]:
    """Steps of Megatron-DeepSpeed: full recomputation, 1F1B, gradients summed when all of them are there, in 16 bits as
    DeepSpeed does unless `communication_data_type` says otherwise.
    """
    models: dict[tuple[int, ...], TrainingModel] = {}
    for line in lines:
        number = {key: int(value) for key, value in line.items() if value.isdigit()}
        shape = tuple(number[key] for key in ("hidden", "heads", "layers", "sequence", "global_batch"))
        hidden, heads, layers, length, batch = shape
        if shape not in models:
            models[shape] = replace(
                gpt(hidden, heads, hidden // heads, layers).trained(length, batch), gradient_bytes=2.0
            )
        plan = TrainingPlan(
            dp=number["data"],
            tp=number["tensor"],
            pp=number["pipeline"],
            micro_batch=number["micro_batch"],
            recompute="full",
            sequence_parallel=False,
            stages=stage_layers(layers, number["pipeline"]),
            overlap=(),
        )
        step = costs(models[shape], shipped("a100_training")).step(plan)
        group = (
            f"vTrain, {line['parameters_billion']}B"
            if "parameters_billion" in line
            else f"vTrain, one node, hidden {hidden}"
        )
        yield Row(group, f"{shape} on {line['gpus']}", str(plan), float(line["step_ms"]) / 1e3, step)


def bridge(lines: Sequence[Mapping[str, str]]) -> Iterator[Row | str]:
    """Steps of Megatron-Bridge, or why a row is not one. Dense models overlap communication of activations, experts as
    their recipes say; the optimiser's state is spread. Releases before 26.06 are taken to have no fused attention for
    sinks.
    """
    for line in lines:
        model = MODELS.get(line["model"])
        if model is None or line["System"] not in SYSTEMS:
            yield "models and systems without a description"
            continue
        if line["model"] == "LLAMA3_70B" and line["Sequence Length"] == "4096":
            yield "fine-tuning"
            continue
        if line["model"] in SINKS and line["release"] < "26.06":
            model = replace(model, fused_attention=False)
        size = {key: int(value) if value.isdigit() else 1 for key, value in line.items()}
        devices, tp, pp, cp, ep, chunks = (size[key] for key in ("#-GPUs", "TP", "PP", "CP", "EP", "VP"))
        spread = tp * pp * cp * ep
        if devices % spread:
            yield "experts spread over tensor parallel devices"
            continue
        plan = TrainingPlan(
            dp=devices // spread,
            tp=tp,
            cp=cp,
            ep=ep,
            pp=pp,
            micro_batch=size["MBS"],
            chunks=chunks,
            schedule="interleaved" if chunks > 1 else "1f1b",
            stages=stage_layers(model.layers, pp * chunks),
            zero=3 if size["FSDP"] > 1 else 1,
            overlap=("data", "tensor"),
        )
        yield _of_bridge(line, model, plan)


def _of_bridge(line: Mapping[str, str], model: Transformer, plan: TrainingPlan) -> Row:
    """A step of Megatron-Bridge by a plan."""
    cluster, release, copies = shipped(SYSTEMS[line["System"]]), line["release"].split()[0], None
    batch, length = int(line["GBS"]), int(line["Sequence Length"])
    if model.experts:
        recipe = recipe_of(line["model"], line["System"], release, plan.ep)
        if not recipe.overlap:
            plan = replace(plan, overlap=("data",))
        if not recipe.graphs:
            cluster = replace(cluster, pe=replace(cluster.pe, dispatch=shipped("a100_training").pe.dispatch))
        if recipe.once:
            # beyond a node once to each node, from where it is passed on
            near = cluster.links[0][1].size or plan.ep
            copies = places_reached(plan.ep if plan.ep <= near else plan.ep // near, model.top)
    trained = replace(model.trained(length, batch, BITS[line["Precision"]], copies), gradient_bytes=2.0)
    name = f"{release} {line['model']} {line['System']} {line['Precision']}: {plan}"
    measured = batch * model.positions(length) / plan.devices / float(line["Tokens / sec / GPU"])
    group = f"{line['System']}, {'experts' if model.experts else 'dense'}"
    return Row(group, name, name, measured, costs(trained, cluster).step(plan))


def schedules(micro_batch: int, chunks: int) -> float:
    """Speed of interleaved 1F1B by that of 1F1B, for torchtitan's run of Llama 3.1 405B on 512 H100: 8 x 8 x 8 data,
    tensor and pipeline parallel, 32 sequences for each data parallel group.
    """
    model = MODELS["LLAMA3.1_405B"]
    trained = model.trained(8192, 8 * 32, 8.0)
    taken = []
    for stages, schedule in ((1, "1f1b"), (chunks, "interleaved")):
        plan = TrainingPlan(
            dp=8,
            tp=8,
            pp=8,
            micro_batch=micro_batch,
            chunks=stages,
            schedule=schedule,
            stages=stage_layers(model.layers, 8 * stages),
            recompute="selective",
            overlap=("data", "tensor"),
        )
        taken.append(costs(trained, shipped("h100_nodes")).step(plan).seconds)
    return taken[0] / taken[1]


def summary(rows: Sequence[Row]) -> Iterator[str]:
    """Errors by group, and by how much the plan that is predicted to be best is slower than the best measured one."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.group].append(row)
    for group, some in groups.items():
        errors = [abs(row.error) for row in some]
        regrets = []
        plans: dict[str, list[Row]] = defaultdict(list)
        for row in some:
            plans[row.model].append(row)
        for competing in plans.values():
            if len(competing) > 1:
                chosen = min(competing, key=lambda row: row.step.seconds)
                regrets.append(chosen.measured / min(row.measured for row in competing) - 1)
        text = f"{group}: {len(some)} rows, mean error {statistics.mean(errors):.1%}, "
        text += f"median {statistics.median(errors):.1%}, largest {max(errors):.1%}, "
        text += f"bias {statistics.mean(row.error for row in some):+.1%}"
        if regrets and group.startswith("vTrain"):
            text += f"; regret of the chosen plan {statistics.mean(regrets):.1%} over {len(regrets)} models"
        yield text


def _lines(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def main() -> None:
    """Print predicted against measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vtrain", type=Path, action="append", default=[])
    parser.add_argument("--megatron-bridge", type=Path, action="append", default=[])
    parser.add_argument("--rows", action="store_true")
    options = parser.parse_args()
    rows = list(megatron())
    for path in options.vtrain:
        rows += vtrain(_lines(path))
    left_out: dict[str, int] = defaultdict(int)
    for path in options.megatron_bridge:
        for one in bridge(_lines(path)):
            if isinstance(one, Row):
                rows.append(one)
            else:
                left_out[one] += 1
    for row in rows:
        if options.rows or row.group == "Megatron":
            spent = ", ".join(f"{part.what} {part.seconds:.3g} s" for part in row.step.parts if part.seconds > 0)
            print(f"{row.name}: measured {row.measured:.4g} s, predicted {row.step.seconds:.4g} s ({row.error:+.1%})")
            print(f"  {spent}")
    for line in summary(rows):
        print(line)
    judged = [abs(row.error) for row in rows if row.group.startswith("DGX")]
    if judged:
        print(f"Megatron-Bridge: {len(judged)} rows, mean error {statistics.mean(judged):.1%}")
    for reason, count in left_out.items():
        print(f"left out, {reason}: {count}")
    print(f"405B, interleaved by 1F1B, measured {MEASURED_SCHEDULES:.2f}:")
    for micro_batch in (1, 4):
        found = ", ".join(f"{schedules(micro_batch, chunks):.2f} with {chunks}" for chunks in (2, 4))
        print(f"  {32 // micro_batch} micro-batches: {found} stages a device")


if __name__ == "__main__":
    main()
