"""Random workloads in which rows of tables are looked up by values of other tensors."""

from __future__ import annotations

import random

from tests.random_specs.workloads import Builder, Written, _small, _Text, chance


def embedding(rng: random.Random) -> Written:
    kinds = ["Y[t, d] = Table[V: Ids[t], d]", "Y[t, d] = Table[V: Ids[t], d] * W[d]", "Y[d] = Table[V: Ids[t], d]"]
    found = [_Text(rng.choice(kinds), rng.choice(["sum", "max"]))]
    if chance(rng, 0.4) and "Y[t" in found[0].text:
        found.append(_Text(rng.choice(["Z[t, e] = Y[t, d] * U[d, e]", "Z[t] = Y[t, d]"])))
    return found, _small(rng, "d", "e")


def places(rng: random.Random) -> Written:
    kinds = [
        "Y[b, s, d] = Table[V: Ids[b, s], d]", "Y[b, s, d] = Table[B: b, V: Ids[b, s], d]",
        "Y[i, j] = X[V: Place[i, j], J: j]", "Y[n, d] = X[V: First[n], W: Second[n], d]",
        "Y[t, d] = Table[V: Ids[T: t + 1], d]", "Y[p, d] = Table[V: Ids[T: p + r], d] * F[r]",
        "Y[d] = Table[V: Ids[T: 0], d]",
    ]  # fmt: skip
    return [_Text(rng.choice(kinds))], _small(rng, "b", "s", "r", "d")


def produced_table(rng: random.Random) -> Written:
    found = [_Text("X[v, d] = A[v, k] * B[k, d]")]
    kinds = [
        "Y[t, d] = X[V: Ids[t], d] * G[t]", "Y[e, c, d] = X[V: Slot[e, c], d]", "Y[t, d] = X[V: Ids[t], d] + R[t, d]",
    ]  # fmt: skip
    found.append(_Text(rng.choice(kinds)))
    if chance(rng, 0.4):
        indices = "t, d" if "Y[t" in found[-1].text else "e, c, d"
        found.append(_Text(f"Z[{indices}] = relu(Y[{indices}])"))
    if chance(rng, 0.3):
        found.append(_Text("Q[v, d] = X[v, d] * S[d]"))
    return found, _small(rng, "v", "k", "d", "e", "c", largest=4)


def produced_indices(rng: random.Random) -> Written:
    found = [_Text("Ids[t] = floor(J[t] / 4)"), _Text("Y[t, d] = Table[V: Ids[t], d]")]
    if chance(rng, 0.5):
        found.append(_Text("Z[t, e] = Y[t, d] * U[d, e]"))
    return found, _small(rng, "d", "e")


GATHERS: list[tuple[Builder, float]] = [(embedding, 3), (places, 4), (produced_table, 4), (produced_indices, 2)]
