"""Recurrent layers of ATen: each layer and direction as one of ONNX, with the gates in the order of PyTorch."""

from __future__ import annotations

from collections.abc import Mapping

from einmap.frontends.onnx.recurrent.layers import Gates
from einmap.frontends.torch.operators.call import Aten, Rule

_GATES = {"LSTM": Gates((0, 3, 1, 2)), "GRU": Gates((1, 0, 2)), "RNN": Gates((0,))}
"""Input, output, forget and cell gate of an LSTM among i, f, g, o; update, reset and new one of a GRU among r, z, n."""


def _recurrent(call: Aten, operator: str, **attributes: object) -> list[str]:
    """The rows of the last layer, and the last states H, of an LSTM C as well, of all layers."""
    if not call.has("num_layers"):
        raise call.refuse("its sequences have lengths of their own")
    n, has_biases = call.integer("num_layers"), bool(call.plain("has_biases"))
    directions = 2 if call.plain("bidirectional") else 1
    states = call.tensors("hx") if operator == "LSTM" else [call.tensor("hx")]
    weights, size = call.tensors("params"), 4 if has_biases else 2
    if n < 1 or len(weights) != n * directions * size or len(states) != (2 if operator == "LSTM" else 1):
        raise call.refuse("it has a projection")
    batch_first = bool(call.plain("batch_first"))
    x = call.tensor("input")
    x = call.transpose(x, (1, 0, 2)) if batch_first else x
    if len(call.shape(x)) != 3:
        raise ValueError(f"rows of the shape {[*call.shape(x)]}")
    steps, batch, _ = call.shape(x)
    found: list[list[str]] = [[] for _ in states]
    attributes |= {"gates": _GATES[operator]}
    for layer in range(n):
        rows = []
        for d in range(directions):
            number = layer * directions + d
            w, r, *biases = weights[number * size : (number + 1) * size]
            parts = [call.reshape(value, (1, *call.shape(value))) for value in (w, r, *biases)]
            begins = [call.cut(value, 0, number, number + 1) for value in states]
            operands = [x, *parts[:2], parts[2] if biases else "", "", *begins, *([""] * (3 - len(begins)))]
            operands = operands[:8] + (parts[3:] if biases else [])
            direction = "reverse" if d else "forward"
            how = {**attributes, "direction": direction}
            every, *lasts = call.emit_all(operator, operands, 1 + len(states), how)
            hidden = call.shape(r)[1]
            call.say(every, (steps, 1, batch, hidden), call.kind(x))
            rows.append(call.reshape(every, (steps, batch, hidden)))
            for values, last in zip(found, lasts, strict=True):
                call.say(last, (1, batch, hidden), call.kind(x))
                values.append(last)
        x = rows[0]
        if directions == 2:
            sizes = [call.shape(value)[2] for value in rows]
            x = call.emit("Concat", *rows, axis=2, shape=(steps, batch, sum(sizes)))
    ends = [values[0] if len(values) == 1 else call.emit("Concat", *values, axis=0) for values in found]
    return [call.transpose(x, (1, 0, 2)) if batch_first else x, *ends]


RECURRENT: Mapping[str, Rule] = {
    "lstm": lambda call: _recurrent(call, "LSTM"),
    "gru": lambda call: _recurrent(call, "GRU", linear_before_reset=1),
    "rnn_tanh": lambda call: _recurrent(call, "RNN", activations=["Tanh"]),
    "rnn_relu": lambda call: _recurrent(call, "RNN", activations=["Relu"]),
}
"""By the name of the operator."""
