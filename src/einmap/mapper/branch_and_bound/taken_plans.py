"""Tables of the dataplacements that a search takes some at a time, with the same uses of the fanouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from einmap.mapper.branch_and_bound.path_search import PathSearch
from einmap.mapper.branch_and_bound.sparse_search import SparseSearch
from einmap.mapper.cost_bounds.compute_path import PLAN_TABLES, Path
from einmap.mapper.cost_bounds.cost_to_go.sparse_tables import Limit
from einmap.mapper.objective.objectives import table_columns
from einmap.mapper.objective.pareto_archive import Archive
from einmap.mapper.problem.memory_limit import Ceiling
from einmap.mapper.problem.request import Request
from einmap.mapper.templates.chain_template import ChainTemplate


class Run(Protocol):
    """A run of a search, as far as its tables need to know it."""

    archive: Archive
    request: Request
    ceiling: Ceiling

    @property
    def slack(self) -> float:
        """How much better a mapping must be to be looked for."""

    @property
    def stopped(self) -> bool:
        """Whether it must end."""


class TakenPlans:
    """The search of the plans that were taken last. Sparse tables stay for the plans that follow while they have room.

    `begun`: a search without plans; `every`: all plans that may be taken; `run`: what it is for. On leaving its context
    its tables are gone.
    """

    def __init__(self, run: Run, begun: PathSearch, every: Sequence[ChainTemplate]) -> None:
        self.run, self.begun, self.every = run, begun, every
        self.search: PathSearch | None = None

    def __enter__(self) -> TakenPlans:
        return self

    def __exit__(self, *_: object) -> None:
        self.forget()

    def forget(self) -> None:
        """Free the tables."""
        if self.search is not None:
            self.search.forget_tables()
            self.search = None

    def take(self, plans: Sequence[ChainTemplate]) -> tuple[PathSearch, int]:
        """A search with the first of some plans, as many as there is room for; and how many these are."""
        if isinstance(self.search, SparseSearch):
            taken = self.search.take(plans, 0.0)
            if taken or self.search.ended:
                return self.search, taken
        self.forget()
        search, run = self.begun.emptied(), self.run
        self.search = search
        if not isinstance(search, SparseSearch):
            return search, search.take(plans, run.request.room)
        search.limit, search.ahead = Limit(run.archive, run.slack, run.request.known_remainder), self.every
        search.stopped = lambda: run.stopped
        return search, search.take(plans, run.ceiling.room(run.request.sparse_room))


def lanes_with_room(path: Path) -> int:
    """Uses of the fanouts whose tables have room whatever they are."""
    table = path.lattice.size * len(table_columns(path.request.goals, path.pricer.columns.n)) * 8
    return path.request.room // (table * PLAN_TABLES)
