import numpy as np
import pytest
from tests.einsum.cascades_to_partition import without_texts

from einmap import Spec, SpecError, dump, load, loads
from einmap.einsum.numeric import run, shapes
from einmap.einsum.rewrites.steps import Delay, SoftmaxBlocks, parse_step, partition
from einmap.errors import NotSupportedError

GROUPS = "h, g, "


def attention(rng, *, form="safe", mask=False, scale="", groups=GROUPS, sizes=None):
    """Attention of grouped heads as a workload: `form` safe, plain, or quotients before the product."""
    sizes = sizes or {v: int(rng.integers(1, 5)) for v in "HGMEF"} | {"P": int(rng.integers(2, 40))}
    scores, kept = "QM" if mask else "QK", groups.replace("g, ", "")
    exp = f"{scores}[{groups}m, p]" + ("" if form == "plain" else f" - GM[{groups}m]")
    einsums = [f"QK[{groups}m, p] = Q[{groups}m, e] * K[{kept}p, e]"]
    if mask:
        einsums.append(f"QM[{groups}m, p] = QK[{groups}m, p] + Mask[m, p]")
    if form != "plain":
        einsums.append({"einsum": f"GM[{groups}m] = {scores}[{groups}m, p]", "reduction": "max"})
    einsums += [f"SN[{groups}m, p] = exp({f'{scale}({exp})' if scale else exp})", f"SD[{groups}m] = SN[{groups}m, p]"]
    if form == "quotients":
        einsums += [
            f"A[{groups}m, p] = SN[{groups}m, p] / SD[{groups}m]",
            f"AV[{groups}m, f] = A[{groups}m, p] * V[{kept}p, f]",
        ]
    else:
        einsums += [
            f"AN[{groups}m, f] = SN[{groups}m, p] * V[{kept}p, f]",
            f"AV[{groups}m, f] = AN[{groups}m, f] / SD[{groups}m]",
        ]
    used = {rank: size for rank, size in sizes.items() if rank not in "HG" or rank.lower() in groups}
    return Spec.from_dict(workload={"rank_sizes": used, "bits_per_value": {"All": 8}, "einsums": einsums})


def softmax_of(inputs, scale=1.0):
    """NumPy's own attention, from the definition, with every axis of queries in front."""
    scores = np.einsum("hgme,hpe->hgmp", inputs["Q"], inputs["K"])
    scores = scores + inputs.get("Mask", 0.0)
    weights = np.exp(scale * (scores - scores.max(-1, keepdims=True)))
    return np.einsum("hgmp,hpf->hgmf", weights / weights.sum(-1, keepdims=True), inputs["V"])


def values(spec, rng, spread=3.0, masked=-np.inf):
    """Graph inputs; a mask leaves the first keys out more often, and never the last one."""
    inputs = {}
    for tensor, shape in shapes(spec.workload).items():
        if tensor not in spec.workload.producers:
            inputs[tensor] = rng.normal(0, spread, shape)
    if "Mask" in inputs:
        out = rng.random(inputs["Mask"].shape) < np.linspace(1.2, 0.0, inputs["Mask"].shape[1])
        inputs["Mask"] = np.where(out, masked, 0.0)
    return inputs


@pytest.mark.parametrize("online", [True, False])
@pytest.mark.parametrize("form", ["safe", "plain", "quotients"])
@pytest.mark.parametrize("mask", [False, True])
def test_blocks_of_keys_give_the_softmax(form, mask, online):
    rng = np.random.default_rng([online, mask, len(form)])
    for _ in range(12):
        scale = rng.choice(["", "0.25 * "])
        spec = attention(rng, form=form, mask=mask, scale=scale)
        keys = spec.workload.rank_sizes["P"]["K"]
        done = partition(spec.workload, [SoftmaxBlocks(("P",), int(rng.integers(1, keys + 1)), online)])
        inputs = values(spec, rng, masked=-1e9 if not online else -np.inf)
        # blocks of which every key is left out have a largest score of -inf, which the first pass over them cannot use
        with np.errstate(all="raise", under="ignore"):
            outputs = done.recover_outputs(run(done.workload, done.place_inputs(inputs)))
        right = softmax_of(inputs, 0.25 if scale else 1.0)
        np.testing.assert_allclose(outputs["AV"], right, rtol=1e-12, atol=1e-12 * np.abs(right).max())


def test_scores_far_below_zero_and_above_it_are_right():
    """The running maximum begins with nothing, not with the 0 that a state begins with."""
    rng = np.random.default_rng(3)
    spec = attention(rng, sizes={"H": 2, "G": 2, "M": 3, "E": 1, "F": 2, "P": 12})
    inputs = values(spec, rng) | {"Q": np.ones((2, 2, 3, 1))}
    for offset in (-1e5, 1e5):
        far = inputs | {"K": inputs["K"] + offset}
        for online in (True, False):
            done = partition(spec.workload, [SoftmaxBlocks(("P",), 4, online)])
            got = run(done.workload, done.place_inputs(far))["AV"]
            np.testing.assert_allclose(got, softmax_of(far), rtol=1e-12)


def test_outputs_of_the_original_are_recovered_but_for_numerators():
    spec = load("attention_core")
    inputs = values(spec, np.random.default_rng(0), 1.0)
    right = run(spec.workload, inputs)
    for online in (True, False):
        done = partition(spec.workload, [SoftmaxBlocks(("P",), 24, online)])
        outputs = done.recover_outputs(run(done.workload, done.place_inputs(inputs)))
        assert set(outputs) == {"QK", "GM", "SD", "AN", "AV"}
        for tensor, got in outputs.items():
            np.testing.assert_allclose(got, right[tensor], rtol=1e-12, atol=1e-12)


def test_self_attention_with_projections_keeps_them_before_the_loop():
    spec = load("attention", define={"N_TOKENS": 24})
    done = partition(spec.workload, [SoftmaxBlocks(("M",), 8)])
    (recurrence,) = done.workload.recurrences
    names = list(done.workload.einsum_names)
    assert names.index("V") < names.index("GM_before") < names.index("QK")
    assert recurrence.einsums[:3] == ("GM_before", "QK", "GM_block")
    assert set(recurrence.states) == {"GM", "SD", "AV_sum"}
    rng = np.random.default_rng(1)
    inputs = {t: rng.normal(0, 0.3, s) for t, s in shapes(spec.workload).items() if t not in spec.workload.producers}
    got = done.recover_outputs(run(done.workload, done.place_inputs(inputs)))
    np.testing.assert_allclose(got["Z"], run(spec.workload, inputs)["Z"], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("online", [True, False])
def test_the_cascade_is_a_specification(online):
    spec = load("attention_core")
    done = partition(spec.workload, [SoftmaxBlocks(("P",), 16, online)])
    written = spec.with_workload(done.workload)
    assert without_texts(loads(dump(written)).workload) == without_texts(done.workload)


@pytest.mark.parametrize("online", [True, False])
@pytest.mark.parametrize(
    ("cuts", "seen"),
    [
        (["p <= m"], lambda m, p: p <= m),
        # positions that are cached, and a window: early blocks are empty for late queries
        (["p <= m + 5"], lambda m, p: p <= m + 5),
        (["p <= m", "p > m - 6"], lambda m, p: (p <= m) & (p > m - 6)),
    ],
)
@pytest.mark.parametrize("spread", [1.0, 40.0])
def test_blocks_that_bounds_leave_empty_are_passed_over(cuts, seen, spread, online):
    sizes = {"M": 24, "P": 24, "E": 3, "F": 2}
    einsums = attention(np.random.default_rng(0), groups="", sizes=sizes).to_dict()["workload"]["einsums"]
    texts = [{"einsum": e, "iteration_space_shape": cuts} if isinstance(e, str) else {**e, "iteration_space_shape": cuts}
             for e in einsums[:-1]]  # fmt: skip
    workload = {"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": [*texts, einsums[-1]]}
    spec = Spec.from_dict(workload=workload)
    done = partition(spec.workload, [SoftmaxBlocks(("P",), 8, online=online)])
    rng = np.random.default_rng(0)
    inputs = values(spec, rng, spread)
    # scores far below zero: a block without a key must not count as one of score 0
    inputs["Q"], inputs["K"] = np.abs(inputs["Q"]), -np.abs(inputs["K"])
    m, p = np.ogrid[:24, :24]
    scores = np.where(seen(m, p), inputs["Q"] @ inputs["K"].T, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    expected = weights / weights.sum(-1, keepdims=True) @ inputs["V"]
    got = done.recover_outputs(run(done.workload, done.place_inputs(inputs)))["AV"]
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-12 * spread)
    # nothing is computed of keys that are not seen
    pairs = int(seen(m, p).sum())
    assert {name: done.workload.by_name[name].n_points for name in ("QK", "SN")} == {"QK": 3 * pairs, "SN": pairs}


def changed(einsum, at):
    """attention_core with another Einsum in one place, or with one more at the end."""
    einsums = [
        "QK[m, p] = Q[m, e] * K[p, e]", {"einsum": "GM[m] = QK[m, p]", "reduction": "max"},
        "SN[m, p] = exp(QK[m, p] - GM[m])", "SD[m] = SN[m, p]", "AN[m, f] = SN[m, p] * V[p, f]",
        "AV[m, f] = AN[m, f] / SD[m]",
    ]  # fmt: skip
    einsums[at : at + 1] = [einsum]
    sizes = {"M": 4, "P": 8, "E": 2, "F": 2}
    return Spec.from_dict(workload={"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": einsums}).workload


@pytest.mark.parametrize(
    ("einsum", "at", "lacks"),
    [
        ("X[m, p] = SN[m, p] * 2", 6, "'SN' is to be read by its sum over P and one more Einsum, found SD, AN, X"),
        ("X[m] = GM[m] * 2", 6, "'GM' is read by others than 'SN'"),
        ("X[m] = SD[m] * 2", 6, "'SD' is to be read by one division, found AV, X"),
        ("X[m, f] = AN[m, f] * 2", 6, "'AN' is not divided by 'SD' alone"),
        ("GM[m] = QK[m, p]", 1, "'GM' is not the maximum of 'QK' over P"),
        ("AN[m, f] = SN[m, p] + V[p, f]", 4, "'AN' is not a sum over P alone of a product"),
        ("SN[m, p] = tanh(QK[m, p] - GM[m])", 2, "no Einsum is the exp of scores"),
        ("SN[m, p] = exp(GM[m] - QK[m, p])", 2, "not the maximum|no Einsum|is not indexed|'QK'"),
        ("SN[m, p] = exp(-2 * (QK[m, p] - GM[m]))", 2, "no Einsum is the exp of scores"),
    ],
)
def test_what_is_not_a_softmax_is_refused_with_what_lacks(einsum, at, lacks):
    with pytest.raises(SpecError, match="there is no softmax over rank P with a product behind: .*" + lacks):
        partition(changed(einsum, at), [SoftmaxBlocks(("P",), 4)])


def test_nothing_is_partitioned_behind_an_online_softmax():
    with pytest.raises(NotSupportedError, match="partitioning does not know recurrences"):
        partition(load("attention_core").workload, [SoftmaxBlocks(("P",), 16), Delay("E")])


def test_steps_are_read():
    assert parse_step("online_softmax", "P = 512") == SoftmaxBlocks(("P",), 512)
    assert str(parse_step("split_softmax", "P,M=16")) == "split_softmax P,M=16"
    for text in ("P", "P=", "P=4,2", "P/4"):
        with pytest.raises(SpecError, match="write RANK=KEYS"):
            parse_step("online_softmax", text)
