"""Small models of operators that language models are written with: nodes, inputs, weights, outputs, known inputs."""

import numpy as np
from tests.onnx_models import node, numbers

B, S, N, KV, H, D = 2, 3, 4, 2, 16, 64
ANGLES = np.arange(20)[:, None] * (1 / 10000 ** (np.arange(H // 2) / (H // 2)))
TURNS = {"cos": np.cos(ANGLES).astype(np.float32), "sin": np.sin(ANGLES).astype(np.float32)}
CASES = {}


def case(name, operator, names, inputs, weights=None, outputs=("y",), known=(), **attributes):
    made = node(operator, names, [*outputs], domain="com.microsoft", **attributes)
    CASES[name] = [made], inputs, weights or {}, outputs, known


def grouped(name, tokens, past, batch=B, packed=False, rotary=1, extra=None, more=(), known=("l", "t"), **how):
    rows = {"q": numbers(batch, tokens, (N + 2 * KV) * H if packed else D, seed=1)}
    if not packed:
        rows |= {"k": numbers(batch, tokens, KV * H, seed=2), "v": numbers(batch, tokens, KV * H, seed=3)}
    rows |= {"pk": numbers(batch, KV, past, H, seed=4), "pv": numbers(batch, KV, past, H, seed=5)}
    rows |= {"l": np.full(batch, past + tokens - 1, np.int32), "t": np.array(past + tokens, np.int32), **(extra or {})}
    angles = ["cos", "sin"] if rotary else ["", ""]
    names = ["q", *(["", ""] if packed else ["k", "v"]), "pk", "pv", "l", "t", *angles, *more]
    how |= {"num_heads": N, "kv_num_heads": KV, "do_rotary": rotary}
    case(name, "GroupQueryAttention", names, rows, TURNS if rotary else {}, ("y", "ok", "ov"), known, **how)


grouped("a prompt", 3, 0)
grouped("a token after five", 1, 5)
grouped("a token whose length is not known", 1, 5, known=())
grouped("a token, packed", 1, 5, packed=True)
grouped("a token without turns", 1, 5, rotary=0)
grouped("three tokens after five", 3, 5, batch=1)
grouped("neighbours turned", 1, 5, rotary_interleaved=1)
grouped("a window", 1, 7, local_window_size=4)
grouped("a window of a prompt", 6, 0, local_window_size=4)
grouped("bounded scores", 1, 5, softcap=3.0, scale=0.7)
grouped("a smooth softmax", 1, 5, smooth_softmax=1)
grouped("a sink", 1, 5, extra={"s": numbers(N, seed=9)}, more=("", "", "s"))
grouped("a bias", 1, 5, extra={"s": numbers(B, N, 1, 6, seed=9)}, more=("", "s"))
grouped("given positions", 1, 5, extra={"s": np.array([[5], [5]])}, more=("s",))

KEYS = {"q": numbers(B, S, D, seed=1), "k": numbers(B, 5, D, seed=2), "v": numbers(B, 5, D, seed=3)}
OWN = {"q": KEYS["q"], "k": numbers(B, S, D), "v": numbers(B, S, D, seed=4)}
PAST = {"pk": numbers(B, N, 5, H, seed=6), "pv": numbers(B, N, 5, H, seed=9)}


def multi(name, names, inputs, outputs=("y",), **how):
    case(name, "MultiHeadAttention", names, inputs, {}, outputs, num_heads=N, **how)


multi("a bias of the rows", [*"qkvb"], KEYS | {"b": numbers(3 * D)})
multi("rows of another layer", [*"qkv"], {"q": KEYS["q"], "k": PAST["pk"], "v": PAST["pv"]})
multi("a mask", [*"qkv", "", "m"], KEYS | {"m": np.array([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], np.int32)})
multi("lengths", [*"qkv", "", "m"], KEYS | {"m": np.array([3, 5], np.int32)})
multi("a bias of the scores", [*"qkv", "", "", "m"], KEYS | {"m": numbers(1, N, S, 5)})
multi("a cache", [*"qkv", "", "", "", "pk", "pv"], OWN | PAST, ("y", "ok", "ov"), unidirectional=1, scale=0.3)

X, W = {"x": numbers(B, S, 8)}, {"w": numbers(8, 3 * D), "b": numbers(3 * D)}


def plain(name, names, inputs, weights=W, outputs=("y",), **how):
    case(name, "Attention", names, inputs, weights, outputs, num_heads=N, **how)


plain("one weight", [*"xwb"], X, unidirectional=1)
plain("values of another size", [*"xwb"], X, {"w": numbers(8, 160), "b": numbers(160)}, qkv_hidden_sizes=[D, D, 32])
plain("starts and ends", [*"xwbm"], X | {"m": np.array([3, 3, 1, 0], np.int32)})
plain("a cache of both", [*"xwb", "", "p"], X | {"p": numbers(2, B, N, 4, H)}, outputs=("y", "o"), unidirectional=1)

for kind, where in (("from a place on", np.array([4])), ("at places", np.array([[0, 1, 2], [4, 5, 6]]))):
    rows = {"x": numbers(B, S, D), "p": where}
    case(f"turns {kind}", "RotaryEmbedding", ["x", "p", "cos", "sin"], rows, TURNS, interleaved=int(where.size > 1))
case("turns of half a head", "RotaryEmbedding", ["x", "p", "cos", "sin"], rows,
     {name: values[:, :4] for name, values in TURNS.items()}, rotary_embedding_dim=8, num_heads=N)  # fmt: skip
case("turns of heads apart", "RotaryEmbedding", ["x", "p", "cos", "sin"],
     {"x": numbers(B, N, S, H), "p": np.array([4])}, TURNS, known=("p",))  # fmt: skip

IDS = np.array([[1, 2, 3], [4, 0, 2]], np.int32)
TABLES = {"we": numbers(6, 8), "pe": numbers(5, 8), "se": numbers(2, 8), "g": numbers(8), "be": numbers(8)}
case("embeddings", "EmbedLayerNormalization", ["i", "s", "we", "pe", "se", "g", "be", "m"],
     {"i": IDS, "s": IDS % 2, "m": np.array([[1, 1, 0], [1, 1, 1]], np.int32)}, TABLES,
     outputs=("y", "n", "e"))  # fmt: skip

EVEN = np.full((4, 4), -2.0, np.float32)
EVEN[range(4), range(4)], EVEN[range(4), [1, 2, 3, 0]] = 3, 2.5


def mixture(name, rows, weights, names, router=None, operator="MoE", **how):
    router = numbers(rows, 4, seed=7) * 3 if router is None else router
    size = 32 if operator == "QMoE" else 8
    case(name, operator, ["x", "r", *names], {"x": numbers(rows, size), "r": router}, weights, k=2, **how)


LAYERS = {"w1": numbers(4, 12, 8, seed=2), "b1": numbers(4, 12, seed=3), "w2": numbers(4, 8, 12, seed=4),
          "b2": numbers(4, 8, seed=5)}  # fmt: skip
GATED = {"w1": numbers(4, 24, 8, seed=2), "w2": LAYERS["w2"]}
RNG = np.random.default_rng(3)
PACKED = {"w1": RNG.integers(0, 256, (4, 48, 16)).astype(np.uint8), "s1": numbers(4, 48, 2) / 50,
          "w2": RNG.integers(0, 256, (4, 32, 24)).astype(np.uint8), "s2": numbers(4, 32, 3, seed=3) / 50}  # fmt: skip
mixture("experts of a row", 1, LAYERS, ["w1", "b1", "w2", "b2"])
mixture("experts of two rows, shares of one", 2, LAYERS, ["w1", "b1", "w2", "b2"], activation_type="gelu",
        normalize_routing_weights=1)  # fmt: skip
mixture("experts with room for two rows each", 4, LAYERS, ["w1", "b1", "w2", "b2"], EVEN, activation_type="silu")
mixture("experts with gates", 4, GATED, ["w1", "", "w2"], EVEN, activation_type="swiglu", swiglu_fusion=1,
        activation_alpha=1.7, activation_beta=1.0, swiglu_limit=0.9)  # fmt: skip
HOW = {"activation_type": "silu", "expert_weight_bits": 4, "block_size": 16, "normalize_routing_weights": 1}
mixture("experts of 4 bits", 1, PACKED, ["w1", "s1", "", "w2", "s2", ""], operator="QMoE", **HOW)
mixture("experts of 4 bits with room", 4, PACKED, ["w1", "s1", "", "w2", "s2", ""], EVEN, operator="QMoE", **HOW)


def signature(array):
    """Three numbers that say which array it is: the first, and two sums with weights that differ."""
    flat = np.asarray(array, np.float64).reshape(-1)
    steps = np.arange(flat.size)
    return [float(flat[0]), float(flat @ np.sin(steps + 1)), float(flat @ np.cos(3 * steps))]
