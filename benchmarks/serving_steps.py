"""Measured times per output token of served language models against steps predicted from operators.

    python -m benchmarks.serving_steps measured.csv [--rows | --calibrate]

A row of the file is a run of `batch_size` requests at a time, `isl` tokens in, `osl` tokens out, on `tp_size` devices
(columns of `silicon_sample.csv` in aiconfigurator_core, PyPI, Apache-2.0). While a request makes its tokens, each of
the others brings its prompt once: a step with a prompt takes its rows beside those of the requests that decode.
"""

from __future__ import annotations

import argparse
import csv
import statistics
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from einmap import load
from einmap.distribute.costs.cluster import Cluster
from einmap.distribute.operators import Attention, Exchange, Operator, Pointwise, Product, step_seconds
from einmap.distribute.planner.read_cluster import cluster_of


@dataclass(frozen=True)
class Decoder:
    """A dense decoder with gated feed-forward and grouped queries."""

    layers: int
    hidden: int
    ff: int
    heads: int
    kv: int
    vocabulary: int
    width: int = 128
    qk_norm: bool = False


MODELS = {
    "Llama-3.1-8B": Decoder(32, 4096, 14336, 32, 8, 128256),
    "Llama-3.1-70B": Decoder(80, 8192, 28672, 64, 8, 128256),
    "Qwen3-32B": Decoder(64, 5120, 25600, 64, 8, 151936, qk_norm=True),
}
"""Sizes from the models' published configurations."""
CLUSTERS = {"h100_sxm": "h100_node", "h200_sxm": "h200_node"}


@dataclass(frozen=True)
class Load:
    """Rows of one step: `decoding` requests with `context` positions each, `prompts` new ones of `length` tokens."""

    decoding: float
    context: float
    prompts: float = 0.0
    length: int = 0

    @property
    def rows(self) -> int:
        """Positions that go through the layers."""
        return max(1, round(self.decoding + self.prompts * self.length))


@dataclass(frozen=True)
class Served:
    """A decoder on `tp` devices; `bits` of weights and of what they are multiplied by, `cache_bits` of keys, values;
    `casts`: kernels of their own cast activations, else norms and activations do.
    """

    model: Decoder
    tp: int
    bits: int
    cache_bits: int
    casts: bool = False

    def operators(self, load: Load) -> Iterator[tuple[Operator, float]]:
        """Operators of one step and how many times each runs."""
        model, tp, rows = self.model, self.tp, load.rows
        heads, kv = model.heads // tp, max(1, model.kv // tp)

        def product(n: int, k: int) -> Product:
            return Product(rows, n, k, self.bits, cast_from=16 if self.casts and self.bits < 16 else None)

        def pointwise(read: float, written: float, result_bits: int = 16) -> Pointwise:
            return Pointwise(rows * (read * 2 + written * result_bits / 8))

        layer: list[Operator] = [
            pointwise(2 * model.hidden, 2 * model.hidden, self.bits),  # norm and residual sum, twice
            product((heads + 2 * kv) * model.width, model.hidden),
            pointwise((heads + 2 * kv) * model.width, (heads + 2 * kv) * model.width),  # rotary embedding, cache
            product(model.hidden, heads * model.width),
            pointwise(2 * model.hidden, 2 * model.hidden, self.bits),
            product(2 * model.ff // tp, model.hidden),
            pointwise(2 * model.ff / tp, model.ff / tp, self.bits),
            product(model.hidden, model.ff // tp),
        ]
        if model.qk_norm:
            layer.append(pointwise((heads + kv) * model.width, (heads + kv) * model.width))
        layer += [Exchange(rows * model.hidden * 2, tp)] * 2
        yield from ((operator, model.layers) for operator in layer)
        cache = self.cache_bits
        if round(load.decoding):
            decode = Attention(round(load.decoding), heads, kv, load.context, model.width, bits=cache)
            yield decode, model.layers
        if load.prompts:
            prefill = Attention(1, heads, kv, load.length, model.width, queries=load.length, bits=cache)
            yield prefill, model.layers * load.prompts
        tokens = max(1, round(load.decoding + load.prompts))
        yield Product(tokens, model.vocabulary // tp, model.hidden), 1
        yield Exchange(tokens * model.vocabulary * 2, tp, "all_gather"), 1
        yield Pointwise(tokens * model.vocabulary * 10), 1  # logits in 32 bits, written and read once


@dataclass(frozen=True)
class Campaign:
    """How runs were made, which their file does not say. `narrow_cache`: keys and values have the width of weights,
    else 16 bits; `casts`: as `Served`; `prompts`: which part of the others' prompts a request waits for: 1 where
    requests begin one after another, 1/2 where all begin together, less where prompts repeat and are kept.
    """

    narrow_cache: bool = False
    casts: bool = False
    prompts: float = 1.0


CAMPAIGNS = {
    "Llama-3.1-8B trtllm 1.0.0rc3 16 bits": Campaign(),
    "Llama-3.1-8B sglang 0.5.6.post2 8 bits": Campaign(casts=True),
    "Llama-3.1-8B vllm 0.12.0 8 bits": Campaign(prompts=0.125),
    "Llama-3.1-70B vllm 8 bits": Campaign(),
    "Llama-3.1-70B trtllm 8 bits": Campaign(narrow_cache=True, prompts=0.5),
    "Qwen3-32B trtllm 1.0.0rc3 8 bits": Campaign(narrow_cache=True, casts=True),
    "Qwen3-32B trtllm 1.2.0rc6.post1 8 bits": Campaign(narrow_cache=True, casts=True, prompts=0.125),
    "Qwen3-32B sglang 0.5.1.post1 16 bits": Campaign(prompts=0.5),
    "Qwen3-32B sglang 0.5.8.post1 16 bits": Campaign(prompts=0.125),
    "Qwen3-32B vllm 0.12.0 16 bits": Campaign(),
    "Qwen3-32B vllm 0.12.0 8 bits": Campaign(prompts=0.125),
}
"""Set with the rows of `calibration` (`--calibrate`)."""


@dataclass(frozen=True)
class Row:
    """One measured run."""

    model: str
    system: str
    backend: str
    bits: int
    tp: int
    length: int
    output: int
    requests: int
    measured: float
    first: float

    @property
    def group(self) -> str:
        """What is averaged together."""
        devices = f"{self.tp} devices" if self.tp > 1 else "1 device"
        return f"{self.model} {self.backend} {self.bits} bits, {self.system}, {devices}"

    @property
    def campaign(self) -> str:
        """Runs that were made in one way."""
        return f"{self.model} {self.backend} {self.bits} bits"

    def served(self, campaign: Campaign) -> Served:
        """The model as it was run."""
        cache = self.bits if campaign.narrow_cache else 16
        return Served(MODELS[self.model], self.tp, self.bits, cache, campaign.casts)


def predicted(row: Row, cluster: Cluster, campaign: Campaign | None = None, most: int = 8192) -> float:
    """Seconds per output token: a step in which all decode, and those of its `output` steps that bring prompts."""
    campaign = campaign or CAMPAIGNS.get(row.campaign, Campaign())
    served = row.served(campaign)
    context = row.length + row.output / 2
    alone = step_seconds(cluster, served.operators(Load(row.requests, context)))
    others = (row.requests - 1) * campaign.prompts
    if not others:
        return alone
    each = max(1.0, min(others / row.output, most / row.length))
    mixed = step_seconds(cluster, served.operators(Load(row.requests, context, each, row.length)))
    steps = others / each
    return (max(0.0, row.output - steps) * alone + steps * mixed) / row.output


def queued(row: Row, cluster: Cluster) -> bool:
    """Whether requests wait for room: keys and values of all do not fit beside the weights, or the first token comes
    later than all prompts one after another and half a second take.
    """
    campaign = CAMPAIGNS.get(row.campaign, Campaign())
    served = row.served(campaign)
    model = served.model
    weights = model.layers * (2 * model.hidden * (model.heads + model.kv) * model.width + 3 * model.hidden * model.ff)
    values = 2 * model.layers * model.kv * model.width * row.requests * (row.length + row.output)
    held = weights * row.bits + 2 * model.vocabulary * model.hidden * 16 + values * served.cache_bits
    prompt = step_seconds(cluster, served.operators(Load(0, row.length, 1, row.length)))
    return held / 8 / row.tp > 0.88 * cluster.pe.memory or row.first > 1.5 * row.requests * prompt + 0.5


def rows_of(path: Path) -> Iterator[Row | str]:
    """Rows of a file, or why one is left out."""
    with path.open(newline="") as file:
        for line in csv.DictReader(file):
            name = line["model_path"].split("/")[-1].removesuffix("-FP8").removesuffix("-Instruct")
            if line["system"] not in CLUSTERS or name not in MODELS:
                yield f"no cluster {line['system']} or model {name}"
                continue
            version = f" {line['backend_version']}" if line["backend_version"] else ""
            yield Row(
                name,
                line["system"],
                line["backend"] + version,
                {"": 16, "fp8": 8}[line["precision"]],
                *(int(line[key]) for key in ("tp_size", "isl", "osl", "batch_size")),
                float(line["silicon_tpot_ms"]) / 1e3,
                float(line["silicon_ttft_ms"]) / 1e3,
            )


def calibration(path: Path) -> list[Row]:
    """Rows for constants: of each campaign, in order of devices and lengths, the fifth and each ninth after it, or the
    middle one of fewer.
    """
    campaigns: dict[str, list[Row]] = defaultdict(list)
    for row in rows_of(path):
        if isinstance(row, Row):
            campaigns[row.campaign].append(row)
    chosen = []
    for rows in campaigns.values():
        ordered = sorted(rows, key=lambda row: (row.tp, row.length, row.output, row.requests))
        chosen += ordered[4::9] or [ordered[len(ordered) // 2]]
    return chosen


def calibrated(path: Path, clusters: Mapping[str, Cluster]) -> Iterator[str]:
    """The constants of campaigns with the least mean error of the rows of `calibration`; plainer ones (no casts,
    prompts one after another) that are within 1.5 points of it are taken before. Caches have what frameworks do by
    default: the width of weights with TensorRT-LLM, else 16 bits.
    """
    rows: dict[str, list[Row]] = defaultdict(list)
    for row in calibration(path):
        rows[row.campaign].append(row)
    for name, some in rows.items():
        held = [row for row in some if not queued(row, clusters[row.system])] or some
        narrow = "trtllm" in name and "8 bits" in name
        casts = (False, True) if "8 bits" in name else (False,)
        tried = [Campaign(narrow, cast, prompts) for cast in casts for prompts in (1.0, 0.5, 0.125)]

        def error(campaign: Campaign, held: list[Row] = held) -> float:
            return statistics.mean(
                abs(predicted(row, clusters[row.system], campaign) / row.measured - 1) for row in held
            )

        least = min(map(error, tried))
        best = next(campaign for campaign in tried if error(campaign) < least + 0.015)
        yield f"{name!r}: {best},  # {len(held)} rows, mean error {error(best):.1%}"


def cluster_named(name: str) -> Cluster:
    """A shipped cluster."""
    cluster = cluster_of(load(name))
    assert cluster is not None
    return cluster


def main() -> None:
    """Print predicted against measured."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--rows", action="store_true")
    parser.add_argument("--calibrate", action="store_true", help="print the constants of campaigns")
    options = parser.parse_args()
    clusters = {system: cluster_named(name) for system, name in CLUSTERS.items()}
    if options.calibrate:
        print("\n".join(calibrated(options.path, clusters)))
        return
    used = set(calibration(options.path))
    groups: dict[str, list[tuple[Row, float]]] = defaultdict(list)
    left_out: Counter[str] = Counter()
    for row in rows_of(options.path):
        if isinstance(row, str):
            left_out[row] += 1
        elif row in used:
            left_out["set constants"] += 1
        elif queued(row, clusters[row.system]):
            left_out["requests wait for room"] += 1
        else:
            groups[row.group].append((row, predicted(row, clusters[row.system])))
    for group, rows in sorted(groups.items()):
        print(f"{group}: {summary(rows)}")
        for row, seconds in rows if options.rows else ():
            print(
                f"  {row.length} in, {row.output} out, {row.requests} at a time: measured {1e3 * row.measured:.2f} ms, "
                f"predicted {1e3 * seconds:.2f} ms ({seconds / row.measured - 1:+.1%})"
            )
    for name, single in (("one device", True), ("several devices", False)):
        rows = [pair for some in groups.values() for pair in some if (pair[0].tp == 1) == single]
        if rows:
            print(f"{name}: {summary(rows)}")
    for reason, count in left_out.items():
        print(f"left out, {reason}: {count}")


def summary(rows: Sequence[tuple[Row, float]]) -> str:
    """Errors of some rows."""
    errors = [seconds / row.measured - 1 for row, seconds in rows]
    sizes = [abs(error) for error in errors]
    return (
        f"{len(rows)} rows, mean error {statistics.mean(sizes):.1%}, median {statistics.median(sizes):.1%}, "
        f"largest {max(sizes):.1%}, bias {statistics.mean(errors):+.1%}"
    )


if __name__ == "__main__":
    main()
