"""`einmap plan-matmul`: block one matrix product for the memories of a machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from einmap.cli.inputs import Templates, definitions, reading_inputs
from einmap.cli.options import EFFORT, Without, argument, flag, group, option, output_option, several
from einmap.cli.output import print_hint, print_notes, print_report
from einmap.cli.progress_bar import searching
from einmap.cli.writing.results import INTERRUPTED, Output
from einmap.cli.writing.target import Target
from einmap.frontends.yaml.spec import dump
from einmap.progress import Progress
from einmap.report.matmul.matmul import plan_report
from einmap.report.matmul.matmul_measured import measured_section

if TYPE_CHECKING:
    from einmap.matmul.machine.machine import Machine
    from einmap.matmul.measured.measure import Measured
    from einmap.matmul.result import MatmulPlan

THIS_CPU = "this-cpu"
"""The name of the processor at hand."""
WRONG = 1
"""Exit status when the product that was computed is wrong."""
BLOCKS, CPU = "Blocks", "This processor"
"""Panels of the help."""


@group
class Options:
    """Which product, on which machine, and how it is blocked."""

    m: int = argument()
    k: int = argument()
    n: int = argument()
    machine: str = option(
        "NAME|FILE|this-cpu", "A machine of `einmap examples`, a YAML file, or the processor at hand.", default=...
    )
    dtype: str = option("TYPE", "Data type of A and B: fp8, bf16, fp32, ...", default=...)
    accumulator: str | None = option("TYPE", "Data type of C.", shown="--dtype")
    fit: str = option(
        "all|resident",
        "What has to fit into each memory: all blocks, or the resident one.",
        default="all",
        panel=BLOCKS,
    )
    joint: bool | None = flag(
        "All levels together, or one after the other from the outermost in.",
        "--joint/--level-by-level",
        default=None,
        shown="joint where fit is all",
        panel=BLOCKS,
    )
    accumulate: str = option(
        "owned|atomic",
        "owned: workers have blocks of C of their own; atomic: zero, accumulate.",
        default="owned",
        panel=BLOCKS,
    )
    double_buffer: bool = flag("Overlap transfers with computing; streamed blocks take space twice.", panel=BLOCKS)
    resident: list[str] = several(
        "A@LEVEL", "An operand that lies whole in a level from before; repeatable.", panel=BLOCKS
    )
    grain: str | None = option("G|M,K,N", "The least block.", shown="the machine's", panel=BLOCKS)
    candidates: int | None = option(
        "N", "Most block sizes of one dimension that are tried.", shown="16", min=1, panel=EFFORT
    )
    time_limit: float | None = option("S", "Seconds after which the best so far is given.", min=0, panel=EFFORT)
    cores: int | None = option("N", "Cores to plan for.", shown="1", min=1, panel=CPU)
    measure: bool = flag("Measure rates first; then run the plan, beside plain loops and BLAS.", panel=CPU)
    output: Path | None = output_option("Write the plan as a specification, for `einmap evaluate`.")

    def check(self, define: list[str]) -> None:
        """A usage error for options that do not go together."""
        for used, name in ((self.cores is not None, "--cores"), (self.measure, "--measure")):
            if used and self.machine != THIS_CPU:
                raise typer.BadParameter(f"only for --machine {THIS_CPU}", param_hint=name)
        if self.measure and self.cores not in (None, 1):
            raise typer.BadParameter("the kernel runs on one core: leave out --cores", param_hint="--measure")
        if define and self.machine == THIS_CPU:
            raise typer.BadParameter(f"{THIS_CPU} has no variables", param_hint="--define")


def plan_matmul_command(
    options: Options, templates: Annotated[Templates, Without({"allow_code", "top_key"})], output: Output
) -> None:
    """Block C <- A B + C, A: M x K, B: K x N, for every memory of a machine, and predict the time.

    Ctrl-C ends the joint search and gives the best plan so far.

    Example: einmap plan-matmul 4096 4096 16384 --machine chiplet_256 --dtype fp8

    Example: einmap plan-matmul 2048 2048 2048 --machine this-cpu --dtype fp32 --measure
    """
    # Here, not above: they import numpy and the searches, which other commands do not need
    from einmap.matmul.plan import plan_matmul
    from einmap.matmul.to_mapping import to_mapping

    target = Target.of(options.output, output.force, [options.machine])
    files = output.files("einmap.matmul.result.MatmulPlan", [options.machine])
    options.check(templates.define)
    measured: Measured | None = None
    with searching() as search:
        with reading_inputs(templates.define, target, files):
            described = machine_at_hand(options, templates, search.progress)
        plan = plan_matmul(
            options.m,
            options.k,
            options.n,
            described.machine,
            dtype=options.dtype,
            accumulator=options.accumulator,
            fit=options.fit,
            method=None if options.joint is None else "joint" if options.joint else "level by level",
            accumulate=options.accumulate,
            double_buffer=options.double_buffer,
            resident=homes(options.resident),
            grain=grain_of(options.grain),
            candidates=options.candidates or described.candidates,
            time_limit_s=options.time_limit,
            progress=search.progress,
        )
        if options.measure:
            measured = measured_or_stopped(plan, search.progress)
    if target is not None:
        target.write(dump(to_mapping(plan)))
    machine = {} if described.note is None else {"described": described.note}
    measurement = {} if measured is None else {"measured": measured.to_dict()}
    output.show(lambda: plan.to_dict() | machine | measurement, lambda: plan_report(plan))
    if measured is not None and not output.as_json:
        print_report(measured_section(plan, measured))
    if described.note is not None:
        print_hint(described.note)
    print_notes(plan.notes)
    if target is not None:
        print_hint(f"wrote the plan to {target.path}")
    files.write(plan, "einmap.report.html.pages.matmul_page.matmul_page", plan, measured)
    if options.measure and measured is None:
        print_hint("stopped before there was anything measured")
        raise typer.Exit(INTERRUPTED)
    if measured is not None and not measured.correct:
        raise typer.Exit(WRONG)


@dataclass(frozen=True, slots=True)
class MachineAtHand:
    """A machine, what it was made of where nobody wrote that down, and the usual number of candidates for it."""

    machine: Machine
    note: str | None = None
    candidates: int | None = None


def machine_at_hand(options: Options, templates: Templates, progress: Progress) -> MachineAtHand:
    """The machine of that name or file, or the processor at hand with rates that are measured on request."""
    if options.machine != THIS_CPU:
        from einmap.matmul.machine.read_machine import load_machine

        return MachineAtHand(load_machine(options.machine, definitions(templates.define), templates.root))
    from einmap.matmul.measured import this_cpu
    from einmap.matmul.measured.measure import Stopped, measured_rates

    processor = this_cpu.detect()
    try:
        rates = measured_rates(processor, progress) if options.measure else this_cpu.assumed_rates(processor)
    except Stopped:
        rates = this_cpu.assumed_rates(processor)
    machine = this_cpu.machine_of(processor, rates, options.dtype, options.cores or 1)
    return MachineAtHand(machine, this_cpu.described(processor, rates, options.dtype), this_cpu.CANDIDATES)


def measured_or_stopped(plan: MatmulPlan, progress: Progress) -> Measured | None:
    """The measurement, or None when it was stopped before it told anything."""
    from einmap.matmul.measured import measure

    try:
        return measure.measure(plan, progress)
    except measure.Stopped:
        return None


def homes(texts: list[str]) -> dict[str, str]:
    """`["A@SLC"]` as a dictionary. A usage error where `@` is missing or an operand is named twice."""
    level_of: dict[str, str] = {}
    for text in texts:
        tensor, at, level = text.partition("@")
        if not at or not tensor or not level:
            raise typer.BadParameter(f"{text!r}: write OPERAND@LEVEL, for example A@SLC", param_hint="--resident")
        if tensor in level_of:
            raise typer.BadParameter(f"{tensor} is given twice", param_hint="--resident")
        level_of[tensor] = level
    return level_of


def grain_of(text: str | None) -> int | tuple[int, int, int] | None:
    """`128` or `64,32,128`. A usage error for anything else."""
    if text is None:
        return None
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    match numbers:
        case [edge]:
            return edge
        case [m, k, n]:
            return m, k, n
        case _:
            message = f"{text!r}: write one whole number, or three for m, k and n, for example 64,32,128"
            raise typer.BadParameter(message, param_hint="--grain")
