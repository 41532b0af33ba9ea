"""Small modules of PyTorch that `record.py` records."""


def every(torch):  # noqa: PLR0915
    """Name, module, inputs (shapes of fractions, or tensors), and dynamic shapes where there are some."""
    nn, F = torch.nn, torch.nn.functional

    def module(forward, **parts):
        class Module(nn.Module):
            def __init__(self):
                super().__init__()
                for name, part in parts.items():
                    if isinstance(part, torch.Tensor):
                        self.register_buffer(name, part.clone())
                    else:
                        setattr(self, name, part)

            def forward(self, *args):
                return forward(self, *args)

        return Module

    def elementwise(m, a, b):
        unary = "abs neg exp sin cos tan tanh sigmoid relu erf floor ceil round sign sinh cosh asinh square exp2 expm1 trunc"
        found = [getattr(torch, name)(3 * a) for name in unary.split()]
        found += [
            getattr(torch, name)(a.abs() + 0.1)
            for name in ["log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal"]
        ]
        gates = "silu mish hardswish selu softsign gelu elu celu leaky_relu hardsigmoid softshrink hardshrink softplus"
        found += [getattr(F, name)(3 * a) for name in f"{gates} logsigmoid relu6 hardtanh".split()]
        binary = "add sub mul div maximum minimum eq lt gt le ge ne remainder fmod floor_divide"
        found += [getattr(torch, name)(a, b).float() for name in binary.split()]
        found += [F.gelu(a, approximate="tanh"), F.softplus(a, beta=2), torch.add(a, b, alpha=2.5) - (1 - a)]
        found += [a**2 + a.abs() ** 1.5 + 2**a, torch.where(a > 0, a, 1.0), a.masked_fill(a > 0, -5.0)]
        found += [a.clamp(-0.5, 0.5), a.clamp(min=0), a.clamp_max(0.3), (((a > 0) & (b > 0)) | ~(a > b)).float()]
        found += [
            torch.lerp(a, b, 0.3),
            torch.addcmul(a, a, b, value=0.5),
            F.glu(a),
            (3 * a).int() // 2,
            a.to(torch.int64),
        ]
        return [*found, (a * 9).int() / 2]

    def layout(m, a, ids):
        found = [a.view(6, 20).t().reshape(5, 4, 6).permute(2, 0, 1).flatten(1) * 2, a[:, 1:, ::2, -3:] + a[0, 1, 2, 3]]
        found += [a[:, -1] + a[1, -2, -1], a.narrow(2, 1, 2) * 2, a.split([1, 3, 1], 3)[1] * 2, a.chunk(3, 2)[1] + 1]
        found += [torch.cat([a, a * 2, a[:, :1]], 1).sum(1), torch.stack([a, -a], 1) * 2, a.repeat(2, 1, 1, 2) + 1]
        found += [
            a.repeat_interleave(3, 1) * 2,
            a.flip(0, 2) + a.roll(1, 1),
            a.roll((1, -1), (0, 2)) + 1,
            a.unbind(1)[1] + 1,
        ]
        found += [
            F.pad(a, (1, 2, 0, 1)),
            F.pad(a, (1, 2), value=3.0),
            F.pad(a, (1, 1, 2, 0), mode="reflect"),
            a[0, 0].tril(),
        ]
        found += [F.pad(a, (-1, 1)), a.movedim((0, 1), (2, 0)) + 1, F.pixel_shuffle(a.view(1, 6, 4, 5)[:, :4], 2) + 1]
        found += [a + torch.arange(5) + torch.full((4, 1), 0.5) + torch.eye(4, 5) + torch.linspace(0, 1, 5)]
        found += [
            a[:, :, ids] * 2,
            a[:, ids, ids],
            a[ids[:2], :, ids[:2]],
            a[0, 0].gather(1, ids.view(2, 2)),
            a.index_select(1, ids),
        ]
        return [*found, m.table(ids), a.bfloat16().float().sum() * 0]

    def places(m, a, ids):
        zeros, found = ids * 0, [*a[0, 0].topk(2), a[0, 0].topk(1, 0, largest=False)[0], a[0, 0].argmax(1), a.argmin()]
        found += [a.argmax(2, keepdim=True), a.max(1)[1] * 2, a[:1][zeros] * 2, a[:, :1][:, zeros, ids] + 1]
        found += [a[:, :, :1][:, ids, zeros] * 2, a[:1, :, :1][zeros, :, zeros] * 2, a[:1].index_select(0, zeros) + 1]
        return [*found, a[0, 0][:, :1].gather(1, zeros.expand(4, 3)) + 1, a[0, 0].gather(1, ids.expand(4, 3)) + 1]

    def sums(m, a):
        b = a.reshape(2, 4, 9)
        found = [
            a.sum(),
            a.mean(),
            a.sum(1),
            a.mean((1, 2), keepdim=True),
            a.amax(-1),
            a.amin((0, 1)),
            a.max(),
            a.max(1).values,
        ]
        found += [
            a.logsumexp(1),
            a.std(),
            a.var(1),
            a.var((1, 2), unbiased=False),
            a.norm(),
            torch.linalg.vector_norm(a, 1, dim=2),
        ]
        found += [
            (a > 0).all(1).float(),
            (a > 0).any(-1).float(),
            (a > 0).sum(1),
            a.softmax(1),
            F.log_softmax(a, 0),
            a.cumsum(1),
        ]
        found += [
            *torch.var_mean(a, (1, 2), keepdim=True, correction=0),
            m.layer(a),
            m.rms(a),
            m.group(b),
            m.batch(b),
            m.single(b),
        ]
        return [*found, F.layer_norm(a, (3,)), F.rms_norm(a, (3,), eps=1e-6)]

    def images(m, a):
        found = [part(a) for part in m.parts] + [part(a[0]) for part in m.parts[:2]]
        return [*found, F.avg_pool2d(a, 3, 2, 1, count_include_pad=False), F.max_pool2d(a, 3, 2, ceil_mode=True)]

    def attention(m, q, k, v, mask):
        attend, few = F.scaled_dot_product_attention, (k[:, :2], v[:, :2])
        found = [attend(q, k, v), attend(q, k, v, is_causal=True), attend(q, k, v, attn_mask=mask > 0)]
        found += [attend(q, *few, enable_gqa=True), attend(q, *few, enable_gqa=True, is_causal=True, scale=0.3)]
        found += [attend(q, *few, attn_mask=mask, enable_gqa=True), attend(q[0], k[0], v[0], attn_mask=mask)]
        return [
            *found,
            q @ k.mT,
            torch.einsum("bhid,bhjd->bhij", q, k),
            torch.baddbmm(mask, q[0], k[0].mT, beta=0.5, alpha=2),
        ]

    def states(m, x, pos):
        m.cache[:, pos] = x
        m.count += 1
        m.rows[:, 2:4].copy_(x.expand(2, 2, 4))
        row = m.rows[0]
        row[1].mul_(2)
        m.rows[:, :, 0] = 7.0
        y = x.clone()
        y.transpose(1, 2)[:, 0] += 1
        y.view(-1)[2:4] = 0
        y.add_(1).mul_(2)
        with torch.no_grad():
            z = m.layer(y) * 2
        return m.cache.sum(1) * m.count, m.rows * 2 + row, y, z

    def recurrent(m, a):
        begins = a[..., :4].transpose(0, 1)
        both, (h, c) = m.lstm(a)
        few, (ends, _) = m.small(a.transpose(0, 1), (begins, begins * 2))
        return both, h, c, *m.gru(a), m.rnn(a[0], begins[0, :1])[0], few, ends

    def open_sizes(m, x):
        n, t = x.shape[:2]
        h = m.layer(x).view(n, t, 2, 4).transpose(1, 2)
        h = F.scaled_dot_product_attention(h, h, h, is_causal=True)
        return h.transpose(1, 2).reshape(n, t, 8).mean(1) + torch.arange(t).sum()

    parts = nn.ModuleList([
        nn.Conv2d(4, 6, 3, stride=2, padding=1), nn.Conv2d(4, 8, 3, groups=4, dilation=2), nn.Conv2d(4, 6, (2, 4), padding="same"),
        nn.ConvTranspose2d(4, 6, 3, stride=2, padding=1, output_padding=1), nn.MaxPool2d(3, 2, 1), nn.AvgPool2d(3, 2, 1),
        nn.AdaptiveAvgPool2d(1), nn.AdaptiveAvgPool2d((2, 1)), nn.Upsample(scale_factor=1.7), nn.Upsample(size=(5, 9)),
        nn.Upsample(scale_factor=2, mode="bilinear"), nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
        nn.Upsample(scale_factor=2, mode="bicubic"), nn.Upsample(scale_factor=2, mode="nearest-exact"),
        nn.Conv2d(4, 6, 3, padding=1, padding_mode="reflect"),
    ])  # fmt: skip
    norms = {
        "layer": nn.LayerNorm(3), "rms": nn.RMSNorm(3), "group": nn.GroupNorm(2, 4), "batch": nn.BatchNorm1d(4),
        "single": nn.InstanceNorm1d(4, affine=True),
    }  # fmt: skip
    yield "elementwise", module(elementwise), {"args_0": (3, 4), "args_1": (3, 4)}
    yield (
        "layout",
        module(layout, table=nn.Embedding(5, 6)),
        {"args_0": (2, 3, 4, 5), "args_1": torch.tensor([1, 0, 2, 1])},
    )
    yield "places", module(places), {"args_0": (2, 3, 4, 5), "args_1": torch.tensor([2, 0, 1])}
    yield "sums", module(sums, **norms), {"args_0": (2, 12, 3)}
    yield "images", module(images, parts=parts), {"args_0": (1, 4, 6, 7)}
    shapes = {"args_0": (2, 4, 5, 8), "args_1": (2, 4, 6, 8), "args_2": (2, 4, 6, 8), "args_3": (5, 6)}
    yield "attention", module(attention), shapes
    caches = {"cache": torch.zeros(2, 6, 4), "rows": torch.zeros(2, 6, 4), "count": torch.zeros(1)}
    yield "states", module(states, layer=nn.Linear(4, 4), **caches), {"args_0": (2, 1, 4), "args_1": torch.tensor([3])}
    how = {"num_layers": 2, "bidirectional": True, "batch_first": True}
    layers = {
        "lstm": nn.LSTM(5, 4, **how), "gru": nn.GRU(5, 4, **how), "rnn": nn.RNN(5, 4, nonlinearity="relu"),
        "small": nn.LSTM(5, 4, 2, bias=False),
    }  # fmt: skip
    yield "recurrent", module(recurrent, **layers), {"args_0": (3, 2, 5)}
    batch, time = torch.export.Dim("batch", max=64), torch.export.Dim("time", max=512)
    yield "open_sizes", module(open_sizes, layer=nn.Linear(8, 8)), {"args_0": (3, 5, 8)}, (({0: batch, 1: time},),)
    yield from language_models(torch)


def language_models(torch):
    """Models of transformers 5.24, of two layers."""
    import transformers as hf

    sizes = {"vocab_size": 40, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "use_cache": False}
    heads = {"num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 32}
    ids = {"input_ids": torch.tensor([[3, 1, 4, 1, 5, 9]])}
    yield "llama", lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**sizes, **heads)), ids
    bert = hf.BertConfig(**{**sizes, "num_attention_heads": 4, "max_position_embeddings": 32})
    yield "bert", lambda: hf.BertModel(bert), ids
    few = {"num_local_experts": 4, "num_experts_per_tok": 2}
    yield "mixtral", lambda: hf.MixtralForCausalLM(hf.MixtralConfig(**sizes, **heads, **few)), ids
    state = {"num_heads": 4, "head_dim": 8, "state_size": 8, "n_groups": 1, "chunk_size": 4, "expand": 2}
    yield "mamba2", lambda: hf.Mamba2ForCausalLM(hf.Mamba2Config(**{**sizes, **state})), ids
    width = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, "vocab_size": 40}
    more = {
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 24,
        "decoder_ffn_dim": 24,
        "num_mel_bins": 4,
        "pad_token_id": 0,
    }
    ends = {
        "max_source_positions": 8,
        "max_target_positions": 8,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "use_cache": False,
    }
    sounds = {"input_features": (1, 4, 16), "decoder_input_ids": torch.tensor([[3, 1, 4]])}
    yield (
        "whisper",
        lambda: hf.WhisperModel(hf.WhisperConfig(**width, **more, **ends, decoder_start_token_id=1)),
        sounds,
    )
