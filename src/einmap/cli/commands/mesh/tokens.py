"""`einmap tokens`: what tokens of a language model cost on a machine."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from einmap.cli.commands.exchange.folder import Folder
from einmap.cli.inputs import Templates, reading_inputs
from einmap.cli.options import INPUT, OUTPUT, Without, argument, flag, group, option, several
from einmap.cli.output import print_hint
from einmap.cli.progress_bar import searching
from einmap.cli.writing.results import Output
from einmap.errors import SpecError
from einmap.report.serving.tokens import tokens_document, tokens_report
from einmap.serving.llmservingsim import llmservingsim_files
from einmap.serving.plan import fixed_of
from einmap.serving.tokens import TokenRequest, token_costs


@group
class Options:
    """The model, the machine, and the steps that are asked for."""

    model: Path = argument("MODEL", "A config.json of Hugging Face, or the folder that has it.")
    on: str | None = option("MACHINE", "A file with a cluster or an architecture, or a shipped one.", "--on")
    compare: str | None = option("A,B", "Machines to compare, each as for --on.")
    devices: int = option("N", "Devices of a cluster, among which the model is divided.", default=1, min=1)
    fix: list[str] = several(
        "WAYS", "How they are divided, such as tensor=4,data=2 or tensor=4|8; else as a token takes least."
    )
    batch: str = option("1,8,64", "Sequences at a time.", default="1,8,64")
    context: str = option(
        "1024,8192", "Cached positions of each sequence; the prompt of a first token.", default="1024,8192"
    )
    answer: int | None = option(
        "N", "Tokens that each request makes: prompts of others come between.", shown="steps alone", min=1
    )
    kept: float = option("SHARE", "Part of each prompt that is cached from before.", default=0.0, min=0, max=1)
    no_first: bool = flag("Leave out the time to the first token.")
    weight_bits: int | None = option("N", "Bits of weights.", shown="as the model says", min=1, max=1024, panel=INPUT)
    activation_bits: int | None = option(
        "N", "Bits of activations.", shown="as its dtype", min=1, max=1024, panel=INPUT
    )
    cache_bits: int | None = option("N", "Bits of the cache.", shown="as its dtype", min=1, max=1024, panel=INPUT)
    metrics: str = option(
        "latency|energy|edp", "What the mappings onto an architecture are best in.", default="latency"
    )
    time_limit: float = option("SECONDS", "For each part that is mapped; then the best so far.", default=60.0, min=0.1)
    llmservingsim: Path | None = option(
        "DIR", "Write the times of layers as a profile of LLMServingSim into this folder as well.", panel=OUTPUT
    )
    fuse: bool = flag("Whether tensors may stay inside between Einsums.", "--fuse/--no-fuse", default=True)


def tokens_command(options: Options, output: Output, templates: Annotated[Templates, Without({"allow_code"})]) -> None:
    """Say what tokens of a language model cost: time of each and of the first one, energy, memory, what limits layers.

    On an architecture each kind of layer is mapped optimally, once. On a cluster the model runs kernel after kernel,
    and is divided among devices as a token takes least within their memory: tensor, data, expert, context and pipeline
    parallelism. Points that no other beats in tokens/s of a device and of a user, at the same context, are marked as
    the front.

    Example: einmap tokens config.json --on h100_node --devices 4 --batch 1,16,256 --context 2048,32768
    """
    names = machines_of(options)
    files = output.files("einmap.serving.tokens.TokenCosts", [options.model, *names])
    widths = {
        name: value
        for name in ("weight_bits", "activation_bits", "cache_bits")
        if (value := getattr(options, name)) is not None
    }
    folder = Folder.of(options.llmservingsim, output.force)
    if folder is not None and (len(names) > 1 or options.fix):
        raise SpecError("--llmservingsim: a profile is of one machine, with tensor parallelism", hint="--on, --devices")
    metrics = {"latency", "energy", "edp"}
    if options.metrics not in metrics:
        raise SpecError(f"--metrics {options.metrics}: expected one of {', '.join(sorted(metrics))}")
    request = TokenRequest(
        numbers(options.batch, "--batch"),
        numbers(options.context, "--context"),
        options.devices,
        fixed_of(",".join(options.fix)) if options.fix else None,
        first=not options.no_first,
        answer=options.answer,
        kept=options.kept,
        metric=options.metrics,
        time_limit_s=options.time_limit,
        fuse=options.fuse,
        widths=widths,
    )
    with reading_inputs(templates.define, files) as noted:
        machines = [templates.spec([name]) for name in names]
    costs = []
    profile: dict[str, str] = {}
    for machine in machines:
        is_mapped = machine.raw.get("cluster") is None
        # an architecture is one device, which several of a cluster may be compared with
        own = replace(request, devices=1, fixed=None) if is_mapped and len(machines) > 1 else request
        with searching(maps=is_mapped) as running:
            costs.append(token_costs(options.model, machine, own, progress=running.progress))
            if folder is not None:
                profile = llmservingsim_files(options.model, machine, own, progress=running.progress)
    output.show(lambda: tokens_document(costs), lambda: tokens_report(costs))
    files.write(costs, "einmap.report.html.pages.tokens_page.tokens_page", costs, name_of(options.model))
    if folder is not None:
        folder.write(profile, [*noted.files, options.model])
        print_hint(f"wrote {', '.join(str(folder.path / name) for name in profile)}")


def name_of(model: Path) -> str:
    """The name of a model: of its file, or where that is a `config.json`, of the folder, empty for the one here."""
    return model.name if model.is_dir() else model.parent.name if model.stem == "config" else model.stem


def machines_of(options: Options) -> list[str]:
    """Machines by name, each once. A usage error where none is named."""
    words = [*([options.on] if options.on is not None else []), *(options.compare or "").split(",")]
    names = list(dict.fromkeys(word.strip() for word in words if word.strip()))
    if not names:
        raise typer.BadParameter("name a machine: --on h100_node, or --compare h100_node,tpu_v4i", param_hint="--on")
    return names


def numbers(text: str, flag: str) -> tuple[int, ...]:
    """`1,8,64` as numbers, each once. A usage error for anything else."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isascii() and word.isdecimal() and len(word) < 12 and int(word) for word in words):
        raise typer.BadParameter(f"{text!r}: whole numbers from 1 on, joined by commas: 1,8,64", param_hint=flag)
    return tuple(dict.fromkeys(int(word) for word in words))
