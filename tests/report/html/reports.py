"""Pages for the tests: made once, used by several files."""

from functools import cache

from einmap.facade import map_workload
from einmap.frontends.yaml.spec import load
from einmap.model.evaluate import evaluate
from einmap.report.html.pages.cost_page import evaluation_page, map_page

HOSTILE = '</script><img src=x onerror="document.title=1">\u202e<script>document.title=2</script>{{ 1 }}'
SMALL = {"M": 16, "K": 8, "N": 16}


@cache
def fused():
    """An evaluated cascade of two Einsums: its cost and its specification."""
    spec = load("simple", "two_matvecs", "simple_two_matvecs_fused")
    return evaluate(spec), spec


@cache
def evaluation():
    """The page of that."""
    cost, spec = fused()
    return evaluation_page(cost, spec, spec.mapping, ["simple", "two_matvecs"])


@cache
def front():
    """The page of a search with several best mappings, and how many there are."""
    spec = load("simple", "matmul", define=SMALL)
    result = map_workload(spec, metrics="energy,resource_usage")
    return map_page(result, None, ["simple", "matmul"]), len(result.front)
