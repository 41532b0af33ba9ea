"""Checks of a sample: what is drawn, that it is bounded, and that a wrong value among it is seen."""

import numpy as np
import pytest
from tests.amounts import few_and_many
from tests.distribute.drawn_plans import draw

from einmap import SpecError, load
from einmap.distribute.backends import checked_extent as extent_module
from einmap.distribute.backends.check import sample_inputs
from einmap.distribute.backends.checked_extent import chosen_check
from einmap.distribute.backends.checked_sample import MAX_BYTES, SECONDS, bytes_of, drawn_sample, seconds_of
from einmap.distribute.backends.local import LocalEngine
from einmap.einsum.numeric import rank_sizes


@few_and_many("seeds", (range(10),), (range(10, 40),), part="distribute")
def test_samples_of_drawn_plans_agree_and_a_wrong_value_among_them_is_seen(seeds):
    for seed in seeds:
        plan = draw(seed).plan
        check = chosen_check(plan.workload, "sample", seed)
        inputs = sample_inputs(plan.workload, seed, whole=False)
        outputs = dict(LocalEngine().run(plan, inputs).outputs)
        assert all(one.agrees for one in check.outputs(inputs, outputs)), seed
        for tensor, values in outputs.items():
            drawn = check.sample.tensors[tensor].values()
            place = tuple(coordinates[-1] for coordinates in drawn)
            wrong = values.copy()
            wrong[place] = wrong[place] * 1.01 + 1
            found = {one.tensor: one for one in check.outputs(inputs, outputs | {tensor: wrong})}
            assert not found[tensor].agrees
            assert found[tensor].checked == np.prod([len(one) for one in drawn], dtype=int)
            assert found[tensor].values == wrong.size


def test_a_small_result_is_checked_whole_and_a_large_one_on_a_sample(monkeypatch):
    workload = load("matmul").workload
    assert chosen_check(workload, None, 0).extent == "whole"
    monkeypatch.setattr(extent_module, "WHOLE_POINTS", 1000)
    check = chosen_check(workload, None, 0)
    assert check.extent == "sample"
    assert check.why.endswith("points of iteration spaces, more than 1,000")


def test_ends_of_ranks_are_drawn_and_the_seed_tells_the_rest():
    workload = load("matmul", define={"M": 5000, "K": 8, "N": 7000}).workload
    one, same, other = (drawn_sample(workload, seed).tensors["Z"] for seed in (1, 1, 2))
    for rank, size in rank_sizes(workload)["Z"].items():
        assert {0, size - 1} <= set(one[rank].tolist())
        assert len(one[rank]) == 32
    assert all(np.array_equal(one[rank], same[rank]) for rank in one)
    assert not all(np.array_equal(one[rank], other[rank]) for rank in one)


LLAMA_70B = {"D_MODEL": 8192, "HEADS": 64, "KV_HEADS": 8, "D_HEAD": 128, "D_FF": 28672, "BITS": 16}


def test_a_sample_of_a_real_size_keeps_to_time_and_memory():
    needed = drawn_sample(load("llama3_8b", define={**LLAMA_70B, "N_TOKENS": 8192}).workload, 0)
    assert seconds_of(needed) <= SECONDS
    assert bytes_of(needed) <= MAX_BYTES
    assert all(needed.values(t) > 0 for t in needed.workload.producers)


def test_what_cannot_even_be_sampled_is_told():
    with pytest.raises(SpecError, match="one value of each output needs"):
        drawn_sample(load("attention", define={"N_TOKENS": 10**5, "D_IN": 10**5, "HEADS": 4}).workload, 0)
    with pytest.raises(SpecError, match="rank variable 'k' of Einsum 'Z' has 1,000,000,000,000 values"):
        drawn_sample(load("matmul", define={"M": 8, "N": 8, "K": 10**12}).workload, 0)
