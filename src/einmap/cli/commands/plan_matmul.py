"""`einmap plan-matmul`: block one matrix product for the memories of a machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from einmap.cli.html_report import Figures, Html, ReportFiles
from einmap.cli.inputs import EFFORT, OUTPUT, AsJson, Define, Root, definitions, reading_inputs
from einmap.cli.output import print_hint, print_json, print_notes, print_report
from einmap.cli.progress_bar import searching
from einmap.cli.table_files import Csv, Parquet, TableFiles, TableName
from einmap.cli.target import Force, Target
from einmap.frontends.yaml.spec import dump
from einmap.progress import Progress
from einmap.report.matmul.matmul import plan_report
from einmap.report.matmul.matmul_measured import measured_section

if TYPE_CHECKING:
    from einmap.matmul.machine.machine import Machine
    from einmap.matmul.measured.measure import Measured
    from einmap.matmul.result import MatmulPlan
    from einmap.report.html.parts import Page

THIS_CPU = "this-cpu"
"""The name of the processor at hand."""
WRONG, INTERRUPTED = 1, 130
BLOCKS, CPU = "Blocks", "This processor"
"""Panels of the help."""

Size = Annotated[int, typer.Argument(show_default=False)]
MachineName = Annotated[
    str,
    typer.Option(
        metavar="NAME|FILE|this-cpu",
        help="A machine of `einmap examples`, a YAML file, or the processor at hand.",
        show_default=False,
    ),
]
DataTypeName = Annotated[
    str, typer.Option("--dtype", metavar="TYPE", help="Data type of A and B: fp8, bf16, fp32, ...", show_default=False)
]
Accumulator = Annotated[str | None, typer.Option(metavar="TYPE", help="Data type of C.", show_default="--dtype")]
Fit = Annotated[
    str,
    typer.Option(
        metavar="all|resident",
        help="What has to fit into each memory: all blocks, or the resident one.",
        rich_help_panel=BLOCKS,
    ),
]
Accumulate = Annotated[
    str,
    typer.Option(
        metavar="owned|atomic",
        help="owned: workers have blocks of C of their own; atomic: zero, accumulate.",
        rich_help_panel=BLOCKS,
    ),
]
Joint = Annotated[
    bool | None,
    typer.Option(
        "--joint/--level-by-level",
        help="All levels together, or one after the other from the outermost in.",
        show_default="joint where fit is all",
        rich_help_panel=BLOCKS,
    ),
]
Resident = Annotated[
    list[str] | None,
    typer.Option(
        metavar="A@LEVEL",
        help="An operand that lies whole in a level from before; repeatable.",
        show_default=False,
        rich_help_panel=BLOCKS,
    ),
]
DoubleBuffer = Annotated[
    bool,
    typer.Option(
        "--double-buffer",
        help="Overlap transfers with computing; streamed blocks take space twice.",
        rich_help_panel=BLOCKS,
    ),
]
Grain = Annotated[
    str | None,
    typer.Option(metavar="G|M,K,N", help="The least block.", show_default="the machine's", rich_help_panel=BLOCKS),
]
Candidates = Annotated[
    int | None,
    typer.Option(
        metavar="N",
        min=1,
        help="Most block sizes of one dimension that are tried.",
        show_default="16",
        rich_help_panel=EFFORT,
    ),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(
        "--time-limit",
        metavar="S",
        min=0,
        help="Seconds after which the best so far is given.",
        show_default=False,
        rich_help_panel=EFFORT,
    ),
]
Cores = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Cores to plan for.", show_default="1", rich_help_panel=CPU),
]
Measure = Annotated[
    bool,
    typer.Option(
        "--measure",
        help="Measure rates first; then run the plan, beside plain loops and BLAS.",
        rich_help_panel=CPU,
    ),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write the plan as a specification, for `einmap evaluate`.",
        show_default=False,
        rich_help_panel=OUTPUT,
    ),
]


def plan_matmul_command(
    ctx: typer.Context,
    m: Size,
    k: Size,
    n: Size,
    *,
    machine: MachineName,
    dtype: DataTypeName,
    accumulator: Accumulator = None,
    fit: Fit = "all",
    joint: Joint = None,
    accumulate: Accumulate = "owned",
    double_buffer: DoubleBuffer = False,
    resident: Resident = None,
    grain: Grain = None,
    candidates: Candidates = None,
    time_limit: TimeLimit = None,
    cores: Cores = None,
    measure: Measure = False,
    define: Define = None,
    root: Root = None,
    output: Output = None,
    csv: Csv = None,
    parquet: Parquet = None,
    table: TableName = None,
    html: Html = None,
    figures: Figures = None,
    force: Force = False,
    as_json: AsJson = False,
) -> None:
    """Block C <- A B + C, A: M x K, B: K x N, for every memory of a machine, and predict the time.

    Ctrl-C ends the joint search and gives the best plan so far.

    Example: einmap plan-matmul 4096 4096 16384 --machine chiplet_256 --dtype fp8

    Example: einmap plan-matmul 2048 2048 2048 --machine this-cpu --dtype fp32 --measure
    """
    # Here, not above: they import numpy and the searches, which other commands do not need
    from einmap.matmul.plan import plan_matmul
    from einmap.matmul.to_mapping import to_mapping

    target = Target.of(output, force, [machine])
    report = ReportFiles.of(ctx, html, figures, force, [machine])
    tables = TableFiles.of("einmap.matmul.result.MatmulPlan", csv, parquet, table, force=force, inputs=[machine])
    check_this_cpu(machine, cores, measure, define)
    measured: Measured | None = None
    with searching() as search:
        with reading_inputs(define, target, *tables.targets) as read:
            described = machine_at_hand(machine, dtype, cores, measure, define, root, search.progress)
        report = report.spared(read.files)
        plan = plan_matmul(
            m,
            k,
            n,
            described.machine,
            dtype=dtype,
            accumulator=accumulator,
            fit=fit,
            method=None if joint is None else "joint" if joint else "level by level",
            accumulate=accumulate,
            double_buffer=double_buffer,
            resident=homes(resident),
            grain=grain_of(grain),
            candidates=candidates or described.candidates,
            time_limit_s=time_limit,
            progress=search.progress,
        )
        if measure:
            measured = measured_or_stopped(plan, search.progress)
    if target is not None:
        target.write(dump(to_mapping(plan)))
    show(plan, measured, described.note, as_json)
    if output is not None:
        print_hint(f"wrote the plan to {output}")
    tables.write(plan)
    report.write(lambda: page_of(plan, measured))
    if measure and measured is None:
        print_hint("stopped before there was anything measured")
        raise typer.Exit(INTERRUPTED)
    if measured is not None and not measured.correct:
        raise typer.Exit(WRONG)


def page_of(plan: MatmulPlan, measured: Measured | None) -> Page:
    """The HTML report of a plan."""
    from einmap.report.html.pages.matmul_page import matmul_page

    return matmul_page(plan, measured)


def show(plan: MatmulPlan, measured: Measured | None, described: str | None, as_json: bool) -> None:
    """Print the plan, what was measured, and what the user should know."""
    if as_json:
        machine = {} if described is None else {"described": described}
        measurement = {} if measured is None else {"measured": measured.to_dict()}
        print_json(plan.to_dict() | machine | measurement)
    else:
        print_report(plan_report(plan))
        if measured is not None:
            print_report(measured_section(plan, measured))
    if described is not None:
        print_hint(described)
    print_notes(plan.notes)


@dataclass(frozen=True, slots=True)
class MachineAtHand:
    """A machine, what it was made of where nobody wrote that down, and the usual number of candidates for it."""

    machine: Machine
    note: str | None = None
    candidates: int | None = None


def check_this_cpu(machine: str, cores: int | None, measure: bool, define: list[str] | None) -> None:
    """A usage error for options that do not go together."""
    for used, option in ((cores is not None, "--cores"), (measure, "--measure")):
        if used and machine != THIS_CPU:
            raise typer.BadParameter(f"only for --machine {THIS_CPU}", param_hint=option)
    if measure and cores not in (None, 1):
        raise typer.BadParameter("the kernel runs on one core: leave out --cores", param_hint="--measure")
    if define and machine == THIS_CPU:
        raise typer.BadParameter(f"{THIS_CPU} has no variables", param_hint="--define")


def machine_at_hand(
    name: str,
    dtype: str,
    cores: int | None,
    measure: bool,
    define: list[str] | None,
    root: list[Path] | None,
    progress: Progress,
) -> MachineAtHand:
    """The machine of that name or file, or the processor at hand with rates that are measured on request."""
    if name != THIS_CPU:
        from einmap.matmul.machine.read_machine import load_machine

        return MachineAtHand(load_machine(name, definitions(define), root or ()))
    from einmap.matmul.measured import this_cpu
    from einmap.matmul.measured.measure import Stopped, measured_rates

    processor = this_cpu.detect()
    try:
        rates = measured_rates(processor, progress) if measure else this_cpu.assumed_rates(processor)
    except Stopped:
        rates = this_cpu.assumed_rates(processor)
    machine = this_cpu.machine_of(processor, rates, dtype, cores or 1)
    return MachineAtHand(machine, this_cpu.described(processor, rates, dtype), this_cpu.CANDIDATES)


def measured_or_stopped(plan: MatmulPlan, progress: Progress) -> Measured | None:
    """The measurement, or None when it was stopped before it told anything."""
    from einmap.matmul.measured import measure

    try:
        return measure.measure(plan, progress)
    except measure.Stopped:
        return None


def homes(texts: list[str] | None) -> dict[str, str]:
    """`["A@SLC"]` as a dictionary. A usage error where `@` is missing or an operand is named twice."""
    level_of: dict[str, str] = {}
    for text in texts or ():
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
