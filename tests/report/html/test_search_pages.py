"""The page of search strategies: what its axes say, and what was executed."""

import einmap
from einmap.report.html.pages.search_pages import gap_ticks, search_page
from einmap.report.html.parts import Figure
from einmap.report.search.strategies import gap_text
from einmap.report.text.layout import Table
from einmap.search.experiment import Run
from einmap.search.problem import Optimum, problem_of
from einmap.search.summary import summarised


def page(executed=None):
    problem = problem_of(einmap.load("simple", "matmul"))
    # ten thousand times the optimum at first, then the optimum
    runs = [Run(name, 0, 100, 1.0, 90, ((1, 0.1, 1e4), (50, 0.5, 1.0))) for name in ("random", "mcmc")]
    return search_page(problem, Optimum(1.0, None, None, True, 0.1), summarised(runs, 1.0, 100), "", executed)


def parts(kind, **given):
    return [part for section in page(**given).sections for part in section.parts if isinstance(part, kind)]


def test_the_axis_of_gaps_has_parts_of_the_optimum_and_multiples_of_it():
    assert [gap_text(tick) for tick in gap_ticks(1e4)[1:]] == [
        "0.1 %", "1.0 %", "10.0 %", "2 x", "10 x", "100 x", "1,000 x", "10,000 x",
    ]  # fmt: skip
    for figure in parts(Figure):
        axis = figure.plot["layer"][1]["encoding"]["y"]["axis"]
        assert axis["values"] == gap_ticks(1e4 - 1)
        assert "%" in axis["labelExpr"] and "x" in axis["labelExpr"] and "optimum" in axis["title"]


def test_what_was_executed_is_a_table_of_its_own():
    rows = [("random", "1", "3 J", "4 J", "2 x")]
    executed = (("strategy", "place by model", "predicted", "measured", "over the mapper's"), rows)
    assert parts(Table, executed=executed)[-1].rows == tuple(rows)
    assert len(parts(Table)) == 2
