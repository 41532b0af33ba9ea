"""Tokens of a language model on clusters and architectures: worked out by hand, and against the imported workload."""

import math

import pytest
from benchmarks.serving_steps import CLUSTERS, MODELS, Load, Served, cluster_named
from tests.frontends.huggingface.configs import PUBLISHED
from tests.frontends.huggingface.test_values import SMALL

import einmap
from einmap import SpecError, from_huggingface, map_workload
from einmap.distribute.operators import Attention, Product, Work, step_seconds
from einmap.progress import Progress
from einmap.serving.kernels import Collective, Prompt, operators_of
from einmap.serving.on_cluster import planned
from einmap.serving.plan import ServingPlan
from einmap.serving.tokens import TokenRequest, token_costs

TINY = {
    "model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4,
    "num_key_value_heads": 2, "num_hidden_layers": 3, "vocab_size": 256, "torch_dtype": "bfloat16",
}  # fmt: skip
MACHINE = einmap.loads(
    """
cluster:
  pe: {peak: {bf16: 1e15}, memory: 1000000, memory_bandwidth: 1e9, launch: 1e-6}
  axes:
    x: {bandwidth: 1e9, latency: 2e-6, topology: switch}
"""
)


def layer_seconds(batch, shapes, kv_heads, heads, inner):
    """Bytes of the kernels of a layer at 1 GB/s, and 9 launches of 1 us; `shapes`: [k, n] of its products."""
    # products read [rows, k] and [k, n] and write [rows, n]; 2 bytes each
    products = sum(2 * (batch * k + k * n + batch * n) for k, n in shapes)
    # keys and values of 100 positions; queries and results
    attention = batch * 2 * 16 * (kv_heads * 100 + heads) * 2
    # two norms with sums, four tensors of 64 each; rotary embedding in and out; gate, up and their result
    pointwise = batch * 2 * (2 * 4 * 64 + 2 * (heads + 2 * kv_heads) * 16 + 3 * inner)
    return (products + attention + pointwise) * 1e-9 + 9e-6


def test_a_step_on_one_device_moves_each_weight_and_each_cached_row_once():
    point = token_costs(TINY, MACHINE, TokenRequest((2,), (99,), first=False)).points[0]
    layer = layer_seconds(2, [(64, 128), (64, 64), (64, 256), (128, 64)], 2, 4, 128)
    assert point.parts[1].instances == 3
    assert point.parts[1].seconds == pytest.approx(layer)
    embedding, norm = 2 * 2 * 2 * 64e-9 + 1e-6, 2 * 2 * 2 * 64e-9 + 1e-6
    # logits, and 10 bytes for each where one is chosen
    head = norm + 2 * (2 * 64 + 64 * 256 + 2 * 256) * 1e-9 + 1e-6 + 2 * 256 * 10e-9 + 1e-6
    assert point.seconds == pytest.approx(3 * layer + embedding + head)
    assert point.rate == pytest.approx(2 / point.seconds)
    assert point.limited_by == "memory"


def test_on_two_devices_heads_and_columns_are_halved_and_two_sums_are_added():
    point = token_costs(TINY, MACHINE, TokenRequest((1,), (99,), 2, {"tensor": 2}, first=False)).points[0]
    halves = layer_seconds(1, [(64, 64), (32, 64), (64, 128), (64, 64)], 1, 2, 64)
    # an all-reduce of 64 values of 2 bytes: half of them twice, two messages
    sums = 2 * (2 * 64e-9 + 2 * 2e-6)
    assert point.parts[1].seconds == pytest.approx(halves + sums)


@pytest.mark.parametrize(
    "name", ["Llama-3.1-8B", "Qwen3-32B", "gemma-2-9b", "Mixtral-8x7B", "DeepSeek-V3", "mamba2-2.7b"]
)
@pytest.mark.parametrize("tokens", [1, 256])
def test_operators_compute_the_products_of_the_workload(name, tokens):
    model = from_huggingface(PUBLISHED[name][0], batch=2, tokens=tokens, context=0 if tokens > 1 else 1000)
    total = 0.0
    for part in operators_of(model):
        for operator in part.operators:
            match operator:
                case Product():
                    total += part.instances * operator.batch * operator.m * operator.n * operator.k
                case Attention():
                    widths = operator.width + (operator.value_width or operator.width)
                    seen = operator.context - (operator.queries - 1) / 2
                    total += part.instances * operator.sequences * operator.heads * operator.queries * seen * widths
                case Work():
                    total += part.instances * operator.operations / 2
    # operators leave out pairs that the causal mask leaves out, and what is added by hand in state spaces
    assert total == pytest.approx(model.n_products, rel=0.03)


def test_weights_that_products_read_are_those_of_the_model():
    for name in ("Llama-3.1-70B", "Qwen3-30B-A3B", "DeepSeek-V3"):
        model = from_huggingface(PUBLISHED[name][0], batch=512, context=10)
        read = sum(
            part.instances * operator.batch * operator.n * operator.k
            for part in operators_of(model)
            for operator in part.operators
            if isinstance(operator, Product)
        )
        embeddings = model.description.vocabulary * model.description.hidden
        assert read == pytest.approx(model.n_parameters - embeddings, rel=1e-3)


def test_memory_says_how_many_sequences_fit_and_the_front_has_those_that_do():
    costs = token_costs(TINY, MACHINE, TokenRequest((1, 8, 4000), (99, 999), first=False))
    point = costs.points[1]
    parameters = from_huggingface(TINY).n_parameters
    assert point.held.weights == 2 * parameters
    # 3 layers of 2 x 2 heads of 16, 2 bytes each
    assert point.held.cache == 8 * 99 * 3 * 2 * 2 * 16 * 2
    widest = 2 * (64 + 256)
    assert point.most_sequences == (1000000 - 2 * parameters) // (99 * 3 * 2 * 2 * 16 * 2 + widest)
    assert [p.held.fits for p in costs.points] == [True, True, False, True, False, False]
    assert {(p.batch, p.context) for p in costs.front} == {(1, 99), (8, 99), (1, 999)}


def test_the_first_token_takes_a_prompt_alone_on_the_machine():
    request = TokenRequest((1, 64), (128,))
    points = token_costs(TINY, MACHINE, request).points
    assert points[0].seconds_to_first == points[1].seconds_to_first
    assert points[0].seconds_to_first > points[0].seconds
    assert token_costs(TINY, MACHINE, TokenRequest((1,), (128,), first=False)).points[0].seconds_to_first is None


def test_on_an_architecture_each_kind_of_layer_is_mapped_once_and_its_instances_are_summed():
    arch = einmap.load("tpu_v4i")
    request = TokenRequest((4,), (16,), first=False, fuse=False, widths={"activation_bits": 8, "cache_bits": 8})
    costs = token_costs(TINY, arch, request)
    model = from_huggingface(TINY, batch=4, context=16, activation_bits=8, cache_bits=8)
    results = [
        (
            part.instances,
            map_workload(arch.set("workload", part.spec.to_dict()["workload"]), metrics="latency", fuse=False),
        )
        for part in model.parts
    ]
    assert [times for times, _ in results] == [1, 3, 1]
    point = costs.points[0]
    assert point.seconds == pytest.approx(math.fsum(times * result.cost.latency for times, result in results))
    assert point.energy == pytest.approx(math.fsum(times * result.cost.energy for times, result in results) / 4)
    assert point.held.memory == math.inf
    assert point.most_sequences is None
    assert point.limited_by in {"MainMemory", "GlobalBuffer", "MAC", "ScalarUnit"}


def test_searches_on_an_architecture_tell_which_part_of_which_step_they_are_of():
    told = []
    progress = Progress(lambda report: told.append(report.what))
    request = TokenRequest((2,), (1024,), fuse=False)
    token_costs(TINY, einmap.load("simple"), request, progress=progress)
    steps = {what.partition(":")[0] for what in told}
    assert {"layer, batch 2 after 1,024", "layer, prompt of 1,024", "head, batch 2 after 1,024"} <= steps


SLOW = pytest.mark.slow


@pytest.mark.parametrize(
    ("kind", "context"),
    [("llama4", 4), pytest.param("qwen3_next", 4, marks=SLOW), pytest.param("deepseek_v32", 8, marks=SLOW)],
)
def test_chunks_chosen_positions_and_states_are_mapped(kind, context):
    request = TokenRequest((1,), (context,), fuse=False)
    (point,) = token_costs(SMALL[kind], einmap.load("simple"), request).points
    assert point.proven
    assert point.seconds_to_first > point.seconds


def test_a_machine_that_does_not_fit_is_refused():
    with pytest.raises(SpecError, match="neither a cluster nor an architecture"):
        token_costs(TINY, einmap.load("matmul"))
    with pytest.raises(SpecError, match="an architecture is one device"):
        token_costs(TINY, einmap.load("tpu_v4i"), TokenRequest(devices=2))
    with pytest.raises(SpecError, match="is an encoder"):
        token_costs(PUBLISHED["bert-base-uncased"][0], MACHINE)
    with pytest.raises(SpecError, match="batch: expected a whole number"):
        token_costs(TINY, MACHINE, TokenRequest((0,)))
    with pytest.raises(SpecError, match=r"^context: expected a whole number from 1 .*, found 0"):
        token_costs(TINY, MACHINE, TokenRequest((1,), (0,)))
    with pytest.raises(SpecError, match=r"^answer: expected a whole number from 1 .*, found -1"):
        token_costs(TINY, MACHINE, TokenRequest((1,), answer=-1))
    with pytest.raises(SpecError, match="have an architecture"):
        token_costs(TINY, einmap.load("tpu_v4i_pod"))


def test_collectives_are_there_for_several_devices_alone():
    model = from_huggingface(TINY)
    exchanges = [
        [isinstance(o, Collective) for p in operators_of(model, ServingPlan(tp=n)) for o in p.operators].count(True)
        for n in (1, 2)
    ]
    assert exchanges == [0, 3]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("prompt", [0, 700])
def test_a_step_takes_what_the_operators_of_the_measured_models_take(name, prompt):
    """The benchmark that is held against measured times has operators of its own."""
    for bits, devices in ((16, 1), (8, 4)):
        widths = {"weight_bits": bits, "activation_bits": bits}
        model = from_huggingface(PUBLISHED[name][0], batch=24, context=2999, **widths)
        cluster = cluster_named(CLUSTERS["h100_sxm"])
        found = planned(model, cluster, ServingPlan(tp=devices), Prompt(prompt) if prompt else None).seconds
        load = Load(24, 3000, 1 if prompt else 0, prompt)
        expected = step_seconds(cluster, Served(MODELS[name], devices, bits, 16).operators(load))
        assert found == pytest.approx(expected, rel=0.01)


def test_prompts_of_others_come_between_the_tokens_of_a_request():
    request = TokenRequest((1, 9), (128,), answer=32)
    alone, among = token_costs(TINY, MACHINE, request).points
    assert alone.served == alone.seconds
    cluster = einmap.facade.cluster_in(MACHINE)
    model = from_huggingface(TINY, batch=9, context=128 + 16)
    with_prompt = planned(model, cluster, ServingPlan(), Prompt(128)).seconds
    # 8 others bring one prompt each in 32 steps
    assert among.served == pytest.approx(among.seconds * 24 / 32 + with_prompt * 8 / 32)
    assert among.user_rate == pytest.approx(1 / among.served)
