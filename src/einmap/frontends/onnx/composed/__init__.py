"""Operators of ONNX Runtime that stand for many of ONNX: each has a body, whose operators come in place of it.

- `body`: the operators and constants of a body.
- `attention`: attention in its four forms.
- `scores`: what these have in common: masks, softmax, caches.
- `rotary`: rotary embeddings.
- `experts`: mixtures of experts.
- `embedding`: embeddings that are summed and normalised.
- `causal`: causal convolutions with a state, and gates.
- `caches`: rows that are written into a cache.
- `table`: all of them by name.
"""
