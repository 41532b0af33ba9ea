"""State-space layers as Einsums, of Mamba-2 (Dao and Gu, arXiv 2405.21060): one token, or a prompt in chunks; of Mamba
(Gu and Dao, arXiv 2312.00752): one token, or a prompt as a recurrence.
"""

from __future__ import annotations

from einmap.errors import SpecError
from einmap.frontends.huggingface.blocks import linear, normalised
from einmap.frontends.huggingface.description import DeltaRule, Selective, StateSpace
from einmap.frontends.huggingface.einsums import Cascade, Tensor

SOFTPLUS = "log(1 + exp({0}))"


def state_space(w: Cascade, block: StateSpace, x: Tensor) -> Tensor:
    """A layer between its norm and its sum. One token reads the state and the last inputs of the convolution from the
    cache, and writes the new ones there; a prompt begins with zeros. Raises SpecError for several tokens after a
    context.
    """
    check_step(w)
    d = x.variables[-1]
    g, h = w.size("g", block.groups), w.size("h", block.heads // block.groups)
    p, n = w.size("p", block.head), w.size("n", block.state)
    gate = linear(w, "Z", x, (d,), (g, h, p), bias=block.bias)
    made = {}
    for name, variables in (("X", (g, h, p)), ("B", (g, n)), ("C", (g, n))):
        made[name] = convolved(w, block, name, linear(w, f"{name}I", x, (d,), variables, bias=block.bias))
    steps = linear(w, "D", x, (d,), (g, h), bias=block.bias)
    bias, rate = w.input("Step_bias", "parameter", g, h), w.input("A_log", "parameter", g, h)
    skip = w.input("D_skip", "parameter", g, h)
    delta = w.put("DT", steps.variables, SOFTPLUS.format(f"({steps} + {bias})"))
    decay = w.put("DA", delta.variables, f"negative({delta}) * exp({rate})")
    scan = _one_token if w.step.tokens == 1 else _prompt
    scanned, at = scan(w, block.chunk, made, delta, decay)
    beside = w.put("YX", scanned.variables, f"{scanned} + {made['X'].at(m=at)} * {skip}")
    gated = w.put("YG", scanned.variables, f"{beside} * {gate.at(m=at)} * sigmoid({gate.at(m=at)})")
    result = linear(w, "O", normalised(w, "YN", block.norm, gated, count=3), (g, h, p), (d,), bias=block.bias)
    return result if w.step.tokens == 1 else w.copied("OM", x.variables, f"{result}", out={"m": at})


def selective(w: Cascade, block: Selective, x: Tensor) -> Tensor:
    """A layer whose states have decays of their own, between its norm and its sum. One token reads the cache as in
    `state_space`; a prompt goes through its positions one after another. Raises SpecError for several tokens after a
    context.
    """
    check_step(w)
    b, m, d = x.variables
    p, n, r = w.size("p", block.inner), w.size("n", block.state), w.size("r", block.rank)
    gate = linear(w, "Z", x, (d,), (p,), bias=block.bias)
    made = convolved(w, block, "X", linear(w, "XI", x, (d,), (p,), bias=block.bias))
    steps, rows, read = (linear(w, name, made, (p,), (v,)) for name, v in (("T", r), ("B", n), ("C", n)))
    if block.inside is not None:
        steps, rows, read = (normalised(w, f"{t.name[0]}N", block.inside, t) for t in (steps, rows, read))
    bias, rate = w.input("Step_bias", "parameter", p), w.input("A_log", "parameter", p, n)
    skip = w.input("D_skip", "parameter", p)
    delta = w.put("DT", made.variables, SOFTPLUS.format(f"({linear(w, 'D', steps, (r,), (p,))} + {bias})"))
    decay, new = f"exp(negative({delta}) * exp({rate}))", f"{rows} * {delta} * {made}"
    if w.step.tokens == 1:
        old = w.input("State", "cache", b, p, n)
        state = w.put("ST", old.variables, f"{decay} * {old} + {new}")
        w.append("State_new", state.variables, f"{state}")
        seen = f"{state}"
    else:
        tokens = w.step.tokens
        z = w.size("z", tokens + 1)
        state = w.tensor("ST", z, b, p, n)
        old = w.put("SO", (b, m, p, n), f"{decay} * {state.at(z=m)}")
        w.put("ST", state.variables, f"{old} + {new}", out={"z": f"{m} + 1"})
        seen = state.at(z=f"{m} + 1")
        w.append("State_new", (b, p, n), state.at(z=f"{w.size('o', 1)} + {tokens}"))
    result = w.put("Y", made.variables, f"{read} * {seen}", weight=state)
    gated = w.put("YG", made.variables, f"({result} + {made} * {skip}) * {gate} * sigmoid({gate})")
    return linear(w, "O", gated, (p,), (d,), bias=block.bias)


def check_step(w: Cascade) -> None:
    """Raise SpecError for several tokens after a context."""
    if w.step.tokens > 1 and w.step.context:
        text = f"{w.step.tokens} tokens after a context, in state-space layers"
        raise SpecError(text, hint="their cost does not depend on it: give a context of 0, or one token")


type Scanned = tuple[Tensor, str]
"""Rows that are read from the states, and the position of a row as an index."""


def convolved(w: Cascade, block: StateSpace | Selective | DeltaRule, name: str, x: Tensor) -> Tensor:
    """Each feature over the last positions, with what the cache has before the first one."""
    b, m, *features = x.variables
    tokens, before = w.step.tokens, block.taps - 1
    taps = w.input(f"W{name}_conv", "parameter", w.size("t", block.taps), *features)
    if tokens == 1:
        cached = w.input(f"{name}_cache", "cache", b, w.size("u", before), *features)
        old = w.put(f"{name}_old", x.variables, f"{cached} * {taps.at(t=cached.variables[1])}")
        total = f"{old} + {x} * {taps.at(t=f'{m} + {before}')}"
        w.append(f"{name}_new", x.variables, f"{x}")
    else:
        t = taps.variables[0]
        rows = x.at(m=f"{m} + {t} - {before}")
        total = f"{w.put(f'{name}_taps', x.variables, f'{rows} * {taps}', where=[f'{m} + {t} >= {before}'])}"
        last = min(before, tokens)
        u = w.size("u", last)
        w.append(f"{name}_new", (b, u, *features), x.at(m=f"{u} + {tokens - last}"))
    if block.conv_bias:
        total += f" + {w.input(f'{name}_conv_bias', 'parameter', *features)}"
    summed = w.put(f"{name}_conv", x.variables, total)
    return w.put(name, x.variables, f"{summed} * sigmoid({summed})")


def _one_token(w: Cascade, _chunk: int, made: dict[str, Tensor], delta: Tensor, decay: Tensor) -> Scanned:
    """The state of the cache one step further, and what is read from it."""
    x, rows, read = made["X"], made["B"], made["C"]
    b, m, g, h, p = x.variables
    n = rows.variables[-1]
    old = w.input("State", "cache", b, g, h, p, n)
    wide = w.put("XD", x.variables, f"{delta} * {x}")
    state = w.put("ST", old.variables, f"exp({decay}) * {old} + {rows} * {wide}")
    w.append("State_new", state.variables, f"{state}")
    return w.put("Y", x.variables, f"{read} * {state}", weight=state), m


def _prompt(w: Cascade, chunk: int, made: dict[str, Tensor], delta: Tensor, decay: Tensor) -> Scanned:
    """Chunks of positions: within each by scores of all pairs, between them by the states at their ends."""
    x, rows, read = made["X"], made["B"], made["C"]
    b, _, g, h, p = x.variables
    n, tokens = rows.variables[-1], w.step.tokens
    size = min(chunk, tokens)
    if tokens % size:
        text = f"{tokens} tokens are not a multiple of chunk_size, {chunk}"
        raise SpecError(text, hint=f"{tokens // size * size} or {(tokens // size + 1) * size} tokens")
    c, i, j = w.size("c", tokens // size), w.size("i", size), w.size("j", size)
    at_i, at_j, past = f"{size}*{c} + {i}", f"{size}*{c} + {j}", [f"{j} <= {i}"]
    sums = w.put("DC", (b, c, i, g, h), decay.at(m=at_j), where=past)
    pairs = w.put("GG", (b, c, i, j, g), f"{read.at(m=at_i)} * {rows.at(m=at_j)}", weight=rows, where=past)
    masked = w.put("GL", (b, c, i, j, g, h), f"{pairs} * exp({sums} - {sums.at(i=j)}) * {delta.at(m=at_j)}", where=past)
    within = w.put("YD", (b, c, i, g, h, p), f"{masked} * {x.at(m=at_j)}", weight=x, where=past)
    total = w.put("TC", (b, c, g, h), decay.at(m=at_j))
    weighted = w.put("XD", (b, c, j, g, h, p), f"{x.at(m=at_j)} * {delta.at(m=at_j)} * exp({total} - {sums.at(i=j)})")
    states = w.put("SC", (b, c, g, h, p, n), f"{rows.at(m=at_j)} * {weighted}", weight=weighted)
    chunks = tokens // size
    if chunks == 1:
        w.append("State_new", states.variables, f"{states}")
        return within, at_i
    z, last = w.size("z", chunks), f"{w.size('o', 1)} + {chunks - 1}"
    until = w.put("TZ", (b, z, g, h), f"{total}", where=[f"{c} <= {z}"])
    # a chunk before another: ones below the diagonal
    earlier = w.input("Earlier", "activation", z, c)
    kept = f"exp(min({until} - {total.at(c=z)} - {until.at(z=c)}, 0)) * {earlier}"
    before = w.put("SB", (b, z, g, h, p, n), f"{kept} * {states}", weight=states)
    end = f"exp({total.at(c=last)}) * {before.at(z=last)} + {states.at(c=last)}"
    w.append("State_new", (b, g, h, p, n), f"{w.put('SE', (b, g, h, p, n), end)}")
    crossed = w.put("YS", (b, c, i, g, h, p), f"{read.at(m=at_i)} * {before.at(z=c)}", weight=before)
    return w.put("Y", within.variables, f"{within} + {crossed} * exp({sums})"), at_i
