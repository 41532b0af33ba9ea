"""Transformers as Einsums, an Einsum for each kernel that runs by itself, and the plans that they were trained by.

A norm, rotary embedding, softmax, dropout or activation reads its input once and writes its result once. Scores of
fused attention stay on the chip: they have next to no bits. Values go to experts evenly. Functions stand for kernels
whose backward pass reads the same: gelu its argument, as norms do, exp and tanh their results, as softmax does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from einmap.distribute.training.model import Layer, Ranks, TrainingModel
from einmap.spec.spec import Spec

ON_CHIP = 2**-10
"""Bits of a value that never leaves the chip."""


@dataclass(frozen=True)
class Transformer:
    """`heads` of queries, `kv` of keys and values; `width` of a head's keys, `value_width` of its values; `latent`:
    features of queries, and of keys and values, that are made from it first; `window`: positions that half of the
    layers attend to; `hidden_ff` of a dense layer, `expert_ff` of each of `experts`, `top` of which a position goes to,
    `shared_ff` of experts for all; `dense_layers`: first ones that are dense in a model with experts.
    """

    hidden: int
    hidden_ff: int
    heads: int
    layers: int
    vocabulary: int
    kv: int = 0
    width: int = 128
    value_width: int = 0
    latent: tuple[int, int] | None = None
    window: int = 0
    experts: int = 0
    top: int = 0
    expert_ff: int = 0
    shared_ff: int = 0
    dense_layers: int = 0
    gated: bool = True
    fused_attention: bool = True
    dropout: bool = False

    def positions(self, length: int) -> int:
        """The length of a sequence, less what does not divide evenly over experts."""
        return length - length % (self.experts or 1)

    def trained(
        self, length: int, batch: int, product_bits: float | None = None, copies: float | None = None
    ) -> TrainingModel:
        """The model with a loss, on so many sequences a step. `copies`: of a position that are sent to experts, and
        back, None: one for each expert.
        """
        length = self.positions(length)
        layers = []
        dense = self.dense_layers if self.experts else self.layers
        if dense:
            layers.append(self._layer("dense", dense, length, product_bits, replace(self, experts=0)))
        windowed = (self.layers - dense) // 2 if self.window else 0
        if windowed:
            layers.append(self._layer("window", windowed, length, product_bits, self, self.window, copies))
        if self.layers > dense + windowed:
            rest = self.layers - dense - windowed
            layers.append(self._layer("experts", rest, length, product_bits, self, 0, copies))
        head = [
            "NH[b, m, d] = gelu(O[b, m, d])",
            "LO[b, m, v] = NH[b, m, d] * WV[d, v]",
            "L32[b, m, v] = tanh(LO[b, m, v])",
            "R[b, m] = exp(L32[b, m, v])",
        ]
        sizes = {"B": 1, "M": length, "D": self.hidden, "V": self.vocabulary}
        layers.append(Layer("loss", _workload(head, sizes, {"L32": 32, "R": 32}), Ranks()))
        table = self.vocabulary * self.hidden
        return TrainingModel(tuple(layers), batch, gradient_bytes=4.0, table=table)

    @staticmethod
    def _layer(
        name: str,
        count: int,
        length: int,
        product_bits: float | None,
        shape: Transformer,
        window: int = 0,
        copies: float | None = None,
    ) -> Layer:
        sizes, einsums = shape.einsums(length, window)
        narrow = {"QK | A": ON_CHIP} if shape.fused_attention else {}
        if shape.experts:
            narrow["XI | XD"] = 16 * min(1.0, (copies or shape.top) / shape.top)
        ranks = Ranks("B", "M", "X" if shape.experts else None)
        return Layer(name, _workload(einsums, sizes, narrow), ranks, count, product_bits)

    def einsums(self, length: int, window: int) -> tuple[dict[str, int], list[Any]]:
        """Sizes and Einsums of a layer."""
        kv = self.kv or self.heads
        sizes = {"B": 1, "M": length, "P": length, "D": self.hidden, "H": kv, "G": self.heads // kv, "E": self.width}
        sizes["F"] = self.value_width or self.width
        einsums: list[Any] = ["N[b, m, d] = gelu(I[b, m, d])"]
        read = ("N[b, m, d] * WQ[d, h, g, e]", "N[b, M: p, d] * WK[d, h, e]", "N[b, M: p, d] * WV[d, h, f]")
        if self.latent:
            sizes["A"], sizes["L"] = self.latent
            einsums += ["QL[b, m, a] = N[b, m, d] * WQL[d, a]", "KL[b, p, l] = N[b, M: p, d] * WKL[d, l]"]
            read = ("QL[b, m, a] * WQ[a, h, g, e]", "KL[b, p, l] * WK[l, h, e]", "KL[b, p, l] * WV[l, h, f]")
        written = ("Q[b, m, h, g, e]", "K[b, p, h, e]", "V[b, p, h, f]")
        einsums += [f"{made} = {product}" for made, product in zip(written, read, strict=True)]
        query = "Q"
        if self.gated:
            query = "QR"
            einsums.append("QR[b, m, h, g, e] = tanh(Q[b, m, h, g, e])")
        einsums += self._attention(query, window)
        einsums += ["Z[b, m, d] = AV[b, m, h, g, f] * WZ[h, g, f, d]", "Y[b, m, d] = I[b, m, d] + Z[b, m, d]"]
        einsums.append("NY[b, m, d] = gelu(Y[b, m, d])")
        added = ["Y[b, m, d]"]
        ff = self.shared_ff if self.experts else self.hidden_ff
        if ff:
            sizes["S"] = ff
            einsums += self._feed_forward()
            added.append("FD[b, m, d]")
        if self.experts:
            sizes |= {"X": self.experts, "J": length * self.top, "C": length * self.top // self.experts}
            sizes["W"] = self.expert_ff
            einsums += self._experts()
            added.append("XO[b, m, d]")
        return sizes, [*einsums, f"O[b, m, d] = {' + '.join(added)}"]

    def _attention(self, query: str, window: int) -> list[Any]:
        # kernels that are not fused compute all scores
        cut = ["p <= m", *([f"m < p + {window}"] if window else [])] if self.fused_attention else []
        made = [
            f"QK[b, h, g, m, p] = {query}[b, m, h, g, e] * K[b, p, h, e]",
            "A[b, h, g, m, p] = exp(QK[b, h, g, m, p])",
            *(["AD[b, h, g, m, p] = relu(A[b, h, g, m, p])"] if self.dropout else []),
            f"AV[b, m, h, g, f] = {'AD' if self.dropout else 'A'}[b, h, g, m, p] * V[b, p, h, f]",
        ]
        return [{"einsum": text, "iteration_space_shape": cut} if cut else text for text in made]

    def _feed_forward(self) -> list[str]:
        gate = ["FG[b, m, s] = NY[b, m, d] * WG[d, s]", "FA[b, m, s] = FU[b, m, s] * sigmoid(FG[b, m, s])"]
        middle = gate if self.gated else ["FA[b, m, s] = gelu(FU[b, m, s])"]
        return ["FU[b, m, s] = NY[b, m, d] * WU[d, s]", *middle, "FD[b, m, d] = FA[b, m, s] * WD[s, d]"]

    def _experts(self) -> list[Any]:
        """A copy of each position for each of its experts, sorted by expert, and back."""
        copies = {"iteration_space_shape": [f"0 <= r < {self.top}"]}
        return [
            {"einsum": f"XC[b, J: {self.top}*m + r, d] = NY[b, m, d]", **copies},
            f"XI[b, c, x, d] = XC[b, J: {self.experts}*c + x, d]",
            "XU[b, c, x, w] = XI[b, c, x, d] * WXU[x, d, w]",
            "XG[b, c, x, w] = XI[b, c, x, d] * WXG[x, d, w]",
            "XA[b, c, x, w] = XU[b, c, x, w] * sigmoid(XG[b, c, x, w])",
            "XD[b, c, x, d] = XA[b, c, x, w] * WXD[x, w, d]",
            f"XS[b, J: {self.experts}*c + x, d] = XD[b, c, x, d]",
            {"einsum": f"XO[b, m, d] = XS[b, J: {self.top}*m + r, d]", **copies},
        ]


def _workload(einsums: list[Any], sizes: Mapping[str, int], bits: Mapping[str, float]) -> Any:
    given = {"rank_sizes": dict(sizes), "bits_per_value": {"Other": 16, **bits}, "einsums": einsums}
    return Spec.from_dict(workload=given).workload


def gpt(hidden: int, heads: int, width: int, layers: int) -> Transformer:
    """A GPT as Megatron trained it in 2021 and 2022: attention in several kernels, with dropout."""
    return Transformer(
        hidden, 4 * hidden, heads, layers, 51200, width=width, gated=False, fused_attention=False, dropout=True
    )


MODELS = {
    "LLAMA3_70B": Transformer(8192, 28672, 64, 80, 128256, kv=8),
    "LLAMA3.1_405B": Transformer(16384, 53248, 128, 126, 128256, kv=8),
    "Qwen3_30B_a3B": Transformer(2048, 0, 32, 48, 151936, kv=4, experts=128, top=8, expert_ff=768),
    "Qwen3_235B_a22B": Transformer(4096, 0, 64, 94, 151936, kv=4, experts=128, top=8, expert_ff=1536),
    "GPT OSS 120B": Transformer(
        2880, 0, 64, 36, 201088, kv=8, width=64, window=128, experts=128, top=4, expert_ff=2880
    ),
    "DeepSeekV3": Transformer(
        7168, 18432, 128, 61, 129280, width=192, value_width=128, latent=(1536, 576),
        experts=256, top=8, expert_ff=2048, shared_ff=2048, dense_layers=3,
    ),
    "Kimi_K2": Transformer(
        7168, 18432, 64, 61, 163840, width=192, value_width=128, latent=(1536, 576),
        experts=384, top=8, expert_ff=2048, shared_ff=2048, dense_layers=1,
    ),
}  # fmt: skip
"""Shapes from the models' reports and published configurations."""


def stage_layers(layers: int, stages: int) -> tuple[int, ...]:
    """Layers of each stage, the loss on the last one beside them: as even as can be, or, where that divides evenly,
    with the embedding and the loss as one layer each, as users of Megatron write it.
    """
    if layers % stages and (layers + 2) % stages == 0:
        counts = [(layers + 2) // stages] * stages
        counts[0] -= 1
        counts[-1] -= 1
    else:
        counts = [layers * (i + 1) // stages - layers * i // stages for i in range(stages)]
    counts[-1] += 1
    return tuple(counts)
