"""Values of imported functions equal JAX's, gradients, convolutions, calls and scans among them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import PartitionSpec as P

import einmap
from einmap.errors import SpecError


def numbers(*shape, seed=0):
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def values_by_name(function, arguments):
    """Values as `run` takes them: by the names of the parameters, and paths within."""
    import inspect

    names = list(inspect.signature(function).parameters)
    return {
        f"{name}{jax.tree_util.keystr(path)}": value
        for name, argument in zip(names, arguments, strict=True)
        for path, value in jax.tree_util.tree_flatten_with_path(argument)[0]
    }


def check(function, *arguments, tolerance=2e-5):
    """Import a function, and compare all its outputs with JAX's."""
    result = einmap.from_jax(function, *arguments)
    found = result.run(values_by_name(function, arguments))
    expected = {
        f"out{jax.tree_util.keystr(path)}": value
        for path, value in jax.tree_util.tree_flatten_with_path(jax.jit(function)(*arguments))[0]
    }
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=tolerance, atol=tolerance)
    return result


def perceptron(params, x):
    h = jax.nn.gelu(x @ params["w"] + params["b"])
    return jax.nn.softmax(h @ params["v"], axis=-1)


PARAMS = {"w": numbers(4, 8), "b": numbers(8), "v": numbers(8, 3)}


def attention(x, w):
    b, s, d = x.shape
    q, k, v = jnp.split((x @ w).reshape(b, s, 3, 2, d // 2), 3, axis=2)
    scores = jnp.einsum("bqihd,bkihd->bhqk", q, k) / jnp.sqrt(d / 2)
    scores = jnp.where(jnp.tril(jnp.ones((s, s), bool)), scores, -jnp.inf)
    return jnp.einsum("bhqk,bkihd->bqhd", jax.nn.softmax(scores), v).reshape(b, s, d)


def rotary(x, cos, sin):
    half = x.shape[-1] // 2
    return x * cos + jnp.concatenate([-x[..., half:], x[..., :half]], axis=-1) * sin


def norm(x, g):
    return x * lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5) * g


def conv(x, k):
    dims = ("NHWC", "HWIO", "NHWC")
    y = lax.conv_general_dilated(x, k, (2, 1), [(1, 2), (0, 1)], rhs_dilation=(1, 2), dimension_numbers=dims)
    return jax.nn.relu(y)


def pooled(x):
    window = {"window_dimensions": (1, 2, 3, 1), "window_strides": (1, 2, 1, 1)}
    largest = lax.reduce_window(x, -jnp.inf, lax.max, padding="SAME", **window)
    return largest + lax.reduce_window(x, 0.0, lax.add, padding="SAME", **window)


def recurrent(x, w, h):
    def step(h, row):
        h = jnp.tanh(row @ w + h)
        return h, h * 2

    return lax.scan(step, h, x)


def shapes(x):
    turned = jnp.flip(x, axis=1)[::2, 1:]
    wide = jnp.pad(turned, ((1, 0), (0, 2)))
    return {"a": wide.T.reshape(-1), "b": jnp.concatenate([x, 2 * x[:1]]), "c": jnp.where(x > 0, x, x**3).sum(0)}


def rounded(x):
    y = 3 * x
    return jnp.clip(jnp.round(y), -2, 2) + jnp.floor(y) * jnp.sign(x) + (y.astype(jnp.int32)).astype(jnp.float32)


CASES = {
    "rows taken apart": (
        lambda x: sum(row * i for i, row in enumerate(x)) + jnp.unstack(x, axis=1)[2][0],
        numbers(3, 4),
    ),
    "perceptron": (perceptron, PARAMS, numbers(5, 4)),
    "attention": (attention, numbers(2, 5, 8), numbers(8, 24)),
    "rotary embedding": (rotary, numbers(3, 8), numbers(3, 8, seed=1), numbers(3, 8, seed=2)),
    "norm": (norm, numbers(3, 8), numbers(8)),
    "conv": (conv, numbers(2, 7, 6, 3), numbers(3, 2, 3, 4)),
    "pooling": (pooled, numbers(1, 5, 6, 2)),
    "scan": (recurrent, numbers(4, 3), numbers(3, 3), numbers(3)),
    "shapes": (shapes, numbers(4, 5)),
    "rounding": (rounded, numbers(4, 5)),
    "erf": (lambda x: jax.nn.gelu(x, approximate=False) + jax.scipy.special.erfc(x), numbers(4, 5)),
    "logarithms": (
        lambda x: jax.nn.softplus(x) + jnp.log1p(jnp.expm1(jnp.abs(x))) + jax.nn.logsumexp(x),
        numbers(4, 5),
    ),
    "checkpoint": (jax.checkpoint(lambda x: jnp.sin(x) @ x), numbers(4, 4)),
    "stack": (lambda x, y: jnp.stack([jnp.tanh(x), y, x], axis=1) @ y.T, numbers(3, 4), numbers(3, 4, seed=1)),
    "what has no values": (
        lambda x, y: jnp.concatenate([x[:0] * x.sum(), 2 * x, y]) + x[3:].sum() + x[:, :0] @ x[:0],
        numbers(3, 3),
        numbers(0, 3),
    ),
    "constants beside what is computed": (lambda x: (2 * x, jnp.ones(3), x[:0]), numbers(3, 2)),
    "sums, products and maxima along an axis": (
        lambda x: jnp.cumsum(x, 1) + lax.cumsum(x, 0, reverse=True) + jnp.cumprod(x, 0) + lax.cummax(x, 1),
        numbers(3, 4),
    ),
    "minima and sums of exponentials along an axis": (
        lambda x, y: (lax.cummin(x, 1), lax.cumlogsumexp(100 * x, 1), lax.cumlogsumexp(y, reverse=True)),
        numbers(3, 4),
        np.array([-np.inf, 0, -np.inf, -np.inf], np.float32),
    ),
    "gradient of sums of exponentials": (jax.grad(lambda x: (lax.cumlogsumexp(x) ** 2).sum()), numbers(4)),
    "gradient of sums along an axis": (jax.grad(lambda x: (jnp.cumsum(x, 1) ** 2).sum()), numbers(2, 3)),
    "values that are taken one by one": (
        lambda x, i: jnp.take_along_axis(x, i, axis=1) * jnp.take_along_axis(x, i[:, :1], axis=-1),
        numbers(3, 4),
        np.array([[0, 3], [2, 2], [1, 0]]),
    ),
    "points, and rows in batches": (
        lambda x, i, j: x[i, :, j].sum(1) + jax.vmap(lambda t, n: t[:, n])(x, i).sum(1),
        numbers(3, 4, 5),
        np.array([0, 2, 1]),
        np.array([4, 1, 1]),
    ),
    "slices at places that are computed": (
        lambda x, n: lax.dynamic_slice(x, (n, 2 * n), (2, 6)) + x[n] + lax.dynamic_slice_in_dim(x, 7 * n, 2),
        numbers(4, 6),
        np.int32(1),
    ),
    "integers that are divided": (lambda x: (x // 3, x % 3, lax.div(x, -4), lax.rem(x, 3)), np.arange(-5, 6)),
    "branches that are known": (
        lambda x: lax.switch(2, [jnp.sin, jnp.cos, jnp.sinh], x) + lax.cond(x.ndim > 1, jnp.cosh, jnp.tan, x),
        numbers(2, 3),
    ),
    "tiles, diagonals and borders of other numbers": (
        lambda x: jnp.tile(2 * x, (2, 3)).sum(0)[:5] * jnp.pad(jnp.diag(x), 1, constant_values=2.0),
        numbers(3, 3),
    ),
    "vmap": (jax.vmap(lambda x: jnp.outer(x, x) @ x), numbers(3, 4)),
}


@pytest.mark.parametrize("case", CASES)
def test_values_equal_those_of_jax(case):
    function, *arguments = CASES[case]
    check(function, *arguments)


def loss(params, x):
    return -jnp.log(perceptron(params, x)[:, 0]).mean()


def conv_loss(x, k):
    y = lax.conv_general_dilated(x, k, (2, 2), "SAME", feature_group_count=2)
    return (y**2).sum()


def gradients_of_perceptron(params, x):
    return jax.value_and_grad(loss)(params, x)


def gradients_of_conv(x, k):
    return jax.grad(conv_loss, argnums=(0, 1))(x, k)


def gradients_of_scan(x, w, h):
    return jax.grad(lambda w: recurrent(x, w, h)[1].sum())(w)


def pooled_by(kind, window, strides, padding):
    """The gradient of pooling, of equal numbers, too: the first one of a window gets it."""
    start, function = (-jnp.inf, lax.max) if kind == "max" else (jnp.inf, lax.min)

    def gradient(x):
        return jax.grad(lambda x: (lax.reduce_window(x, start, function, window, strides, padding) ** 2).sum())(x)

    return gradient


def along(function):
    """The derivative of a function along a direction."""
    return lambda x, direction: jax.jvp(function, (x,), (direction,))


def gradient_of_gelu(x):
    return jax.grad(lambda x: jax.nn.gelu(x, approximate=False).sum())(x)


GRADIENTS = {
    "max pooling": (pooled_by("max", (1, 2, 2), (1, 2, 2), "VALID"), np.round(2 * numbers(2, 6, 5))),
    "max pooling that overlaps": (pooled_by("max", (3, 2), (2, 1), "SAME"), np.round(3 * numbers(6, 5))),
    "min pooling": (pooled_by("min", (3,), (1,), "SAME"), numbers(7)),
    "pooling along a direction": (
        along(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (3, 2), (2, 1), "SAME", window_dilation=(1, 2))),
        np.round(3 * numbers(6, 5)),
        numbers(6, 5, seed=1),
    ),
    "second derivatives of pooling": (
        along(pooled_by("min", (2, 3), (1, 2), "SAME")),
        np.round(2 * numbers(5, 6)),
        numbers(5, 6, seed=1),
    ),
    "exact gelu": (gradient_of_gelu, 3 * numbers(40)),
    "polynomial": (
        lambda x, c: jax.grad(lambda x: lax.polynomial(x, [c, 2.0, x, 0.5]).sum())(x),
        numbers(4),
        numbers(4),
    ),
    "perceptron": (gradients_of_perceptron, PARAMS, numbers(5, 4)),
    "conv": (gradients_of_conv, numbers(2, 4, 6, 5), numbers(6, 2, 3, 3)),
    "scan": (gradients_of_scan, numbers(3, 2), numbers(2, 2), numbers(2)),
}


@pytest.mark.parametrize("case", GRADIENTS)
def test_gradients_are_imported_as_jax_makes_them(case):
    function, *arguments = GRADIENTS[case]
    check(function, *arguments, tolerance=1e-4)


def test_a_contraction_of_a_value_with_itself_has_its_products():
    assert check(lambda x: x @ x.T, numbers(5, 7)).n_multiply_accumulates == 5 * 5 * 7
    assert check(lambda x: jnp.vdot(x, x), numbers(7)).n_multiply_accumulates == 7


def test_rows_of_a_table_are_looked_up():
    def embed(table, ids, w):
        return table[ids] @ w

    ids = np.array([[1, 0, -1]], np.int32)
    result = check(embed, numbers(5, 4), ids, numbers(4, 2))
    assert result.spec.workload.tensor_shape("table") == {"V5": 5, "X4": 4}
    assert result.n_multiply_accumulates == 3 * 4 * 2


def test_rows_of_what_is_computed_are_looked_up_at_places_that_are():
    def chosen(x, w, scores):
        return jnp.take(jnp.tanh(x @ w), jnp.floor(scores).astype(int), axis=1)

    check(chosen, numbers(2, 3), numbers(3, 5), np.array([[0.5, 4.2], [2.9, -1.0]], np.float32))


def test_arguments_may_be_shapes_alone():
    x, w = jax.ShapeDtypeStruct((512, 4096), jnp.bfloat16), jax.ShapeDtypeStruct((4096, 1024), jnp.bfloat16)
    result = einmap.from_jax(lambda x, w: x @ w, x, w)
    assert result.n_multiply_accumulates == 512 * 4096 * 1024
    assert {a.bits_per_value for a in result.spec.workload.einsums[0].accesses} == {16}


def test_primitives_without_einsum_form_are_named_with_counts():
    def refused(x, i):
        return lax.lgamma(x * i) + lax.digamma(x) + lax.lgamma(x)

    with pytest.raises(SpecError) as error:
        einmap.from_jax(refused, numbers(8), 3)
    assert "digamma (1), lgamma (2)" in str(error.value)


def test_uses_without_einsum_form_say_why():
    with pytest.raises(SpecError, match="bit by bit"):
        einmap.from_jax(lambda x: x & 3, np.arange(4))
    with pytest.raises(SpecError, match=r"pad of JAX.*the shape \[0\] has no values"):
        einmap.from_jax(lambda x: lax.pad(x[:0], x[0], [(1, 1, 0)]), numbers(3))
    with pytest.raises(SpecError, match="its branch is known only when the function runs"):
        einmap.from_jax(lambda x: lax.cond(x[0] > 0, jnp.sin, jnp.cos, x), numbers(4))


def two_products(params, x):
    return jax.nn.relu(x @ params["w"]) @ params["v"]


def placed(placements, mesh=None):
    params = {"w": numbers(4, 8), "v": numbers(8, 6)}
    return einmap.from_jax(two_products, params, numbers(3, 4), mesh=mesh or {"x": 2, "y": 2}, placements=placements)


def test_partition_specs_are_placements_of_a_plan_that_runs():
    result = placed(({"w": P(None, "x"), "v": P("x", None)}, P(None)))
    assert result.spec.to_dict()["distribution"]["placements"] == {"params_w": {"N8": ["x"]}, "params_v": {"K8": ["x"]}}
    arrays = result.arrays({"params['w']": numbers(4, 8), "params['v']": numbers(8, 6), "x": numbers(3, 4)})
    run = einmap.engine_named("local").run(einmap.plan_of(result.spec), arrays)
    (out,) = run.outputs.values()
    expected = np.maximum(numbers(3, 4) @ numbers(4, 8), 0) @ numbers(8, 6)
    np.testing.assert_allclose(out, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("placements", "mesh", "said"),
    [
        ((P("z"), None), None, "the mesh has no axis 'z'"),
        ((None, P("x")), None, "cannot be split in 2"),
        ((None,), None, "placements of 1 arguments"),
        (({"w": P()}, None), None, "in the nest of the argument"),
        ((None, P(None, None, "x")), None, "has 2 axes, its PartitionSpec has 3"),
    ],
)
def test_placements_that_do_not_fit_are_refused(placements, mesh, said):
    with pytest.raises(SpecError, match=said):
        placed(placements, mesh)


def test_bits_are_those_of_each_type_on_either_side_of_a_conversion():
    def scores(input, weight, output):  # noqa: A002 (names of sets)
        hidden = jax.nn.relu(input.astype(jnp.bfloat16) @ weight.astype(jnp.bfloat16))
        return {"wide": hidden.astype(jnp.float32), "flag": hidden > 0, "ids": output.astype(jnp.int4)}

    shapes = [((4, 8), "float32"), ((8, 6), "float8_e4m3fn"), ((3,), "uint8")]
    found = einmap.from_jax(scores, *(jax.ShapeDtypeStruct(*shape) for shape in shapes))
    workload = found.spec.workload
    bits = {name: workload.tensor_bits(name) / workload.tensor_size(name) for name in workload.tensors}
    sources = {tensor.source: bits[tensor.name] for tensor in found.inputs.values()}
    results = {name: bits[view.tensor.name] for name, view in found.outputs.items()}
    assert sources == {"input": 32, "weight": 8, "output": 8}
    assert results == {"out['wide']": 32, "out['flag']": 8, "out['ids']": 4}
    others = bits.keys() - {v.tensor.name for v in found.outputs.values()} - found.inputs.keys()
    assert others
    assert {bits[name] for name in others} == {16}


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(("stride", "kernel"), [(2, 3), (3, 2), (4, 4)])
def test_gradients_of_a_convolution_have_its_products_and_none_with_zeros_between(padding, stride, kernel):
    def forward(x, w):
        return lax.conv_general_dilated(x, w, (stride, stride), padding)

    def to_input(x, w, g):
        return jax.vjp(lambda a: forward(a, w), x)[1](g)[0]

    def to_kernel(x, w, g):
        return jax.vjp(lambda a: forward(x, a), w)[1](g)[0]

    x, w = numbers(1, 2, 12, 12), numbers(3, 2, kernel, kernel, seed=1)
    g = numbers(*forward(x, w).shape, seed=2)
    products = g.size * 2 * kernel**2  # each output sums over 2 channels and the kernel
    assert einmap.from_jax(forward, x, w).n_multiply_accumulates == products
    assert check(to_kernel, x, w, g).n_multiply_accumulates == products
    # each block of inputs, as wide as a stride, is met by each place of the kernel, zeros around the outputs included
    assert check(to_input, x, w, g).n_multiply_accumulates == 2 * 3 * (12 // stride * kernel) ** 2


def test_a_transposed_convolution_and_its_gradients_have_a_product_for_each_input_and_place_of_the_kernel():
    def forward(x, w):
        return lax.conv_transpose(x, w, (4, 4), "SAME")

    x, w = numbers(1, 4, 4, 3), numbers(4, 4, 3, 2, seed=1)
    g = numbers(*forward(x, w).shape, seed=2)
    gradients = [
        forward,
        lambda x, w, g: jax.vjp(lambda a: forward(a, w), x)[1](g)[0],
        lambda x, w, g: jax.vjp(lambda a: forward(x, a), w)[1](g)[0],
    ]
    for function, arguments in zip(gradients, ((x, w), (x, w, g), (x, w, g)), strict=True):
        check(function, *arguments)
        assert einmap.from_jax(function, *arguments).n_multiply_accumulates == 4 * 4 * 3 * 4 * 4 * 2


@pytest.mark.parametrize("seed", range(12))
def test_convolutions_with_zeros_between_their_inputs(seed):
    spread, stride, dilation, kernel, low, high = np.random.default_rng(seed).integers(1, [4, 4, 4, 5, 5, 5])
    x, w = numbers(2, 3, 6, 4), numbers(2, 3, int(kernel), 2, seed=1)
    steps = {"lhs_dilation": (int(spread), 2), "rhs_dilation": (int(dilation), 1)}
    pads = [(int(low) - 2, int(high) + int(dilation * kernel)), (1, 0)]
    check(lambda x, w: x.sum() + lax.conv_general_dilated(x, w, (int(stride), 1), pads, **steps), x, w)


@pytest.mark.parametrize("batched", [False, True])
def test_groups_with_zeros_between_their_inputs(batched):
    """Of 3 phases along the second axis, two of 6 outputs sum 2 places of the kernel, and one sums 1."""
    groups = {"batch_group_count" if batched else "feature_group_count": 2}
    steps = {"lhs_dilation": (2, 3), "rhs_dilation": (3, 2), "window_strides": (2, 2), "padding": [(3, 2), (0, 4)]}
    x, w = numbers(*(4, 3, 4, 4) if batched else (2, 6, 4, 4)), numbers(4, 3, 2, 2, seed=1)
    check(lambda x, w: lax.conv_general_dilated(x, w, **steps, **groups), x, w)


def strided(x, w):
    return lax.conv_general_dilated(x, w, (2,), "SAME", dimension_numbers=("NCH", "OIH", "NCH"))


MAPPED = {
    "gradient to the input": (lambda w, g: jax.vjp(lambda x: strided(x, w), jnp.zeros((1, 1, 8)))[1](g)[0], (1, 1, 3)),
    "transposed": (
        lambda w, g: lax.conv_transpose(g, w, (2,), "SAME", dimension_numbers=("NCH", "OIH", "NCH")),
        (1, 1, 3),
    ),
    "transposed, its stride the kernel": (
        lambda w, g: lax.conv_transpose(g, w, (2,), "VALID", dimension_numbers=("NCH", "OIH", "NCH")),
        (1, 1, 4),
    ),
    "all dilations": (
        lambda w, g: lax.conv_general_dilated(g, w, (2,), [(3, 3)], lhs_dilation=(3,), rhs_dilation=(2,)),
        (1, 1, 3),
    ),
}


@pytest.mark.parametrize("case", MAPPED)
def test_convolutions_with_zeros_between_their_inputs_are_mapped(tmp_path, case):
    function, kernel = MAPPED[case]
    found = check(function, numbers(*kernel), numbers(1, 1, 4, seed=1))
    path = tmp_path / "workload.yaml"
    path.write_text(einmap.dump(found.spec))
    assert einmap.map_workload(einmap.load("simple", path), metrics="energy").optimal
