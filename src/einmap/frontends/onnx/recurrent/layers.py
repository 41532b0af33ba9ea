"""Recurrent layers: RNN, GRU and LSTM, as ONNX defines them.

The products of all inputs with their weights come first, for all steps at once. Then a recurrence: of each step the
product of the state with its weights, the gates, and the new state.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from einmap.errors import SpecError, did_you_mean
from einmap.frontends.cascade.parts import Parts, concatenated
from einmap.frontends.cascade.recurrence import Recurrence, one_rank_of_steps
from einmap.frontends.cascade.step import NotExpressible, expression_of
from einmap.frontends.cascade.values import Value, reshape, take, transpose
from einmap.frontends.onnx.operators.call import Call
from einmap.frontends.onnx.operators.elementwise import TEXTS, WITH_ATTRIBUTES, filled

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
"""Gates of a layer: blocks of rows of its weights."""


class Gates(tuple[int, ...]):
    """The block of rows that each gate of ONNX has in the weights, as other formats order them; it is not from a file.

    -1 for the input or the forget gate of an LSTM that is 1 minus the other one. `blocks`: how many there are.
    """

    @property
    def blocks(self) -> int:
        """Blocks of rows of the weights."""
        return max(self) + 1


_ACTIVATIONS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}
_TEXTS: dict[str, tuple[str, dict[str, float]]] = {
    **{name: (TEXTS[name], {}) for name in ("Relu", "Sigmoid", "Softplus", "Softsign", "Tanh")},
    **{name: WITH_ATTRIBUTES[name] for name in ("Elu", "HardSigmoid", "LeakyRelu")},
    # without parameters ONNX Runtime 1.32 takes 0 in these three, and those of the operator in the others
    "Affine": ("{alpha} * a + {beta}", {"alpha": 0.0, "beta": 0.0}),
    "ThresholdedRelu": (WITH_ATTRIBUTES["ThresholdedRelu"][0], {"alpha": 0.0}),
    "ScaledTanh": ("{alpha} * tanh({beta} * a)", {"alpha": 0.0, "beta": 0.0}),
}
"""Activations as map expressions of `a`, and what is taken without their parameters."""
_NAMES = {name.lower(): name for name in _TEXTS}


@dataclass(frozen=True, slots=True)
class _Layer:
    """One direction of a layer. `x`: (steps, batch, features); `weight` of the inputs, `recurrent` of the state, in
    blocks of so many `gates`, whose `order` is that of `Gates`; a bias of each; `peepholes` to the gates i, o and f;
    what H and C begin with.
    """

    call: Call
    name: str
    gates: int
    order: Sequence[int]
    hidden: int
    activations: Sequence[str]
    x: Value
    weight: Value
    recurrent: Value
    biases: tuple[Value, Value] | None
    peepholes: Value | None
    initial: tuple[Value | None, Value | None]

    @property
    def steps(self) -> int:
        return self.x.shape[0]

    @property
    def batch(self) -> int:
        return self.x.shape[1]

    def run(self) -> tuple[Value, ...]:
        """The state H as each step leaves it, and C of an LSTM."""
        layers = {"RNN": self._rnn, "GRU": self._gru, "LSTM": self._lstm}
        return layers[self.call.node.operator]()

    # what the layers have in common

    def inputs(self, *, both_biases: Sequence[int]) -> Value:
        """For all steps the products of the inputs: (steps, batch, gates, hidden), biases included.

        `both_biases`: the gates to which the bias of the state's product is added here as well.
        """
        y = self.product(self.x, self.weight, f"{self.name}_inputs")
        if self.biases is not None:
            first, second = (reshape(b, (self.gates, self.hidden)) for b in self.biases)
            if len(both_biases) == self.gates:
                y = self.call.pointwise("a + b + c", y, first, second)
            else:
                y = self.call.pointwise("a + b", y, first)
        return one_rank_of_steps(self.call.builder, y, f"{self.name}_biased")

    def product(self, x: Value, weight: Value, name: str) -> Value:
        """The product of each step with a weight of (gates * hidden, features)."""
        gates = weight.shape[0] // self.hidden
        weights = self.call.reshape(weight, (gates, self.hidden, weight.shape[1]))
        return self.call.builder.einsum(
            name,
            [(x, ["t", "b", "k"]), (weights, ["g", "n", "k"])],
            ["t", "b", "g", "n"],
            expression_of("a * b", 2),
            x.bits,
            weight=1,
        )

    def gate(self, value: Value, number: int) -> Value:
        """One gate of (steps, batch, gates, hidden)."""
        return reshape(take(value, 2, self.order[number], 1, 1), (self.steps, self.batch, self.hidden))

    def of_bias(self, biases: Value, number: int) -> Value:
        """One gate of a bias of (gates * hidden)."""
        blocks = reshape(biases, (self.gates, self.hidden))
        return reshape(take(blocks, 0, self.order[number], 1, 1), (self.hidden,))

    def activated(self, which: int, text: str, *values: Value, name: str) -> Value:
        """An activation of a sum, written."""
        found = self.call.pointwise(self.activation(which, text), *values, bits=self.x.bits)
        return self.call.builder.written(found, f"{self.name}_{name}")

    def activation(self, which: int, text: str) -> str:
        """An activation of a sum as a map expression."""
        return re.sub(r"\ba\b", f"({text})", self.activations[which])

    def recurrence(self) -> Recurrence:
        return Recurrence(self.call.builder, self.name, self.steps)

    @property
    def shape(self) -> tuple[int, int]:
        """The shape of a state in one step."""
        return self.batch, self.hidden

    def _rnn(self) -> tuple[Value, ...]:
        inputs = self.inputs(both_biases=[0])
        steps = self.recurrence()
        h = steps.state(self.shape, self.x.bits, self.initial[0], f"{self.name}_h")
        product = self.product(h.before, self.recurrent, f"{self.name}_product")
        text = self.activation(0, "a + b")
        steps.write(h, self.call.pointwise(text, self.gate(inputs, 0), self.gate(product, 0), bits=self.x.bits))
        steps.close()
        return (h.after,)

    def _gru(self) -> tuple[Value, ...]:
        after_product = bool(self.call.integer("linear_before_reset", 0))
        inputs = self.inputs(both_biases=[0, 1] if after_product else [0, 1, 2])
        steps = self.recurrence()
        h = steps.state(self.shape, self.x.bits, self.initial[0], f"{self.name}_h")
        rows = self.hidden * 2
        weights = self.recurrent if after_product else take(self.recurrent, 0, 0, 1, rows)
        product = self.product(h.before, weights, f"{self.name}_product")
        of_state = None if self.biases is None else self.biases[1]
        sums = []
        for number in (0, 1):
            terms = [self.gate(inputs, number), self.gate(product, number)]
            if after_product and of_state is not None:
                terms.append(self.of_bias(of_state, number))
            sums.append(terms)
        z, r = (
            self.activated(0, " + ".join("abc"[: len(terms)]), *terms, name=name)
            for terms, name in zip(sums, "zr", strict=True)
        )
        if after_product:
            last = self.gate(product, 2)
            if of_state is not None:
                last = self.call.pointwise("a + b", last, self.of_bias(of_state, 2))
            new = self.activated(1, "a + b * c", self.gate(inputs, 2), r, self.written(last, "last"), name="new")
        else:
            reset = self.written(self.call.pointwise("a * b", r, h.before), "reset")
            last = self.product(reset, take(self.recurrent, 0, rows, 1, self.hidden), f"{self.name}_last")
            new = self.activated(1, "a + b", self.gate(inputs, 2), self.gate(last, 0), name="new")
        kept = self.written(self.call.pointwise("a * b", z, h.before), "kept")
        steps.write(h, self.call.pointwise("(1 - a) * b + c", z, new, kept))
        steps.close()
        return (h.after,)

    def _lstm(self) -> tuple[Value, ...]:
        inputs = self.inputs(both_biases=[*range(self.gates)])
        steps = self.recurrence()
        h = steps.state(self.shape, self.x.bits, self.initial[0], f"{self.name}_h")
        c = steps.state(self.shape, self.x.bits, self.initial[1], f"{self.name}_c")
        product = self.product(h.before, self.recurrent, f"{self.name}_product")
        peep = None if self.peepholes is None else reshape(self.peepholes, (3, self.hidden))

        def gate(number: int, which: int, name: str, seen: Value | None = None, row: int = 0) -> Value:
            terms = [self.gate(inputs, number), self.gate(product, number)]
            if peep is not None and seen is not None:
                weight = reshape(take(peep, 0, row, 1, 1), (self.hidden,))
                terms.append(self.written(self.call.pointwise("a * b", seen, weight), f"{name}_peephole"))
            return self.activated(which, " + ".join("abc"[: len(terms)]), *terms, name=name)

        i = gate(0, 0, "i", c.before, 0) if self.order[0] >= 0 else None
        f = gate(2, 0, "f", c.before, 2) if self.order[2] >= 0 else self.rest(i, "f")
        i = self.rest(f, "i") if i is None else i
        new = gate(3, 1, "new")
        kept = self.written(self.call.pointwise("a * b", f, c.before), "kept")
        steps.write(c, self.call.pointwise("a + b * c", kept, i, new))
        o = gate(1, 0, "o", c.after, 1)
        steps.write(h, self.call.pointwise(f"a * ({self.activation(2, 'b')})", o, c.after))
        steps.close()
        return h.after, c.after

    def rest(self, gate: Value | None, name: str) -> Value:
        """A gate that is 1 minus another one."""
        assert gate is not None
        return self.written(self.call.pointwise("1 - a", gate, bits=self.x.bits), name)

    def written(self, value: Value, name: str) -> Value:
        """The value in a tensor of its own."""
        return self.call.builder.written(value, f"{self.name}_{name}")


def recurrent(call: Call) -> list[Value | Parts]:
    """RNN, GRU and LSTM: all states H, the last one, and the last C of an LSTM."""
    _refuse(call)
    order = _order(call)
    gates = order.blocks if isinstance(order, Gates) else GATES[call.node.operator]
    batch_first = bool(call.integer("layout", 0))
    x, w, r = (call.operand(i) for i in range(3))
    if len(x.shape) != 3 or len(w.shape) != 3 or len(r.shape) != 3:
        raise SpecError(f"the shapes {[*x.shape]}, {[*w.shape]} and {[*r.shape]} are not those of a recurrent layer")
    x = transpose(x, (1, 0, 2)) if batch_first else x
    directions, hidden = w.shape[0], r.shape[2]
    if w.shape[1:] != (gates * hidden, x.shape[2]) or r.shape != (directions, gates * hidden, hidden):
        raise SpecError(f"weights of the shapes {[*w.shape]} and {[*r.shape]} do not fit inputs of {[*x.shape]}")
    if call.integer("hidden_size", hidden) != hidden:
        raise SpecError(
            f"the attribute hidden_size says {call.integer('hidden_size', hidden)}, the weights have {hidden}"
        )
    kinds = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}
    turned = kinds.get(call.text("direction", "forward"))
    if turned is None or len(turned) != directions:
        raise SpecError(f"direction {call.text('direction', 'forward')!r} with weights of {directions} directions")
    activations = _activations(call, directions)
    found: list[tuple[Value, ...]] = []
    n = x.shape[0]
    for d, is_turned in enumerate(turned):
        layer = _layer(call, (gates, order), d, directions, x, is_turned, batch_first, activations[d])
        states = layer.run()
        lasts = [reshape(take(state, 0, n - 1, 1, 1), state.shape[1:]) for state in states]
        every = take(states[0], 0, n - 1, -1, n) if is_turned else states[0]
        found.append((every, *lasts))
    results: list[Value | Parts] = []
    for place, of_directions in enumerate(zip(*found, strict=True)):
        one = [_with_direction(value, place == 0, batch_first) for value in of_directions]
        axis = (2 if batch_first else 1) if place == 0 else (1 if batch_first else 0)
        results.append(one[0] if directions == 1 else concatenated(call.builder, one, axis, call.name))
    return results


def _with_direction(value: Value, is_sequence: bool, batch_first: bool) -> Value:
    """A result with an axis of one index for its direction, in the order of axes that the layer has."""
    if is_sequence:
        steps, batch, hidden = value.shape
        if batch_first:
            return reshape(transpose(value, (1, 0, 2)), (batch, steps, 1, hidden))
        return reshape(value, (steps, 1, batch, hidden))
    batch, hidden = value.shape
    return reshape(value, (batch, 1, hidden) if batch_first else (1, batch, hidden))


def _order(call: Call) -> Sequence[int]:
    """The block of rows of each gate: as ONNX has them, or as an attribute says that no file has."""
    given = call.node.attributes.get("gates")
    if isinstance(given, Gates):
        return given
    order = [*range(GATES[call.node.operator])]
    if call.node.operator == "LSTM" and call.integer("input_forget", 0):
        order[2] = -1  # the rows of its forget gate are there, and not used
    return order


def _layer(
    call: Call,
    weights: tuple[int, Sequence[int]],
    d: int,
    directions: int,
    x: Value,
    is_turned: bool,
    batch_first: bool,
    activations: Sequence[str],
) -> _Layer:
    gates, order = weights
    hidden, is_lstm = call.operand(2).shape[2], call.node.operator == "LSTM"
    axis = 1 if batch_first else 0
    of_state = (x.shape[1], directions, hidden) if batch_first else (directions, x.shape[1], hidden)

    def part(place: int, expected: tuple[int, ...], along: int = 0) -> Value | None:
        """Part of an operand that belongs to one direction."""
        value = call.optional(place)
        if value is None:
            return None
        if value.shape != expected:
            text = f"operand {place} has the shape {[*value.shape]}, expected {[*expected]}"
            raise SpecError(text, at=call.node.at)
        shape = tuple(n for i, n in enumerate(value.shape) if i != along)
        return reshape(take(value, along, d, 1, 1), shape)

    weight, state = part(1, call.operand(1).shape), part(2, call.operand(2).shape)
    assert weight is not None
    assert state is not None
    rows, biases = gates * hidden, None
    if len(call) > 8:  # no file has more than eight operands: two biases apart
        first, second = part(3, (directions, rows)), part(8, (directions, rows))
        biases = None if first is None or second is None else (first, second)
    elif (bias := part(3, (directions, 2 * rows))) is not None:
        biases = take(bias, 0, 0, 1, rows), take(bias, 0, rows, 1, rows)
    name = call.name if directions == 1 else f"{call.name}_{'backward' if is_turned else 'forward'}"
    return _Layer(
        call,
        name,
        gates,
        order,
        hidden,
        activations,
        take(x, 0, x.shape[0] - 1, -1, x.shape[0]) if is_turned else x,
        weight,
        state,
        biases,
        part(7, (directions, 3 * hidden)) if is_lstm else None,
        (part(5, of_state, axis), part(6, of_state, axis) if is_lstm else None),
    )


def _activations(call: Call, directions: int) -> list[list[str]]:
    """The activations of each direction as map expressions of `a`. Raises SpecError for what ONNX does not have.

    Those that have parameters take the next of `activation_alpha` and `activation_beta`, in order.
    """
    default = _ACTIVATIONS[call.node.operator]
    names = call.texts("activations") or [*default * directions]
    if len(names) != len(default) * directions:
        raise SpecError(f"{len(names)} activations for {directions} directions of {len(default)}", at=call.node.at)
    given = {name: iter(call.numbers(f"activation_{name}")) for name in ("alpha", "beta")}
    texts = [_activation(call, name, given) for name in names]
    return [texts[d * len(default) : (d + 1) * len(default)] for d in range(directions)]


def _activation(call: Call, name: str, given: Mapping[str, Iterator[float]]) -> str:
    if name.lower() not in _NAMES:
        raise SpecError(f"there is no activation {name[:30]!r}", at=call.node.at, hint=did_you_mean(name, _TEXTS))
    text, defaults = _TEXTS[_NAMES[name.lower()]]
    return filled(text, {parameter: next(given[parameter], value) for parameter, value in defaults.items()})


def _refuse(call: Call) -> None:
    """Raise NotExpressible for what has no Einsum form."""
    if call.optional(4) is not None:
        raise NotExpressible("its sequences have lengths of their own (sequence_lens)")
    if call.node.attributes.get("clip") is not None:
        raise NotExpressible("it has the attribute clip")
