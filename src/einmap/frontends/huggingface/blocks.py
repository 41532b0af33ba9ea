"""Norms, linear layers, feed-forward layers and experts as Einsums."""

from __future__ import annotations

from collections.abc import Sequence

from einmap.frontends.huggingface.description import Experts, FeedForward, Norm
from einmap.frontends.huggingface.einsums import Cascade, Tensor, extent

ACTIVATIONS = {
    "silu": "{0} * sigmoid({0})",
    "swish": "{0} * sigmoid({0})",
    "gelu": "gelu({0})",
    "gelu_new": "0.5 * {0} * (1 + tanh(0.7978845608028654 * ({0} + 0.044715 * {0} * {0} * {0})))",
    "gelu_pytorch_tanh": "0.5 * {0} * (1 + tanh(0.7978845608028654 * ({0} + 0.044715 * {0} * {0} * {0})))",
    "relu": "relu({0})",
    "relu2": "relu({0}) * relu({0})",
}
"""Activations by the names of `config.json`, with `{0}` for the value."""


def normalised(w: Cascade, name: str, norm: Norm, x: Tensor, count: int = 1) -> Tensor:
    """`x` normalised over its last `count` rank variables, with the gain (and bias) as parameters."""
    over, kept = x.variables[-count:], x.variables[:-count]
    size = 1
    for v in over:
        size *= extent(v)
    if norm.kind == "plain":
        square = w.put(f"{name}_square", kept, f"{x} ** 2")
        return w.put(name, x.variables, f"{x} * rsqrt({square} / {size} + {norm.epsilon!r})")
    gain = w.input(f"{name}_gain", "parameter", *over)
    factor = f"({norm.offset} + {gain})" if norm.offset else f"{gain}"
    if norm.kind == "layer":
        bias = w.input(f"{name}_bias", "parameter", *over)
        mean = w.put(f"{name}_mean", kept, f"{x} / {size}")
        centred = f"({x} - {mean})"
        square = w.put(f"{name}_square", kept, f"{centred} ** 2")
        return w.put(name, x.variables, f"{centred} * rsqrt({square} / {size} + {norm.epsilon!r}) * {factor} + {bias}")
    square = w.put(f"{name}_square", kept, f"{x} ** 2")
    return w.put(name, x.variables, f"{x} * rsqrt({square} / {size} + {norm.epsilon!r}) * {factor}")


def linear(
    w: Cascade, name: str, x: Tensor, given: Sequence[str], made: Sequence[str], *, bias: bool = False
) -> Tensor:
    """The product of `x` with a weight that has its rank variables `given` and new ones `made`, perhaps plus a bias."""
    kept = [v for v in x.variables if v not in given]
    weight = w.input(f"W{name}", "linear", *given, *made)
    if not bias:
        return w.put(name, (*kept, *made), f"{x} * {weight}", weight=weight)
    product = w.put(f"{name}_product", (*kept, *made), f"{x} * {weight}", weight=weight)
    added = w.input(f"{name}_bias", "parameter", *made)
    return w.put(name, product.variables, f"{product} + {added}")


def times(factor: float) -> str:
    """The end of a product with a factor; nothing for 1."""
    return "" if factor == 1 else f" * {factor!r}"


def _gated(block: FeedForward, gate: Tensor, up: Tensor) -> str:
    """The map expression between the products of a gated block."""
    if block.limit is None:
        return f"{ACTIVATIONS[block.activation].format(gate)} * {up}"
    low, high = f"min({gate}, {block.limit!r})", f"max(min({up}, {block.limit!r}), {-block.limit!r})"
    return f"{low} * sigmoid({low} * {block.slope!r}) * ({high} + 1)"


def added(w: Cascade, name: str, x: Tensor, y: Tensor) -> Tensor:
    """The sum of two tensors of one shape."""
    return w.put(name, x.variables, f"{x} + {y}")


def feed_forward(w: Cascade, name: str, block: FeedForward, x: Tensor) -> Tensor:
    """A feed-forward layer: up, perhaps gated by an activation, and down."""
    d, s = x.variables[-1], w.size("s", block.hidden)
    act = ACTIVATIONS[block.activation]
    if block.gated:
        gate = linear(w, f"{name}G", x, (d,), (s,), bias=block.bias)
        up = linear(w, f"{name}U", x, (d,), (s,), bias=block.bias)
        inner = w.put(f"{name}A", up.variables, _gated(block, gate, up))
    else:
        up = linear(w, f"{name}U", x, (d,), (s,), bias=block.bias)
        inner = w.put(f"{name}A", up.variables, act.format(up))
    return linear(w, f"{name}D", inner, (s,), (d,), bias=block.bias)


def experts(w: Cascade, block: Experts, x: Tensor) -> Tensor:
    """A mixture of experts. The router's scores are Einsums; the choice of the largest is none, and its results are
    inputs, as places in tables: `Chosen` the experts of a token, `Row` and `Place` where their results are.

    Tokens are spread evenly: each of `busy` experts takes as many. Where there are fewer choices than experts, the
    weights of the busy ones are looked up (`Busy`): the others are not read.
    """
    b, m, d = x.variables
    choices = w.step.batch * w.step.tokens * block.chosen
    number, busy = w.size("x", block.number), min(block.number, choices)
    k = w.size("k", block.chosen)
    gates = _gates(w, block, x, (b, m, k, number))
    a, c = w.size("a", busy), w.size("c", -(-choices // busy))
    sample = w.input("Sample", "index", a, c)
    token = w.input("Token", "index", a, c)
    row = w.input("Row", "index", b, m, k)
    place = w.input("Place", "index", b, m, k)
    if block.first:
        choice = w.input("Choice", "index", a, c)
        gate = gates.at(b=f"{sample}", m=f"{token}", k=f"{choice}")
        rows = w.put("XE", (a, c, d), f"{x.at(b=f'{sample}', m=f'{token}')} * {gate}{times(block.factor)}")
        results = _of_experts(w, block, rows, number, a)
        mixed = w.put("FE", (b, m, d), results.at(a=f"{row}", c=f"{place}"))
    else:
        rows = w.put("XE", (a, c, d), x.at(b=f"{sample}", m=f"{token}"))
        results = _of_experts(w, block, rows, number, a)
        weighed = f"{gates} * {results.at(a=f'{row}', c=f'{place}')}{times(block.factor)}"
        mixed = w.put("FE", (b, m, d), weighed, weight=gates)
    if block.shared is None:
        return mixed
    shared = feed_forward(w, "H", block.shared, x)
    if block.shared_gate:
        one = linear(w, "HX", x, (d,), ())
        return w.put("F", (b, m, d), f"{mixed} + sigmoid({one}) * {shared}")
    return added(w, "F", mixed, shared)


def _gates(w: Cascade, block: Experts, x: Tensor, variables: Sequence[str]) -> Tensor:
    """The weights of the chosen experts of each token."""
    b, m, k, number = variables
    weight = w.input("WR", "parameter", x.variables[-1], number)
    logits = w.put("R_product" if block.bias else "R", (b, m, number), f"{x} * {weight}", weight=weight)
    if block.bias:
        logits = w.put("R", logits.variables, f"{logits} + {w.input('WR_bias', 'parameter', number)}")
    if block.scores == "softmax":
        most = w.put("R_max", (b, m), f"{logits}", reduction="max")
        scores = w.put("R_score", (b, m, number), f"exp({logits} - {most})")
    else:
        scores = w.put("R_score", (b, m, number), f"sigmoid({logits})")
    if block.correction:
        bias = w.input("R_bias", "parameter", number)
        w.put("R_choice", (b, m, number), f"{scores} + {bias}")
    chosen = w.input("Chosen", "index", b, m, k)
    gates = w.put("R_chosen", (b, m, k), scores.at(x=f"{chosen}"))
    if block.normalised:
        total = w.put("R_sum", (b, m), f"{gates}")
    elif block.scores == "softmax":
        total = w.put("R_sum", (b, m), f"{scores}")
    else:
        return gates
    return w.put("R_gate", (b, m, k), f"{gates} / {total}")


def _of_experts(w: Cascade, block: Experts, rows: Tensor, number: str, a: str) -> Tensor:
    """Results of each busy expert for its rows."""
    _, c, d = rows.variables
    s = w.size("s", block.expert.hidden)
    expert, share = block.expert, block.chosen / block.number
    all_busy = a[1:] == number[1:]
    index = a if all_busy else f"{w.input('Busy', 'index', a)}"

    def product(name: str, x: Tensor, old: str, new: str) -> Tensor:
        weight = w.input(f"W{name}", "expert", number, old, new, share=share)
        text = f"{x} * {weight.at(x=index)}"
        if not expert.bias:
            return w.put(name, (a, c, new), text, weight=weight)
        product = w.put(f"{name}_product", (a, c, new), text, weight=weight)
        bias = w.input(f"{name}_bias", "parameter", number, new, share=share)
        return w.put(name, product.variables, f"{product} + {bias.at(x=index)}")

    up = product("EU", rows, d, s)
    if expert.gated:
        inner = w.put("EA", up.variables, _gated(expert, product("EG", rows, d, s), up))
    else:
        inner = w.put("EA", up.variables, ACTIVATIONS[expert.activation].format(up))
    return product("ED", inner, s, d)
