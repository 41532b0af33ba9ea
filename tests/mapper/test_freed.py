"""What a search needs is freed with it, without a garbage collection: many searches in a row take no more than one."""

import gc
import weakref

import pytest

import einmap
from einmap.mapper.branch_and_bound.path_search import PathSearch
from einmap.mapper.fusion.refinement.lazy_refinement import LazyRefinement


@pytest.fixture
def made(monkeypatch):
    """References to all searches that are made from here on."""
    found = []

    def noted(cls, name):
        begin = getattr(cls, name)

        def noting(self, *args, **kwargs):
            found.append(weakref.ref(self))
            begin(self, *args, **kwargs)

        monkeypatch.setattr(cls, name, noting)

    noted(PathSearch, "__post_init__")
    noted(LazyRefinement, "__init__")
    gc.disable()
    yield found
    gc.enable()


@pytest.mark.parametrize("workload", ["matmul", "matmul_chain"])
def test_nothing_of_a_search_stays(made, workload):
    sizes = {"M": 16, "K": 16, "N": 16} if workload == "matmul" else {"M": 16, "N_EINSUMS": 2}
    result = einmap.map_workload(einmap.load("simple", workload, define=sizes))
    assert result.optimal
    assert made
    assert [own() for own in made if own() is not None] == []
