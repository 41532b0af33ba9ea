"""Small models for tests of training plans."""

from einmap import Spec
from einmap.distribute.training.model import Layer, Ranks, TrainingModel

TRANSFORMER = [
    "V[b, p, h, f] = X[b, M: p, d] * WV[d, h, f]",
    "K[b, p, h, e] = X[b, M: p, d] * WK[d, h, e]",
    "Q[b, m, h, e] = X[b, m, d] * WQ[d, h, e]",
    "QK[b, m, p, h] = exp(Q[b, m, h, e] * K[b, p, h, e])",
    "AV[b, m, h, f] = QK[b, m, p, h] * V[b, p, h, f]",
    "Z[b, m, d] = AV[b, m, h, f] * WZ[h, f, d]",
    "Y[b, m, d] = X[b, m, d] + Z[b, m, d]",
    "U[b, m, s] = Y[b, m, d] * WU[d, s]",
    "A[b, m, s] = gelu(U[b, m, s])",
    "O[b, m, d] = A[b, m, s] * WO[s, d]",
]
"""A transformer layer without norms, O for the sum of Y and a product."""
RESIDUAL = [*TRANSFORMER[:-1], "F[b, m, d] = A[b, m, s] * WO[s, d]", "O[b, m, d] = Y[b, m, d] + F[b, m, d]"]


def workload(einsums, bits=16, **sizes):
    """A workload of Einsums in text."""
    return Spec.from_dict(
        workload={"rank_sizes": sizes, "bits_per_value": {"All": bits}, "einsums": list(einsums)}
    ).workload


def transformer(layers=4, batch=8, tokens=64, heads=8, width=8, hidden=256, **more):
    """A model of equal transformer layers with residual sums."""
    sizes = {"B": 1, "M": tokens, "P": tokens, "H": heads, "E": width, "F": width, "D": heads * width, "S": hidden}
    layer = Layer("layer", workload(RESIDUAL, **sizes), Ranks(), layers)
    return TrainingModel((layer,), batch, **more)


def perceptron(widths, batch=8, bits=16, **more):
    """A model of one product after another."""
    einsums = [f"H{i + 1}[b, f{i + 1}] = H{i}[b, f{i}] * W{i}[f{i}, f{i + 1}]" for i in range(len(widths) - 1)]
    sizes = {"B": 1, **{f"F{i}": width for i, width in enumerate(widths)}}
    return TrainingModel.of(workload(einsums, bits, **sizes), batch, Ranks("B", None), **more)


def attention(layers, batch=8, tokens=16, width=16, **more):
    """A model of equal layers of attention with one head, whose keys are its values."""
    einsums = [
        "Q[b, m, e] = X[b, m, d] * WQ[d, e]",
        "K[b, p, e] = X[b, M: p, d] * WK[d, e]",
        "A[b, m, p] = exp(Q[b, m, e] * K[b, p, e])",
        "Z[b, m, e] = A[b, m, p] * K[b, p, e]",
        "O[b, m, d] = Z[b, m, e] * WZ[e, d]",
    ]
    sizes = {"B": 1, "M": tokens, "P": tokens, "D": width, "E": 2 * width}
    return TrainingModel((Layer("attention", workload(einsums, **sizes), Ranks(), layers),), batch, **more)


def experts(dense, layers, batch=8, n=4, width=32, tokens=16, **more):
    """A model of dense layers, then of layers with experts, to which positions go in turn."""
    sizes = {"B": 1, "M": tokens, "C": tokens // n, "X": n, "D": width, "S": 2 * width}
    plain = ["U[b, m, s] = X[b, m, d] * WU[d, s]", "O[b, m, d] = U[b, m, s] * WO[s, d]"]
    spread = [
        "N[b, m, d] = gelu(X[b, m, d])",
        f"XE[b, c, x, d] = N[b, M: {n}*c + x, d]",
        "U[b, c, x, s] = XE[b, c, x, d] * WU[x, d, s]",
        "F[b, c, x, d] = U[b, c, x, s] * WF[x, s, d]",
        f"O[b, M: {n}*c + x, d] = F[b, c, x, d]",
    ]
    made = [Layer("dense", workload(plain, **sizes), Ranks(), dense)] if dense else []
    made.append(Layer("experts", workload(spread, **sizes), Ranks("B", "M", "X"), layers))
    return TrainingModel(tuple(made), batch, **more)
