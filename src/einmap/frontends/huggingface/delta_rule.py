"""Linear attention by a gated delta rule (Yang, Kautz and Hatamizadeh, arXiv 2412.06464), as Qwen3-Next has it: one
token from its state, or a prompt as a recurrence.
"""

from __future__ import annotations

from einmap.frontends.huggingface.blocks import linear, normalised
from einmap.frontends.huggingface.description import DeltaRule, Norm
from einmap.frontends.huggingface.einsums import Cascade, Tensor
from einmap.frontends.huggingface.state_space import SOFTPLUS, check_step, convolved

_LENGTH = 1e-6
"""Added to the square of the length that queries and keys are divided by."""


def delta_rule(w: Cascade, block: DeltaRule, x: Tensor) -> Tensor:
    """A layer between its norm and its sum. One token reads the state and the last inputs of the convolutions from the
    cache; a prompt goes through its positions one after another. Raises SpecError for several tokens after a context.
    """
    check_step(w)
    b, _, d = x.variables
    g, h = w.size("g", block.groups), w.size("h", block.heads // block.groups)
    e, f = w.size("e", block.key), w.size("f", block.value)
    made = {
        name: convolved(w, block, name, linear(w, f"{name}I", x, (d,), variables))
        for name, variables in (("Q", (g, e)), ("K", (g, e)), ("V", (g, h, f)))
    }
    gate = linear(w, "Z", x, (d,), (g, h, f))
    steps, share = linear(w, "D", x, (d,), (g, h)), linear(w, "B", x, (d,), (g, h))
    bias, rate = w.input("Step_bias", "parameter", g, h), w.input("A_log", "parameter", g, h)
    delta = w.put("DT", steps.variables, SOFTPLUS.format(f"({steps} + {bias})"))
    decay = w.put("DA", delta.variables, f"exp(negative({delta}) * exp({rate}))")
    length = Norm("plain", _LENGTH / block.key)
    # x / rms(x) is x / length(x) times the root of the number of features, which scores are divided by twice
    query = normalised(w, "QN", length, made["Q"])
    key = w.put("KL", made["K"].variables, f"{normalised(w, 'KN', length, made['K'])} * {block.key**-0.5!r}")
    found = _one_token if w.step.tokens == 1 else _prompt
    moved = (made["V"], decay, share)
    result = found(w, (b, g, h, e, f), query, key, moved, f"{1 / block.key!r}")
    normal = normalised(w, "YN", block.norm, result)
    gated = w.put("YG", normal.variables, f"{normal} * {gate} * sigmoid({gate})")
    return linear(w, "O", gated, (g, h, f), (d,))


type Moved = tuple[Tensor, Tensor, Tensor]
"""Values, decays of the states, and how far a state is moved towards a value (before its sigmoid)."""


def _one_token(w: Cascade, state: tuple[str, ...], query: Tensor, key: Tensor, moved: Moved, scale: str) -> Tensor:
    value, decay, share = moved
    old = w.input("State", "cache", *state)
    seen = w.put("KV", value.variables, f"{old} * {key}", weight=old)
    change = w.put("DV", value.variables, f"({value} - {decay} * {seen}) * sigmoid({share})")
    new = w.put("ST", old.variables, f"{decay} * {old} + {key} * {change}")
    w.append("State_new", new.variables, f"{new}")
    return w.put("Y", value.variables, f"{query} * {new} * {scale}", weight=new)


def _prompt(w: Cascade, state: tuple[str, ...], query: Tensor, key: Tensor, moved: Moved, scale: str) -> Tensor:
    value, decay, share = moved
    b, m, g, h, f = value.variables
    e = key.variables[-1]
    tokens = w.step.tokens
    all_states = w.tensor("ST", w.size("z", tokens + 1), *state)
    old = w.put("SO", (b, m, g, h, e, f), f"{decay} * {all_states.at(z=m)}")
    seen = w.put("KV", value.variables, f"{old} * {key}", weight=old)
    change = w.put("DV", value.variables, f"({value} - {seen}) * sigmoid({share})")
    w.put("ST", all_states.variables, f"{old} + {key} * {change}", out={"z": f"{m} + 1"})
    w.append("State_new", state, all_states.at(z=f"{w.size('o', 1)} + {tokens}"))
    return w.put("Y", value.variables, f"{query} * {all_states.at(z=f'{m} + 1')} * {scale}", weight=all_states)
