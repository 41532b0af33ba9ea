"""Products that are summed: convolutions and matrix products."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from einmap.errors import SpecError
from einmap.frontends.cascade.phases import Apart, convolved_apart
from einmap.frontends.cascade.scaled import contracted
from einmap.frontends.cascade.step import NotExpressible, expression_of
from einmap.frontends.cascade.uses import Use
from einmap.frontends.cascade.values import Value, reshape, transpose
from einmap.frontends.onnx.operators.call import Call
from einmap.frontends.onnx.operators.windows import slide_of
from einmap.visible import short

_OUT, _KERNEL = ("p", "q", "o"), ("r", "s", "t")


def conv(call: Call) -> list[Value]:
    """Conv with any groups, strides, dilations and padding, in one to three dimensions."""
    return [convolved(call, call.operand(0), call.operand(1), call.name, call.optional(2))]


def convolved(call: Call, x: Value, w: Value, name: str, bias: Value | None = None) -> Value:
    """A convolution, with a bias for each channel if there is one. Raises SpecError for bad shapes."""
    dims = _spatial(call, x, w)
    group = call.integer("group", 1)
    n, channels, *sizes = x.shape
    out_channels, per_group, *kernel = w.shape
    if group < 1 or channels != per_group * group or out_channels % group:
        text = f"{channels} channels do not fit a weight of shape {[*w.shape]} in {group} groups"
        raise SpecError(text, at=call.node.at)
    slide = slide_of(call, sizes, kernel)
    grouped = call.reshape(x, (n, group, per_group, *sizes))
    weights = call.reshape(w, (group, out_channels // group, per_group, *kernel))
    uses: list[Use] = ["n", "g", "c", *slide.uses(_OUT, _KERNEL)]
    sums = contracted(
        call,
        name if bias is None else f"{name}_sum",
        [(grouped, uses), (weights, ["g", "m", "c", *_KERNEL[:dims]])],
        ["n", "g", "m", *_OUT[:dims]],
        x.bits,
        extents=slide.extents(_OUT, _KERNEL),
        weight=1,
    )
    y = sums.value(call, _by_channel(call, bias, group, out_channels // group, dims))
    return reshape(y, (n, out_channels, *slide.out))


def _spatial(call: Call, x: Value, w: Value) -> int:
    dims = len(x.shape) - 2
    if dims < 1 or len(w.shape) != len(x.shape):
        text = f"shapes {[*x.shape]} and {[*w.shape]} are not those of a convolution"
        raise SpecError(text, at=call.node.at)
    kernel = call.integers("kernel_shape")
    if kernel is not None and kernel != [*w.shape[2:]]:
        text = f"the attribute kernel_shape says {short(kernel, 60)}, the weight has {[*w.shape[2:]]}"
        raise SpecError(text, at=call.node.at)
    if dims > len(_OUT):
        raise NotExpressible(f"it has {dims} spatial dimensions")
    return dims


def _by_channel(call: Call, bias: Value | None, group: int, per_group: int, dims: int) -> Value | None:
    """A bias, if there is one, with the axes of sums of a convolution: of groups, their channels, and the image."""
    if bias is None:
        return None
    if bias.shape != (group * per_group,):
        text = f"parameters of the shapes {[*bias.shape]} do not fit a value of {group * per_group} channels"
        raise SpecError(text, at=call.node.at)
    return call.reshape(bias, (group, per_group, *(1 for _ in range(dims))))


def with_bias(call: Call, y: Value, bias: Value | None) -> Value:
    """A value plus a bias for each channel, if there is one."""
    if bias is None:
        return y
    ones = (1,) * (len(y.shape) - 2)
    return call.onto("a + b", y, call.reshape(bias, (*bias.shape, *ones)))


def conv_transpose(call: Call) -> list[Value]:
    """ConvTranspose: every input spreads over a window of the output, which is cropped by the padding."""
    x, w = call.operand(0), call.operand(1)
    _spatial(call, x, w)
    group = call.integer("group", 1)
    n, channels, *sizes = x.shape
    _, out_per_group, *kernel = w.shape
    if group < 1 or channels % group or w.shape[0] != channels:
        raise SpecError(f"{channels} channels do not fit a weight of shape {[*w.shape]}", at=call.node.at)
    axes = _transposed_axes(call, sizes, kernel)
    grouped = call.reshape(x, (n, group, channels // group, *sizes))
    weights = call.reshape(w, (group, channels // group, out_per_group, *kernel))
    sums = convolved_apart(call, (grouped, "ngc"), (weights, "gcm"), axes, x.bits)
    y = sums.value(call, _by_channel(call, call.optional(2), group, out_per_group, len(axes)))
    return [reshape(y, (n, group * out_per_group, *y.shape[3:]))]


def _transposed_axes(call: Call, sizes: Sequence[int], kernel: Sequence[int]) -> list[Apart]:
    """Attributes of each axis. Raises SpecError for those that do not fit."""
    dims = len(sizes)
    strides = call.integers("strides") or [1] * dims
    dilations = call.integers("dilations") or [1] * dims
    pads = call.integers("pads") or [0] * 2 * dims
    extra = call.integers("output_padding") or [0] * dims
    if not (len(strides) == len(dilations) == len(extra) == len(kernel) == len(pads) // 2 == dims):
        raise SpecError("strides, dilations, pads and kernel do not fit together", at=call.node.at)
    if min(*strides, *dilations, *kernel) < 1 or min(*pads, *extra) < 0:
        raise SpecError("strides, dilations, kernel and pads must be positive", at=call.node.at)
    wanted = call.integers("output_shape")
    kind = call.text("auto_pad", "NOTSET")
    axes = []
    for i, size in enumerate(sizes):
        full = strides[i] * (size - 1) + dilations[i] * (kernel[i] - 1) + 1 + extra[i]
        if wanted or kind.startswith("SAME"):
            # to what a kernel below the stride gives SAME adds nothing, as ONNX Runtime and ONNX's inference have it
            total = full - (wanted[i - dims] if wanted else min(full, size * strides[i]))
            full += max(0, -total)  # what lies behind all windows is 0
            half = max(0, total) // 2
            total = max(0, total)
            pads[i], pads[dims + i] = (half, total - half) if kind == "SAME_UPPER" else (total - half, half)
        out = full - pads[i] - pads[dims + i]
        if out < 1:
            raise SpecError(f"the padding {pads} leaves nothing of an output of {full}", at=call.node.at)
        axes.append(Apart(size, kernel[i], out, spread=strides[i], stride=1, dilation=-dilations[i], low=-pads[i]))
    return axes


def matmul(call: Call) -> list[Value]:
    """MatMul, with batches that broadcast."""
    a, b = call.operand(0), call.operand(1)
    return [matrix_product(call, a, b)]


def matrix_product(call: Call, a: Value, b: Value, name: str | None = None, bias: Value | None = None) -> Value:
    """The matrix product of the last two axes, as NumPy's `matmul` has it, and a bias. SpecError where sizes differ."""
    if not a.shape or not b.shape:
        raise SpecError("a scalar has no matrix product", at=call.node.at)
    left = a if len(a.shape) > 1 else reshape(a, (1, *a.shape))
    right = b if len(b.shape) > 1 else reshape(b, (*b.shape, 1))
    if left.shape[-1] != right.shape[-2]:
        raise SpecError(f"shapes {[*a.shape]} and {[*b.shape]} have no matrix product", at=call.node.at)
    rank = max(len(left.shape), len(right.shape))
    batch = ["b", "h", "g", "i", "j", "u", "v", "w", "y", "z", "a", "d", "e", "f"][: rank - 2]
    first = [*batch[rank - len(left.shape) :], "m", "k"]
    second = [*batch[rank - len(right.shape) :], "k", "n"]
    _check_batches(call, left.shape[:-2], right.shape[:-2])
    product = contracted(
        call,
        name or call.name,
        [(left, first), (right, second)],
        [*batch, "m", "n"],
        max(a.bits, b.bits),
        weight=0 if is_weight(left) and not is_weight(right) else 1,
    ).value(call, bias)
    kept = [size for i, size in enumerate(product.shape) if not _is_added(i - rank, a, b)]
    return reshape(product, kept)


def _is_added(axis: int, a: Value, b: Value) -> bool:
    return (axis == -2 and len(a.shape) == 1) or (axis == -1 and len(b.shape) == 1)


def _check_batches(call: Call, left: Sequence[int], right: Sequence[int]) -> None:
    for x, y in zip(reversed(left), reversed(right), strict=False):
        if x != y and 1 not in (x, y):
            raise SpecError(f"batches {[*left]} and {[*right]} do not broadcast", at=call.node.at)


def is_weight(value: Value) -> bool:
    """Whether a value is a parameter of the model."""
    value = value if value.scaled is None else value.scaled.integers
    return value.is_view and value.leaves[0].tensor.weight


def gemm(call: Call) -> list[Value]:
    """Gemm: `alpha * A B + beta * C`, either factor transposed."""
    a, b, c = call.operand(0), call.operand(1), call.optional(2)
    if len(a.shape) != 2 or len(b.shape) != 2:
        raise SpecError(f"shapes {[*a.shape]} and {[*b.shape]} are not those of matrices", at=call.node.at)
    a = transpose(a, (1, 0)) if call.integer("transA", 0) else a
    b = transpose(b, (1, 0)) if call.integer("transB", 0) else b
    alpha, beta = call.number("alpha", 1.0), call.number("beta", 1.0)
    if alpha == beta == 1.0:
        return [matrix_product(call, a, b, call.name if c is None else f"{call.name}_sum", c)]
    is_last = alpha == 1.0 and (c is None or beta == 0.0)
    y = matrix_product(call, a, b, call.name if is_last else f"{call.name}_sum")
    if alpha != 1.0:
        y = call.pointwise(f"({alpha!r}) * a", y)
    if c is None or beta == 0.0:
        return [y]
    return [call.onto("a + b" if beta == 1.0 else f"a + ({beta!r}) * b", y, c)]


def einsum(call: Call) -> list[Value]:
    """Einsum: two operands at a time, from the first on, as runtimes contract them; what no later operand and not the
    result has is summed.
    """
    terms, out = _labelled(call)
    values = [call.operand(i) for i in range(len(terms))]
    if len(values) == 1:
        return [call.builder.einsum(call.name, [(values[0], terms[0])], out, expression_of("a", 1), values[0].bits)]
    left, labels = values[0], terms[0]
    for i in range(1, len(values)):
        is_last = i == len(values) - 1
        later = {label for term in [out, *terms[i + 1 :]] for label in term}
        kept = out if is_last else [v for v in dict.fromkeys([*labels, *terms[i]]) if v in later]
        left = contracted(
            call,
            call.name if is_last else f"{call.name}_{i}",
            [(left, labels), (values[i], terms[i])],
            kept,
            max(left.bits, values[i].bits),
            weight=0 if is_weight(left) and not is_weight(values[i]) else 1,
        ).value(call)
        labels = kept
    return [left]


def _labelled(call: Call) -> tuple[list[list[str]], list[str]]:
    """The labels of the axes of each operand, and of the result. Raises SpecError where they do not fit."""
    equation = call.text("equation", "").replace(" ", "")
    left, arrow, right = equation.partition("->")
    texts = left.split(",")
    letters = left.replace("...", "").replace(",", "") + right.replace("...", "")
    if len(texts) != len(call) or not all(c.isalpha() for c in letters):
        raise SpecError(f"the equation {equation[:80]!r} does not fit {len(call)} operands", at=call.node.at)
    if any(text.count("...") > 1 for text in (*texts, right)):
        raise SpecError(f"the equation {equation[:80]!r} has two ellipses at one operand", at=call.node.at)
    if not arrow:
        once = sorted({c for c in letters if letters.count(c) == 1})
        right = ("..." if "..." in left else "") + "".join(once)
    names = {c: c.lower() if c.islower() or c.lower() not in letters else f"{c.lower()}_" for c in letters}
    sizes: dict[str, int] = {}
    terms = []
    for place, text in enumerate(texts):
        shape = call.operand(place).shape
        n_more = len(shape) - len(text.replace("...", ""))
        if n_more < 0 or (n_more and "..." not in text):
            raise SpecError(f"{text!r} does not fit the shape {[*shape]}", at=call.node.at)
        before, _, behind = text.partition("...")
        # what an ellipsis stands for is counted from its end, where shapes broadcast
        term = [*(names[c] for c in before), *(f"x{n}" for n in range(n_more, 0, -1)), *(names[c] for c in behind)]
        for label, size in zip(term, shape, strict=True):
            known = sizes.setdefault(label, size)
            if 1 not in (known, size) and known != size:
                raise SpecError(f"{label!r} has {known} and {size} values", at=call.node.at)
            sizes[label] = max(known, size)
        terms.append(term)
    more = sorted((label for label in sizes if label.startswith("x") and len(label) > 1), key=lambda v: -int(v[1:]))
    before, dots, behind = right.partition("...")
    if not {*before, *behind} <= set(names) or len({*before, *behind}) < len(before + behind):
        raise SpecError(f"the result {right!r} has letters that no operand has, or one twice", at=call.node.at)
    return terms, [*(names[c] for c in before), *(more if dots else ()), *(names[c] for c in behind)]


CONTRACTIONS: dict[str, Callable[[Call], list[Value]]] = {
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "MatMul": matmul,
    "Gemm": gemm,
    "Einsum": einsum,
}
"""By the name of the operator."""
