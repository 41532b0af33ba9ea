"""Layer times as LLMServingSim reads them (casys-kaist/LLMServingSim, profiles of version 1.0.0).

A folder has `meta.yaml`, and for each degree of tensor parallelism `dense.csv` (layer, tokens), `per_sequence.csv`
(layer, sequences), `attention.csv` (prefill_chunk, kv_prefill, n_decode, kv_decode) and for experts `moe.csv` (tokens,
activated_experts), with `time_us` in microseconds. The simulator interpolates linearly along each of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from einmap.errors import SpecError
from einmap.frontends.huggingface.description import Experts
from einmap.frontends.huggingface.read import described
from einmap.progress import Progress
from einmap.serving.layer_times import LayerTimes, TimesOnArchitecture, TimesOnCluster, only_layer
from einmap.serving.on_architecture import Mapped
from einmap.serving.tokens import TokenRequest, cluster_or_none
from einmap.spec.spec import Spec, checked_spec

MOST_ROWS = 2048
"""Tokens of a batch of the simulator, unless `--max-num-batched-tokens` says otherwise."""
LEAST_CHUNK = 16
"""Of prompts and cached positions, as its profiler begins."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Where times are written: rows of products, sequences, chunks of prompts, positions that are cached."""

    rows: Sequence[int]
    sequences: Sequence[int]
    decoding: Sequence[int]
    chunks: Sequence[int]
    cached: Sequence[int]

    @staticmethod
    def of(sequences: int, context: int, *, mapped: bool) -> Grid:
        """The grid up to so many sequences and cached positions; a coarser one where each point is mapped."""
        factor = 4 if mapped else 2
        rows, several = (doubled(1, most) if mapped else _fine(most) for most in (MOST_ROWS, sequences))
        most = max(context, LEAST_CHUNK)
        return Grid(
            rows,
            several,
            doubled(1, sequences, factor),
            doubled(LEAST_CHUNK, MOST_ROWS, factor),
            doubled(LEAST_CHUNK, most, factor),
        )


def llmservingsim_files(
    config: str | Path | Mapping[str, object],
    machine: Spec,
    request: TokenRequest | None = None,
    *,
    progress: Progress | None = None,
) -> dict[str, str]:
    """Files of LLMServingSim's profile of a model on a machine, by name, as `token_costs` takes both.

    Sequences go up to the largest of `batches`, cached positions to the largest of `contexts`, tokens of a batch to
    2,048. Layers are divided among `devices` by tensor parallelism; collectives are the simulator's own, from the
    links that its cluster has. Raises SpecError for models that the simulator has no names for, NoMappingError where
    nothing fits.
    """
    asked, spec = request or TokenRequest(), checked_spec(machine, "llmservingsim_files")
    made, widths = described(config, **(asked.widths or {}))
    layer = only_layer(made)
    cluster = cluster_or_none(spec)
    times: LayerTimes
    if cluster is not None:
        times = TimesOnCluster(made, widths, cluster, asked.devices)
    elif asked.devices > 1:
        raise SpecError("an architecture is one device", hint="a cluster has several: --on h100_node --devices 8")
    else:
        mapped = Mapped(spec, asked.metric, asked.time_limit_s, asked.fuse, progress)
        times = TimesOnArchitecture(made, widths, mapped)
    grid = Grid.of(max(asked.batches), max(asked.contexts), mapped=cluster is None)
    folder = f"tp{asked.devices}"
    files = {
        "meta.yaml": _meta(made.architecture, grid),
        f"{folder}/dense.csv": _by_layer("tokens", ((n, times.of_rows(n)) for n in grid.rows)),
        f"{folder}/per_sequence.csv": _by_layer("sequences", ((n, times.of_sequences(n)) for n in grid.sequences)),
        f"{folder}/attention.csv": _attention(times, grid),
    }
    if isinstance(layer.second, Experts):
        files[f"{folder}/moe.csv"] = _experts(times, layer.second, grid)
    return files


def doubled(first: int, most: int, factor: int = 2) -> list[int]:
    """`first`, then `factor` times as many each, up to `most`, which is the last."""
    found = [first]
    while found[-1] * factor < most:
        found.append(found[-1] * factor)
    return [*found, most] if most > first else found


def _fine(most: int) -> list[int]:
    """Each number to 16, each fourth to 64, each sixteenth behind, `most` the last."""
    return sorted({*range(1, min(16, most + 1)), *range(16, min(64, most + 1), 4), *range(64, most + 1, 16), most})


def _meta(architecture: str, grid: Grid) -> str:
    lines = [
        "profiler_version: einmap",
        f"architecture: {architecture}",
        f"engine_effective: {{max_num_batched_tokens: {grid.rows[-1]}, max_num_seqs: {grid.sequences[-1]}}}",
    ]
    return "\n".join(lines) + "\n"


def _microseconds(seconds: float) -> str:
    return f"{seconds * 1e6:.6g}"


def _by_layer(key: str, rows: Iterable[tuple[int, Mapping[str, float]]]) -> str:
    found = list(rows)
    lines = [f"layer,{key},time_us"]
    for layer in sorted({name for _, times in found for name in times}):
        lines += [f"{layer},{number},{_microseconds(times[layer])}" for number, times in found if layer in times]
    return "\n".join(lines) + "\n"


def _attention(times: LayerTimes, grid: Grid) -> str:
    """Chunks of a prompt beside sequences that decode: kernels one after another."""
    prompts = {(0, 0): 0.0} | {
        (chunk, kept): times.of_attention(1, chunk, kept) for chunk in grid.chunks for kept in (0, *grid.cached)
    }
    decodes = {(0, 0): 0.0} | {
        (number, kept): times.of_attention(number, 1, kept) for number in grid.decoding for kept in grid.cached
    }
    lines = ["prefill_chunk,kv_prefill,n_decode,kv_decode,time_us"]
    for (chunk, before), prompt in prompts.items():
        for (number, kept), decode in decodes.items():
            if chunk or number:
                lines.append(f"{chunk},{before},{number},{kept},{_microseconds(prompt + decode)}")
    return "\n".join(lines) + "\n"


def _experts(times: LayerTimes, block: Experts, grid: Grid) -> str:
    lines = ["tokens,activated_experts,time_us"]
    for rows in doubled(1, grid.rows[-1]):
        most = min(block.number, rows * block.chosen)
        for busy in doubled(block.chosen, most):
            lines.append(f"{rows},{busy},{_microseconds(times.of_experts(rows, busy))}")
    return "\n".join(lines) + "\n"
