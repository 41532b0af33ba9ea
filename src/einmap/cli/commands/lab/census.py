"""`einmap census`: the shape of a mapspace."""

from __future__ import annotations

from einmap.cli.commands.lab.search import einsum_option, objective_option, processes_option
from einmap.cli.inputs import Source, semantics_option
from einmap.cli.options import EFFORT, group, option
from einmap.cli.progress_bar import searching
from einmap.cli.writing.results import SCHEMA, Output


@group
class Options:
    """Which mapspace, and how much of it."""

    samples: int = option("N", "Valid mappings that are looked at.", default=20_000, min=1, panel=EFFORT)
    einsum: str | None = einsum_option()
    metrics: str | None = objective_option()
    semantics: str | None = semantics_option()
    seed: int = option("N", "Seed of the draws.", default=0, min=0, panel=EFFORT)
    workers: int | None = processes_option()


def census_command(options: Options, output: Output, source: Source) -> None:
    """Show the shape of a mapspace: how many mappings there are, and how valid ones are distributed.

    Mapspaces of no more mappings than samples are covered; of others uniform draws are taken.

    Example: einmap census nvdla vgg16 --einsum conv3_2 --samples 480000
    """
    # Here, not above: other commands do not need it.
    from einmap.report.search.census import census_report
    from einmap.search.census import take_census
    from einmap.search.experiment import Question
    from einmap.search.problem import problem_of

    files = output.files("einmap.search.census.Census", source.words)
    spec = source.load(files)
    seed = options.seed
    problem = problem_of(spec, einsum=options.einsum, metrics=options.metrics, semantics=options.semantics, seed=seed)
    question = Question(problem.spec, problem.name, problem.objective, problem.semantics.name, seed)
    with searching() as search:
        census = take_census(question, options.samples, workers=options.workers, progress=search.progress)
    output.show(lambda: {"schema": SCHEMA, **census.to_dict()}, lambda: census_report(census))
    files.write(census, "einmap.report.html.pages.search_pages.census_page", census, " ".join(source.names))
