"""Saved cost models: what they hold comes back, and a file of a stranger is numbers or is refused."""

import importlib.util
import json

import numpy as np
import pytest
from tests.mapper.specs import SPECS, two_level

from einmap.errors import SpecError
from einmap.search.cost_model.cost_model import MOST_ROWS, CostModel, training_data
from einmap.search.cost_model.model_file import load_cost_model, model_bytes, with_evaluations
from einmap.search.problem import problem_of

needs_trees = pytest.mark.skipif(importlib.util.find_spec("sklearn") is None, reason="extra")


@pytest.fixture(scope="module")
def small():
    return problem_of(SPECS["lanes with reuse"]())


def evaluated(problem, n, seed=0):
    points = problem.space.draw(np.random.default_rng(seed), n)
    return points, problem.evaluate(points)


@pytest.fixture(scope="module")
def content(small):
    return model_bytes(with_evaluations(None, small, [training_data(small, *evaluated(small, 60))]))


@needs_trees
def test_a_saved_model_ranks_mappings_that_it_has_not_seen(small, tmp_path):
    points, values = evaluated(small, 1_000)
    file = tmp_path / "model"
    file.write_bytes(model_bytes(with_evaluations(None, small, [training_data(small, points[:800], values[:800])])))
    valid = np.flatnonzero(np.isfinite(values[800:])) + 800
    predicted = load_cost_model(file, problem=small).predict(small, [points[i] for i in valid])
    assert np.corrcoef(predicted, np.log2(values[valid]))[0, 1] > 0.75


@needs_trees
def test_what_is_saved_comes_back_byte_by_byte(small, content, tmp_path):
    (tmp_path / "model").write_bytes(content)
    assert model_bytes(load_cost_model(tmp_path / "model")) == content


def test_mappings_that_several_runs_evaluated_count_once_and_a_model_grows_by_them(small):
    first, second = (training_data(small, *evaluated(small, 40, seed)) for seed in (1, 2))
    once = with_evaluations(None, small, [first, first])
    n = len(np.unique(np.column_stack(first), axis=0))
    assert len(once.targets) == n
    more = with_evaluations(once, small, [second])
    assert np.array_equal(more.targets[:n], once.targets)
    together = np.unique(np.concatenate([np.column_stack(first), np.column_stack(second)]), axis=0)
    assert np.array_equal(np.unique(np.column_stack([more.rows, more.targets]), axis=0), together)


def test_a_model_keeps_half_of_what_it_has_where_a_search_evaluates_more_than_it_holds(small):
    width = training_data(small, *evaluated(small, 1))[0].shape[1]

    def rows(first, n):
        return np.repeat(np.arange(first, first + n, dtype=float)[:, None], width, axis=1), np.arange(n, dtype=float)

    old = CostModel(*rows(0, MOST_ROWS))
    grown = with_evaluations(old, small, [rows(MOST_ROWS, 50_000)])
    assert len(grown.targets) == MOST_ROWS
    is_old = grown.rows[:, 0] < MOST_ROWS
    # the newest of the old rows, and new ones from the first to the last
    assert is_old.sum() == MOST_ROWS // 2 and grown.rows[is_old, 0].min() == MOST_ROWS // 2
    assert grown.targets[~is_old].min() == 0 and grown.targets[~is_old].max() == 49_999


def about(**other):
    return {"einmap_cost_model": 1, "parts": ["Main"], "rows": 1, "columns": 1, **other}


@pytest.mark.parametrize(
    ("head", "body", "message"),
    [
        (b"", b"", "its first line does not say"),
        (b"PK\x03\x04", b"", "its first line does not say"),
        (b"\x80\x04cos\nsystem", b"", "its first line does not say"),
        (b"[" * 100_000, b"", "this is not a cost model"),
        (about(einmap_cost_model=2), b"", "version 2 of the format, expected 1"),
        (about(rows=10**15), b"", "'rows' should be a number from 1 to 20,000"),
        (about(rows=True), b"", "'rows' should be"),
        (about(columns=-1), b"", "'columns' should be"),
        (about(parts="Main"), b"", "'parts' should be names"),
        (about(), b"1234567", "7 bytes follow its first line, expected 8"),
        (about(), np.array([np.nan, 1], "<f4").tobytes(), "not finite"),
        (about(), np.array([1, -np.inf], "<f4").tobytes(), "not finite"),
        (about(), np.array([1, np.inf], "<f4").tobytes(), "no valid mapping"),
    ],
)
def test_a_file_that_is_not_a_cost_model_is_refused_by_name(tmp_path, head, body, message):
    file = tmp_path / "foreign.model"
    file.write_bytes((head if isinstance(head, bytes) else json.dumps(head).encode()) + b"\n" + body)
    with pytest.raises(SpecError, match=message) as error:
        load_cost_model(file)
    assert str(file) in str(error.value)


@needs_trees
def test_a_file_with_bytes_changed_at_random_is_a_model_or_is_refused(small, content, tmp_path):
    rng = np.random.default_rng(5)
    file = tmp_path / "model"
    refused = 0
    for _ in range(40):
        broken = bytearray(content)
        for at in rng.integers(0, 150 if rng.random() < 0.5 else len(content), 3).tolist():
            broken[at] = int(rng.integers(256))
        file.write_bytes(bytes(broken[: int(rng.integers(len(content) + 1))] if rng.random() < 0.3 else broken))
        try:
            model = load_cost_model(file, problem=small)
        except SpecError:
            refused += 1
        else:
            assert np.isfinite(model.predict(small, evaluated(small, 3)[0])).all()
    assert 0 < refused < 40


def test_a_model_of_another_architecture_is_refused_by_the_names_of_both(content, tmp_path):
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(SpecError, match=r"with Main, Glb, Reg, .* this one has Main, Buf") as error:
        load_cost_model(tmp_path / "model", problem=problem_of(two_level()))
    assert str(tmp_path / "model") in str(error.value)


def test_a_model_of_another_number_of_features_is_refused(small, content, tmp_path):
    head, _, _ = content.partition(b"\n")
    changed = json.loads(head) | {"columns": 2, "rows": 1}
    (tmp_path / "model").write_bytes(json.dumps(changed).encode() + b"\n" + np.zeros(3, "<f4").tobytes())
    with pytest.raises(SpecError, match="2 features of a mapping, expected"):
        load_cost_model(tmp_path / "model", problem=small)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(SpecError, match="No such file"):
        load_cost_model(tmp_path / "nothing")
