"""A forward pass of language models in NumPy over a whole sequence, written from the publications and the fields of
`config.json`: no cache, no chunks, no Einsums of einmap. The judge of what is imported.
"""

import math

import numpy as np

STATES = ("mamba", "falcon_mamba", "mamba2")
RECURRENT = (*STATES, "qwen3_next")
LAYER_NORMS = ("phi", "nemotron")
ACTS = {
    "relu2": lambda x: np.maximum(x, 0) ** 2,
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "gelu_pytorch_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
}


def whole(x):
    """Two halves of features as one rank."""
    return x.reshape(*x.shape[:-2], -1)


def heat(c, positions):
    """What Llama 4 multiplies queries with in layers without rotary embedding."""
    return np.log(np.floor((positions + 1) / c["floor_scale"]) + 1) * c["attn_scale"] + 1


class Forward:
    """`c`: the config; `w`: weights by the names of the import, with shapes `[given..., made...]`; `ids`: [batch, time].

    `cache`: by name of the import, all positions; `routed`: by layer the chosen experts of each position; `index`: by
    layer the scores of positions and those that are chosen.
    """

    def __init__(self, c, w, ids):
        self.c, self.w, self.ids = c, w, ids
        self.cache, self.routed, self.index = {}, {}, {}
        self.kind = c["model_type"]
        self.gemma = self.kind.startswith("gemma")
        self.one = self.gemma or self.kind == "qwen3_next"

    def rms(self, x, gain, eps=None):
        eps = self.c.get("rms_norm_eps", 1e-6) if eps is None else eps
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps) * (gain + (1 if self.one else 0))

    def layer_norm(self, x, name, end=""):
        mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
        eps, one = 1e-5 if self.kind in LAYER_NORMS else 1e-12, 1 if self.kind == "nemotron" else 0
        return (x - mean) / np.sqrt(var + eps) * (self.w[f"{name}_gain{end}"] + one) + self.w[f"{name}_bias{end}"]

    def norm(self, x, name, end=""):
        """The norm between blocks."""
        if self.kind in LAYER_NORMS:
            return self.layer_norm(x, name, end)
        return self.rms(x, self.w[f"{name}_gain{end}"], 1e-5 if self.kind in STATES else None)

    def rotate(self, x):
        """Position t turns features i and i + half by the angle t * 10000 ** (-2 i / size)."""
        half = x.shape[-1] // 2
        angles = np.arange(x.shape[1])[:, None] * 10000.0 ** (-np.arange(half) / half)
        shape = (1, x.shape[1], *[1] * (x.ndim - 3), half)
        cos, sin = np.cos(angles).reshape(shape), np.sin(angles).reshape(shape)
        a, b = x[..., :half], x[..., half:]
        return np.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    def softmax(self, scores, window, causal=True, chunk=None, sink=None):
        t = np.arange(scores.shape[-1])
        seen = t[None, :] <= t[:, None] if causal else np.ones((len(t), len(t)), bool)
        if window is not None:
            seen &= t[None, :] > t[:, None] - window
        if chunk is not None:
            seen &= t[None, :] // chunk == t[:, None] // chunk
        scores = np.where(seen, scores, -np.inf)
        if sink is not None:  # a key without a value
            scores = np.concatenate([scores, np.broadcast_to(sink, (*scores.shape[:-1], 1))], -1)
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True))[..., : len(t)]

    def linear(self, x, name, given=1):
        w = self.w[f"W{name}"]
        y = np.tensordot(x, w, given)
        return y + self.w[f"{name}_bias"] if f"{name}_bias" in self.w else y

    def run(self):
        c = self.c
        if self.kind == "bert":
            return self.bert()
        x = self.w["Embedding"][self.ids]
        x = x * (math.sqrt(c["hidden_size"]) if self.gemma else c.get("embedding_multiplier", 1))
        for n in range(c["num_hidden_layers"]):
            x = self.layer(x, n)
        x = self.norm(x, "N", "_H")
        head = self.w["Embedding" if c.get("tie_word_embeddings", self.gemma) else "Unembedding"]
        logits = (x @ head.T + self.w.get("L_bias_H", 0)) / c.get("logits_scaling", 1)
        cap = c.get("final_logit_softcapping")
        return cap * np.tanh(logits / cap) if cap else logits

    def layer(self, x, n):
        whole, self.w = self.w, self.of_layer(n)
        both = self.kind in ("gemma2", "gemma3_text")
        if self.kind == "olmo2":
            x = x + self.rms(self.mixer(x, n), self.w["NY_gain"])
            x = x + self.rms(self.ffn(x, "F"), self.w["MY_gain"])
        elif self.kind == "phi":
            h = self.norm(x, "NX")
            x = x + self.mixer(h, n) + self.ffn(h, "F")
        else:
            share = self.c.get("residual_multiplier", 1)
            y = self.mixer(self.norm(x, "NX"), n)
            x = x + share * (self.rms(y, self.w["NY_gain"]) if both else y)
            if self.kind not in STATES:
                h = self.norm(x, "MX")
                y = self.moe(h, n) if "WR" in self.w else self.ffn(h, "F")
                x = x + share * (self.rms(y, self.w["MY_gain"]) if both else y)
        self.w = whole
        return x

    def of_layer(self, n):
        end = f"_{n}"
        return {k[: -len(end)]: v for k, v in self.w.items() if k.endswith(end)}

    def ffn(self, x, name):
        act = ACTS[self.c.get("hidden_act", "gelu_pytorch_tanh" if self.gemma else "silu")]
        if f"W{name}G" in self.w:
            return self.linear(act(self.linear(x, f"{name}G")) * self.linear(x, f"{name}U"), f"{name}D")
        return self.linear(act(self.linear(x, f"{name}U")), f"{name}D")

    def moe(self, x, n):
        c = self.c
        logits = x @ self.w["WR"] + self.w.get("WR_bias", 0)
        sigmoid = self.kind in ("deepseek_v3", "deepseek_v32", "llama4_text")
        scores = 1 / (1 + np.exp(-logits)) if sigmoid else np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)
        choice = scores + self.w["R_bias"] if "R_bias" in self.w else scores
        k = c["num_experts_per_tok"]
        chosen = np.argsort(-choice, -1)[..., :k]
        self.routed[n] = chosen
        gates = np.take_along_axis(scores, chosen, -1)
        if c.get("norm_topk_prob", self.kind in ("mixtral", "granitemoe", "gpt_oss", "deepseek_v3", "deepseek_v32")):
            gates = gates / gates.sum(-1, keepdims=True)
        gates = gates * c.get("routed_scaling_factor", 1.0)
        act, out = ACTS["silu"], np.zeros_like(x)
        for b in range(x.shape[0]):
            for t in range(x.shape[1]):
                for gate, e in zip(gates[b, t], chosen[b, t], strict=True):
                    if self.kind == "gpt_oss":
                        out[b, t] += gate * self.clamped(x[b, t], e)
                        continue
                    before, behind = (gate, 1) if self.kind == "llama4_text" else (1, gate)
                    inner = act(before * x[b, t] @ self.w["WEG"][e]) * (before * x[b, t] @ self.w["WEU"][e])
                    out[b, t] += behind * (inner @ self.w["WED"][e])
        if "WHU" in self.w:
            shared = self.ffn(x, "H")
            if "WHX" in self.w:
                shared = shared / (1 + np.exp(-(x @ self.w["WHX"])))[..., None]
            out = out + shared
        return out

    def clamped(self, x, e):
        """An expert of gpt-oss."""
        w, most = self.w, self.c["swiglu_limit"]
        gate = np.minimum(x @ w["WEG"][e] + w["EG_bias"][e], most)
        up = np.clip(x @ w["WEU"][e] + w["EU_bias"][e], -most, most)
        return (up + 1) * gate / (1 + np.exp(-1.702 * gate)) @ w["WED"][e] + w["ED_bias"][e]

    def mixer(self, x, n):
        if self.kind in STATES:
            return self.mamba(x, n) if self.kind == "mamba2" else self.mamba_1(x, n)
        if self.kind == "qwen3_next" and (n + 1) % self.c["full_attention_interval"]:
            return self.delta_rule(x, n)
        return self.mla(x, n) if "kv_lora_rank" in self.c else self.attention(x, n)

    def window(self, n):
        c = self.c
        if self.kind in ("gemma2", "gpt_oss"):
            return c["sliding_window"] if n % 2 == 0 else None
        if self.kind == "gemma3_text":
            return c["sliding_window"] if (n + 1) % c["sliding_window_pattern"] else None
        if self.kind in ("mistral", "phi3", "mixtral"):
            return c.get("sliding_window")
        if c.get("use_sliding_window"):
            return c["sliding_window"] if n >= c["max_window_layers"] else None
        return None

    def attention(self, x, n):
        # heads are two halves there, one rank here
        c = self.c
        llama4 = self.kind == "llama4_text"
        straight = llama4 and (n + 1) % c["no_rope_layer_interval"] == 0
        q, k, v = self.linear(x, "Q"), self.linear(x, "K"), self.linear(x, "V")
        q, k = (q, k) if straight else (whole(q), whole(k))
        if self.kind == "olmo2":  # over all heads
            flat = [
                (t.reshape(*t.shape[:2], -1), self.w[name].reshape(-1)) for t, name in ((q, "QN_gain"), (k, "KN_gain"))
            ]
            q, k = (self.rms(t, gain).reshape(old.shape) for (t, gain), old in zip(flat, (q, k), strict=True))
        elif "QN_gain" in self.w:
            q, k = self.rms(q, self.w["QN_gain"].reshape(-1)), self.rms(k, self.w["KN_gain"].reshape(-1))
        q, k = (q, k) if straight else (self.rotate(q), self.rotate(k))
        if llama4 and not straight:
            q, k = self.rms(q, 1.0), self.rms(k, 1.0)
        if straight:
            q = q * heat(c, np.arange(q.shape[1]))[None, :, None, None, None]
        self.cache[f"K_cache_{n}"], self.cache[f"V_cache_{n}"] = k, v
        scale = c.get("attention_multiplier", c.get("query_pre_attn_scalar", q.shape[-1]) ** -0.5)
        scores = np.einsum("bthge,bshe->bhgts", q, k) * scale
        cap = c.get("attn_logit_softcapping")
        scores = cap * np.tanh(scores / cap) if cap else scores
        sink = self.w["Sink"][None, :, :, None, None] if self.kind == "gpt_oss" else None
        chunk = c["attention_chunk_size"] if llama4 and not straight else None
        p = self.softmax(scores, self.window(n), chunk=chunk, sink=sink)
        found = np.einsum("bhgts,bshf->bthgf", p, v)
        if self.kind == "qwen3_next":
            found = found / (1 + np.exp(-self.linear(x, "QG")))
        return self.linear(found, "O", 3)

    def mla(self, x, n):
        source = self.rms(self.linear(x, "LQ"), self.w["LQN_gain"], 1e-6) if "WLQ" in self.w else x
        q, turned = self.linear(source, "Q"), self.rotate(whole(self.linear(source, "QT")))
        row, key = self.rms(self.linear(x, "C"), self.w["CN_gain"], 1e-6), self.rotate(whole(self.linear(x, "KT")))
        self.cache[f"C_cache_{n}"], self.cache[f"K_cache_{n}"] = row, key
        k, v = np.einsum("btk,khe->bthe", row, self.w["WUK"]), np.einsum("btk,khf->bthf", row, self.w["WUV"])
        full_q = np.concatenate([q, turned], -1)
        full_k = np.concatenate([k, np.broadcast_to(key[:, :, None], (*k.shape[:3], key.shape[-1]))], -1)
        scores = np.einsum("bthe,bshe->bhts", full_q, full_k) * full_q.shape[-1] ** -0.5
        if "index_topk" in self.c:
            scores = np.where(self.chosen(x, source, n)[:, None], scores, -np.inf)
        return self.linear(np.einsum("bhts,bshf->bthf", self.softmax(scores, None), v), "O", 2)

    def chosen(self, x, source, n):
        """Which positions a query of DeepSeek-V3.2 sees `[b, t, s]`: itself, and those with the largest scores."""
        q, k = self.rotate(whole(self.linear(source, "IQ"))), whole(self.linear(x, "IK"))
        k = (k - k.mean(-1, keepdims=True)) / np.sqrt(k.var(-1, keepdims=True) + 1e-6)
        k = self.rotate(k * self.w["IN_gain"].reshape(-1) + self.w["IN_bias"].reshape(-1))
        self.cache[f"IK_cache_{n}"] = k
        each = np.maximum(np.einsum("btye,bse->btys", q, k) * q.shape[-1] ** -0.5, 0)
        scores = np.einsum("btys,bty->bts", each, self.linear(x, "IW")) * q.shape[2] ** -0.5
        most, found = self.c["index_topk"], np.zeros(scores.shape, bool)
        picked = np.zeros((*scores.shape[:2], most))
        for b, t in np.ndindex(*scores.shape[:2]):
            others = np.argsort(-scores[b, t, :t])[: most - 1]
            found[b, t, [*others, t]] = True
            picked[b, t, : len(others) + 1] = [*others, t]
        self.index[n] = scores, picked
        return found

    def delta_rule(self, x, n):
        """Step by step: the state decays, and is moved towards the value of a key of length 1."""
        c, silu, made = self.c, ACTS["silu"], {}
        taps = c["linear_conv_kernel_dim"]
        for name in "QKV":
            raw = self.linear(x, f"{name}I")
            self.cache[f"{name}_cache_{n}"] = raw
            padded = np.concatenate([np.zeros((raw.shape[0], taps - 1, *raw.shape[2:])), raw], 1)
            rows = [(padded[:, t : t + taps] * self.w[f"W{name}_conv"]).sum(1) for t in range(raw.shape[1])]
            made[name] = silu(np.stack(rows, 1))
        q, k = (t / np.sqrt((t * t).sum(-1, keepdims=True) + 1e-6) for t in (made["Q"], made["K"]))
        share = 1 / (1 + np.exp(-self.linear(x, "B")))
        decay = np.exp(-np.exp(self.w["A_log"]) * np.log1p(np.exp(self.linear(x, "D") + self.w["Step_bias"])))
        state, states, out = np.zeros((*made["V"][:, 0].shape[:3], q.shape[-1], made["V"].shape[-1])), [], []
        for t in range(x.shape[1]):
            state = state * decay[:, t, ..., None, None]
            wrong = made["V"][:, t] - np.einsum("bghef,bge->bghf", state, k[:, t])
            state = state + np.einsum("bge,bghf->bghef", k[:, t], wrong * share[:, t, ..., None])
            states.append(state)
            out.append(np.einsum("bghef,bge->bghf", state, q[:, t]) * q.shape[-1] ** -0.5)
        self.cache[f"State_{n}"] = np.stack(states, 1)
        y = np.stack(out, 1)
        y = y / np.sqrt((y * y).mean(-1, keepdims=True) + 1e-6) * self.w["YN_gain"]
        return self.linear(y * silu(self.linear(x, "Z")), "O", 3)

    def mamba_1(self, x, n):
        """Step by step, by the equations of Gu and Dao."""
        taps, silu, raw = self.c["conv_kernel"], ACTS["silu"], self.linear(x, "XI")
        self.cache[f"X_cache_{n}"] = raw
        padded = np.concatenate([np.zeros((raw.shape[0], taps - 1, raw.shape[2])), raw], 1)
        rows = [(padded[:, t : t + taps] * self.w["WX_conv"]).sum(1) for t in range(raw.shape[1])]
        x_in = silu(np.stack(rows, 1) + self.w["X_conv_bias"])
        step, b, c = (self.linear(x_in, name) for name in ("T", "B", "C"))
        if self.kind == "falcon_mamba":
            step, b, c = (self.rms(t, 1.0, 1e-6) for t in (step, b, c))
        delta = np.log1p(np.exp(self.linear(step, "D") + self.w["Step_bias"]))
        state, states, out = np.zeros((x.shape[0], raw.shape[2], b.shape[-1])), [], []
        for t in range(x.shape[1]):
            decay = np.exp(-delta[:, t, :, None] * np.exp(self.w["A_log"]))
            state = decay * state + (delta[:, t] * x_in[:, t])[..., None] * b[:, t, None]
            states.append(state)
            out.append(np.einsum("bpn,bn->bp", state, c[:, t]) + self.w["D_skip"] * x_in[:, t])
        self.cache[f"State_{n}"] = np.stack(states, 1)
        return self.linear(np.stack(out, 1) * silu(self.linear(x, "Z")), "O")

    def mamba(self, x, n):
        """Step by step: the recurrence itself."""
        c = self.c
        taps, silu = c["conv_kernel"], ACTS["silu"]
        made = {}
        for name in "XBC":
            raw = self.linear(x, f"{name}I")
            self.cache[f"{name}_cache_{n}"] = raw
            padded = np.concatenate([np.zeros((raw.shape[0], taps - 1, *raw.shape[2:])), raw], 1)
            rows = [padded[:, t : t + taps] * self.w[f"W{name}_conv"] for t in range(raw.shape[1])]
            made[name] = silu(np.stack([r.sum(1) for r in rows], 1) + self.w[f"{name}_conv_bias"])
        delta = np.log1p(np.exp(self.linear(x, "D") + self.w["Step_bias"]))
        state = np.zeros((*made["X"].shape[:1], *made["X"].shape[2:], made["B"].shape[-1]))
        states, rows = [], []
        for t in range(x.shape[1]):
            d = delta[:, t]
            decay = np.exp(-d * np.exp(self.w["A_log"]))[..., None, None]
            state = state * decay + np.einsum("bgh,bghp,bgn->bghpn", d, made["X"][:, t], made["B"][:, t])
            states.append(state)
            rows.append(np.einsum("bghpn,bgn->bghp", state, made["C"][:, t]))
        self.cache[f"State_{n}"] = np.stack(states, 1)
        y = np.stack(rows, 1) + made["X"] * self.w["D_skip"][..., None]
        y = y * silu(self.linear(x, "Z"))
        flat = y.reshape(*y.shape[:2], -1)
        y = self.rms(flat, self.w["YN_gain"].reshape(-1), 1e-5).reshape(y.shape)
        return self.linear(y, "O", 3)

    def bert(self):
        w = self.w
        time = self.ids.shape[1]
        x = w["Embedding"][self.ids] + w["Position_E"][:time] + w["Kind_E"][np.zeros_like(self.ids)]
        x = self.layer_norm(x, "XN", "_E")
        for n in range(self.c["num_hidden_layers"]):
            whole, self.w = self.w, self.of_layer(n)
            q, k, v = (self.linear(x, name) for name in "QKV")
            scores = np.einsum("bthge,bshe->bhgts", q, k) / math.sqrt(q.shape[-1])
            p = self.softmax(scores, None, causal=False)
            y = self.linear(np.einsum("bhgts,bshf->bthgf", p, v), "O", 3)
            x = self.layer_norm(x + y, "Mixed")
            x = self.layer_norm(x + self.ffn(x, "F"), "Output")
            self.w = whole
        return np.tanh(x[:, 0] @ w["WPool_H"] + w["Pool_bias_H"])
