"""Ways to divide devices among which a model is served: costs worked out by hand, the best of all by brute force."""

import itertools
import math

import pytest
from tests.amounts import some
from tests.frontends.huggingface.configs import PUBLISHED
from tests.serving.test_tokens import MACHINE, TINY, layer_seconds

import einmap
from einmap import SpecError, from_huggingface
from einmap.distribute.operators import Product, Work
from einmap.distribute.training.cuts import every_cut
from einmap.serving.held import ends_held, layer_held
from einmap.serving.kernels import Collective, Prompt, operators_of, pairs_seen
from einmap.serving.on_cluster import WAITING, planned
from einmap.serving.plan import ServingPlan, fixed_of, plans_of
from einmap.serving.tokens import TokenRequest, token_costs

MIXED = {**TINY, "model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2}
LATENT = {
    "model_type": "deepseek_v2", "hidden_size": 32, "intermediate_size": 64, "moe_intermediate_size": 16,
    "num_attention_heads": 4, "num_key_value_heads": 4, "num_hidden_layers": 4, "vocab_size": 64, "kv_lora_rank": 16, "q_lora_rank": None,
    "qk_nope_head_dim": 8, "qk_rope_head_dim": 4, "v_head_dim": 8, "n_routed_experts": 4, "n_shared_experts": 1,
    "num_experts_per_tok": 2, "first_k_dense_replace": 1, "torch_dtype": "bfloat16",
}  # fmt: skip
CLUSTER = einmap.facade.cluster_in(MACHINE)
NODES = einmap.loads(
    """
cluster:
  pe: {peak: {bf16: 1e12}, memory: 420000, memory_bandwidth: 1e9, launch: 1e-7}
  axes:
    x: {bandwidth: 3e9, latency: 1e-7, topology: switch, size: 4}
    y: {bandwidth: 1e8, latency: 1e-6, topology: switch, size: 2}
"""
)


def part(step, name="layer"):
    return next(part for part in step.parts if part.name == name)


def test_replicas_have_a_part_of_the_sequences_each_and_exchange_nothing():
    five = planned(from_huggingface(TINY, batch=5, context=99), CLUSTER, ServingPlan(dp=2))
    three = planned(from_huggingface(TINY, batch=3, context=99), CLUSTER, ServingPlan())
    assert five.seconds == three.seconds
    assert five.collectives == 0
    assert five.held == three.held
    assert five.most_sequences == 2 * three.most_sequences


def test_divided_positions_are_attended_to_apart_and_brought_together():
    layer = part(planned(from_huggingface(TINY, batch=2, context=99), CLUSTER, ServingPlan(cp=2)))
    # all heads; the product behind attention and the feed-forward block are halved
    halves = layer_seconds(2, [(64, 128), (32, 64), (64, 128), (64, 64)], 2, 4, 64)
    elsewhere = 2 * 2 * 16 * 2 * 50 * 2e-9  # keys and values of 2 heads at 50 positions of 2 sequences
    parts = 2 * 4 * (16 * 2 + 8)  # 4 heads of 2 sequences, two numbers of 4 bytes with each
    joined = parts / 2 * 1e-9 + 2e-6 + (parts + 2 * 4 * 16 * 2 / 2) * 1e-9 + 1e-6
    sums = 2 * (2 * 128e-9 + 2 * 2e-6)
    assert layer.seconds == pytest.approx(halves - elsewhere + joined + sums)


def test_tokens_go_to_the_devices_of_their_experts_and_back():
    layer = part(planned(from_huggingface(MIXED, batch=8, context=99), CLUSTER, ServingPlan(ep=2)))
    # 4 sequences on each device: attention as on one, without its two products of a feed-forward block
    attention = layer_seconds(4, [(64, 128), (64, 64)], 2, 4, 0) - 3e-6
    router = 2 * (4 * 64 + 64 * 4 + 4 * 4) * 1e-9 + 1e-6
    rows = 2 * (2 * 4 * 2 * 64) * 1e-9 + 1e-6
    # each position goes to both devices: 4 x 2 x 64 values of 2 bytes, of which a half leaves
    sent = 2 * (512e-9 + 2e-6)
    # 16 choices of 4 experts: 2 experts with 4 rows each on a device
    experts = 2 * 2 * (4 * 64 + 64 * 256 + 4 * 256 + 4 * 128 + 128 * 64 + 4 * 64 + 3 * 4 * 128) * 1e-9 + 3e-6
    assert layer.seconds == pytest.approx(attention + router + rows + sent + experts)


def test_micro_batches_follow_one_another_through_the_stages():
    step = planned(from_huggingface(TINY, batch=3, context=99), CLUSTER, ServingPlan(pp=3))
    one = planned(from_huggingface(TINY, batch=1, context=99), CLUSTER, ServingPlan())
    assert step.stages == (1, 1, 1)
    sending, back = 128e-9 + 2e-6, 4e-9 + 2e-6
    through = one.seconds + 2 * sending + back
    longest = part(one).seconds + part(one, "head").seconds + sending
    assert step.through == pytest.approx(through)
    assert step.seconds == pytest.approx(max(through, 3 * longest))
    assert part(step, WAITING).seconds == pytest.approx(3 * longest - through)
    # a prompt alone waits for nobody, and does not go back to the first stage
    prompt = planned(from_huggingface(TINY, batch=1, tokens=64), CLUSTER, ServingPlan(pp=3))
    alone = planned(from_huggingface(TINY, batch=1, tokens=64), CLUSTER, ServingPlan())
    assert prompt.seconds == pytest.approx(alone.seconds + 2 * (64 * 128e-9 + 2e-6))


def test_ways_together_are_each_as_by_itself():
    """Two copies of two stages, each of two devices: micro-batches of 2 of 8 sequences."""
    together = planned(from_huggingface(TINY, batch=8, context=99), CLUSTER, ServingPlan(dp=2, tp=2, pp=2))
    alone = planned(from_huggingface(TINY, batch=2, context=99), CLUSTER, ServingPlan(tp=2))
    assert together.parts[:3] == alone.parts
    assert together.stages in ((1, 2), (2, 1))
    mixed = planned(from_huggingface(MIXED, batch=8, context=99), CLUSTER, ServingPlan(ep=2, pp=2))
    halves = planned(from_huggingface(MIXED, batch=4, context=99), CLUSTER, ServingPlan(ep=2))
    assert mixed.parts[:3] == halves.parts


@pytest.mark.parametrize("name", PUBLISHED)
def test_one_device_holds_all_weights_and_devices_together_no_fewer(name):
    if "bert" in name:
        return
    model = from_huggingface(PUBLISHED[name][0], batch=6, context=512)
    for plan in (ServingPlan(), ServingPlan(tp=4), ServingPlan(cp=2), ServingPlan(dp=2), ServingPlan(tp=2, ep=2)):
        weights, cache = (
            sum(held[place] * model.layers[layer] for layer, held in layer_held(model, plan).items())
            for place in (0, 1)
        )
        weights += sum(ends_held(model, plan))
        together = plan.devices / plan.dp
        assert weights * together >= model.weight_bits / 8 * (1 - 1e-9)
        assert cache * plan.devices >= model.cache_bits / 8 * (1 - 1e-9)
        if plan in (ServingPlan(), ServingPlan(dp=2)):
            assert weights == pytest.approx(model.weight_bits / 8)
            assert cache == pytest.approx(model.cache_bits / 8 / plan.dp)


def test_held_values_are_those_of_the_products_that_are_read():
    """Experts all busy, one device of several: what a step reads of weights is what the device holds."""
    from einmap.serving.kernels import operators_of

    for name in ("Llama-3.1-70B", "Qwen3-30B-A3B", "DeepSeek-V3", "mamba2-2.7b"):
        model = from_huggingface(PUBLISHED[name][0], batch=4096, context=256)
        for plan in (
            ServingPlan(tp=4),
            ServingPlan(tp=2, cp=4),
            ServingPlan(tp=2, ep=2 if "-A3B" in name or "DeepSeek" in name else 1),
        ):
            read = [
                sum(o.batch * o.n * o.k for o in part.operators if isinstance(o, Product))
                for part in operators_of(model, plan)
            ]
            for values, (held, _) in zip(read[1:-1], layer_held(model, plan).values(), strict=True):
                assert held * 8 / model.widths.weights == pytest.approx(values, rel=2e-3)


def test_stages_are_cut_so_that_the_longest_is_shortest_within_memory():
    model = from_huggingface(LATENT, batch=4, context=100)
    plan = ServingPlan(pp=2)
    step, one = (
        planned(model, CLUSTER, plan),
        planned(from_huggingface(LATENT, batch=2, context=100), CLUSTER, ServingPlan()),
    )
    dense, sparse = (part(one, name).seconds for name in ("layer_1", "layer_2"))
    ends = part(one, "embedding").seconds, part(one, "head").seconds
    layers = [dense + ends[0], sparse, sparse, sparse + ends[1]]
    longest = min(max(sum(layers[: cut[0]]), sum(layers[cut[0] :])) for cut in every_cut(4, 2))
    sending = part(step, "to the next stage").seconds
    shift = 2 * 32 * 2e-9 + 2e-6
    assert sending == pytest.approx(shift + 8e-9 + 2e-6)
    assert step.seconds == pytest.approx(max(one.seconds + sending, 2 * (longest + shift)))


@pytest.mark.parametrize(
    ("config", "answer"),
    some(2, [(TINY, None), (TINY, 8), (MIXED, 8), (MIXED, None), (LATENT, None), (LATENT, 8)], "distribute", each=True),
)
def test_no_other_plan_takes_less(config, answer):
    """All ways to divide 8 devices on two axes, one by one, each as a request of its own."""
    request = TokenRequest((1, 12), (40, 300), 8, first=False, answer=answer)
    found = token_costs(config, NODES, request)
    names = "data", "tensor", "context", "expert", "pipeline"
    tried, experts = [], 1 if config is TINY else 4
    for sizes in itertools.product((1, 2, 4, 8), repeat=5):
        try:
            fixed = dict(zip(names, sizes, strict=True))
            tried.append(token_costs(config, NODES, TokenRequest((1, 12), (40, 300), 8, fixed, False, answer)))
        except SpecError:
            assert math.prod(sizes) != 8 or sizes[3] > experts or sizes[4] > config["num_hidden_layers"]
    for place, point in enumerate(found.points):
        ours = [one.points[place] for one in tried]
        fitting = [one for one in ours if one.held.fits]
        assert point.held.fits == bool(fitting)
        if fitting:
            assert point.best.each_token == min(one.best.each_token for one in fitting)
            assert point.rate == max(one.rate for one in fitting)
        else:
            assert point.held.total == min(one.held.total for one in ours)
        kinds = {one.plan.kind for one in ours}
        assert {way.plan.kind for way in point.ways} == kinds


def test_memory_makes_a_dearer_plan_the_best_one():
    request = TokenRequest((64,), (300,), 8, first=False)
    best = token_costs(TINY, NODES.set("cluster.pe.memory", 10**9), request).points[0]
    less = min(way.held.total for way in best.ways)
    assert less < best.held.total
    second = token_costs(TINY, NODES.set("cluster.pe.memory", less), request).points[0]
    assert second.held.total <= less
    assert second.seconds > best.seconds
    assert best.plan.kind in [way.plan.kind for way in second.ways if not way.held.fits]


def test_a_prompt_beside_a_step_goes_through_all_stages():
    model = from_huggingface(TINY, batch=4, context=100)
    for plan in (ServingPlan(), ServingPlan(tp=2), ServingPlan(cp=2), ServingPlan(pp=3)):
        alone, among = (planned(model, CLUSTER, plan, prompt) for prompt in (None, Prompt(50)))
        assert among.through > alone.through


def test_less_of_a_prompt_is_computed_where_a_part_is_kept():
    whole, kept, nearly = (
        token_costs(TINY, MACHINE, TokenRequest((1,), (128,), kept=kept)).points[0] for kept in (0.0, 0.5, 0.999)
    )
    assert whole.seconds == kept.seconds
    assert whole.seconds_to_first > kept.seconds_to_first > nearly.seconds_to_first
    assert kept.seconds_to_first == pytest.approx(
        planned(from_huggingface(TINY, tokens=64, context=64), CLUSTER, ServingPlan()).seconds
    )
    # the last position at least is new
    assert nearly.seconds_to_first == pytest.approx(
        planned(from_huggingface(TINY, tokens=1, context=127), CLUSTER, ServingPlan()).seconds
    )
    served = [
        token_costs(TINY, MACHINE, TokenRequest((9,), (128,), answer=4, kept=k)).points[0].served for k in (0, 0.9)
    ]
    assert served[0] > served[1]


def test_notes_say_what_does_not_divide_and_how_many_devices_weights_need():
    notes = token_costs(TINY, MACHINE, TokenRequest((1,), (40,), 3, {"tensor": 3})).notes
    assert [str(note) for note in notes] == ["tensor 3 does not divide 4 heads: a device with 2 of them counts"]
    notes = token_costs(TINY, MACHINE, TokenRequest((1, 4), (40,), 4, {"data": 4})).notes
    assert [str(note) for note in notes] == ["data 4 at batch 1: 3 of the copies have nothing to do"]
    parameters = from_huggingface(TINY).n_parameters
    small = MACHINE.set("cluster.pe.memory", parameters // 2)
    (note,) = token_costs(TINY, small, TokenRequest((1,), (40,), first=False)).notes
    assert "not one sequence of 40 positions fits" in str(note)
    assert str(note).endswith("4 devices or more")
    assert token_costs(TINY, MACHINE, TokenRequest((1,), (40,), 2, {"tensor": 2})).notes == ()


def test_ways_are_fixed_by_words():
    assert fixed_of("tensor=4,data=2") == {"tp": (4,), "dp": (2,)}
    assert fixed_of("tp=4|8, pp=1") == {"tp": (4, 8), "pp": (1,)}
    made = from_huggingface(TINY).description
    assert [str(plan) for plan in plans_of(made, CLUSTER, 4, {"tensor": (2, 4), "context": 1})] == [
        "data 2 x tensor 2", "tensor 2 x pipeline 2", "tensor 4",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: fixed_of("tensr=4"), "'tensr' is not a way to divide devices\n  hint: did you mean 'tensor'"),
        (lambda: fixed_of("tensor"), "'tensor': expected a way to divide devices and how many"),
        (lambda: fixed_of("tensor=0"), "expected a way"),
        (lambda: fixed_of("tensor=2,tp=2"), "tensor is fixed twice"),
        (lambda: cost(8, {"expert": 2}), "expert 2: the model has no experts"),
        (lambda: cost(8, {"pipeline": 4}), "pipeline 4: the model has 3 layers"),
        (
            lambda: cost(8, {"tensor": 3}),
            "8 devices cannot be divided so: tensor 3\n  hint: all ways multiplied give 8",
        ),
        (lambda: cost(8, {"tensor": 2, "data": 2, "pipeline": 1, "context": 1}), "cannot be divided so"),
        (lambda: cost(8, {"tensor": "2"}), "tensor is '2'; expected a whole number"),
        (lambda: cost(16), ":3:3: the cluster has 8 devices, 16 are asked for"),
        (lambda: token_costs(TINY, MACHINE, TokenRequest(devices=5000)), "5,000 devices; at most 4,096"),
        (lambda: cost(0), "devices: expected a whole number from 1"),
        (lambda: token_costs(TINY, NODES, TokenRequest(kept=1.0)), "kept is 1; expected the part"),
    ],
)
def test_what_cannot_be_divided_so_is_refused(build, message):
    with pytest.raises(SpecError) as raised:
        build()
    assert message in str(raised.value)


def cost(devices, fixed=None):
    return token_costs(TINY, NODES, TokenRequest(devices=devices, fixed=fixed))


NEW = (
    "OLMo-2-7B", "granite-3.0-2b", "phi-2", "gpt-oss-20b", "Llama-4-Scout", "mamba-130m", "falcon-mamba-7b",
    "DeepSeek-V3.2", "Qwen3-Next-80B-A3B",
)  # fmt: skip


@pytest.mark.parametrize("name", NEW)
def test_products_of_a_token_read_each_active_weight_once(name):
    model = from_huggingface(PUBLISHED[name][0], context=64)
    products = [(p.instances, o) for p in operators_of(model) for o in p.operators if isinstance(o, Product)]
    read = sum(count * o.n * o.k * o.batch for count, o in products)
    embedding = model.parts[0].n_parameters if not model.description.tied else 0
    # norms, biases, convolutions and decays are no products
    assert read == pytest.approx(model.n_active_parameters - embedding, rel=0.008)


@pytest.mark.parametrize("name", NEW)
def test_devices_that_divide_a_model_hold_its_weights_once(name):
    model = from_huggingface(PUBLISHED[name][0], context=64)
    one, two = (
        sum(layer_held(model, plan)[layer][0] * count for layer, count in model.layers.items())
        for plan in (ServingPlan(), ServingPlan(tp=2))
    )
    assert one == pytest.approx(sum(p.instances * p.weight_bits for p in model.parts[1:-1]) / 8)
    # routers, steps and the rows of states are on both
    assert one / 2 <= two <= 0.53 * one


def test_experts_of_gpt_oss_are_read_in_4_bits_and_norms_over_all_heads_need_those_of_other_devices():
    config = {**PUBLISHED["gpt-oss-20b"][0], "quantization_config": {"quant_method": "mxfp4"}}
    wide, narrow = (token_costs(c, einmap.load("h100_node"), TokenRequest((1,), (64,), first=False)).points[0].seconds
                    for c in (PUBLISHED["gpt-oss-20b"][0], config))  # fmt: skip
    assert narrow < 0.7 * wide
    layer = operators_of(from_huggingface(PUBLISHED["OLMo-2-7B"][0]), ServingPlan(tp=2))[1]
    gathers = [o for o in layer.operators if isinstance(o, Collective) and o.kind == "all_gather"]
    assert [o.moved for o in gathers] == [2 * 4096 * 2]


@pytest.mark.parametrize(("window", "chunk"), [(None, None), (5, None), (None, 4), (1, None), (None, 1)])
def test_pairs_of_positions_are_those_that_masks_leave(window, chunk):
    for context, new in itertools.product((0, 1, 3, 4, 11), (1, 2, 4, 9)):
        seen = [
            sum(
                (window is None or key > query - window) and (chunk is None or key // chunk == query // chunk)
                for key in range(query + 1)
            )
            for query in range(context, context + new)
        ]
        assert pairs_seen(context if chunk is None else context % chunk, new, window, chunk) == sum(seen)


def test_a_prompt_over_chunks_takes_the_operations_of_each_chunk():
    config = PUBLISHED["Llama-4-Scout"][0]

    def operations(tokens):
        layers = operators_of(from_huggingface(config, tokens=tokens))[1:-1]
        return min(w.operations for o in layers[0].operators for w in getattr(o, "works", ()) if w.attends)

    assert operations(3 * 8192) == pytest.approx(3 * operations(8192))


def test_a_token_reads_the_rows_that_are_chosen_and_keys_of_all():
    old, new = (from_huggingface(PUBLISHED[name][0], context=131071) for name in ("DeepSeek-V3", "DeepSeek-V3.2"))

    def moved(model):
        return sum(o.moved for o in operators_of(model)[1].operators if isinstance(o, Work))

    rows, keys, scores = 131072 * 576 * 2, 131072 * 128 * 2 + 64 * 128 * 2, 131072 * 4
    assert moved(old) - moved(new) == rows * (1 - 1 / 64) - keys - scores
    held = [layer_held(model, ServingPlan()).values() for model in (old, new)]
    cache = [next(of_cache for _, of_cache in found) for found in held]
    assert cache[1] / cache[0] == pytest.approx((576 + 128) / 576)
