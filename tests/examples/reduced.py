"""Every shipped workload at a size that can be run on real values."""

GPT = {"N_TOKENS": 3, "D_MODEL": 8, "HEADS": 2, "D_HEAD": 4, "D_FF": 6}
LLAMA = {"BATCH": 2, "N_TOKENS": 3, "D_MODEL": 8, "HEADS": 4, "KV_HEADS": 2, "D_HEAD": 4, "D_FF": 6}
NET = {"IMAGE": 32, "SHRINK": 64}

REDUCED = {
    "attention": {"BATCH": 2, "N_TOKENS": 5, "D_IN": 2, "D_MODEL": 3, "HEADS": 2, "D_HEAD": 4},
    "attention_causal": {"BATCH": 2, "N_TOKENS": 5, "HEADS": 2, "D_HEAD": 4},
    "attention_core": {"BATCH": 2, "N_TOKENS": 5, "N_CACHED": 7, "HEADS": 2, "D_HEAD": 4},
    "attention_single_head": {"BATCH": 2, "N_TOKENS": 5, "D_IN": 2, "D_MODEL": 3, "D_HEAD": 4},
    "conv": {"N": 2, "C": 3, "M": 4, "P": 5, "Q": 4, "R": 3, "S": 2, "STRIDE": 2, "DILATION": 2},
    "elementwise": {"I": 5},
    "feed_forward": {"N_TOKENS": 3, "D_MODEL": 4, "D_FF": 6},
    "gpt3_175b": {"BATCH": 2, **GPT},
    "gpt3_175b_decode": {"BATCH": 2, **GPT, "N_TOKENS": 1, "N_CACHED": 5},
    "gpt3_6.7b": {"BATCH": 2, **GPT},
    "gpt3_6.7b_decode": {"BATCH": 2, **GPT, "N_TOKENS": 1, "N_CACHED": 5},
    "llama3_8b": LLAMA,
    "llama3_8b_decode": {**LLAMA, "N_TOKENS": 1, "N_CACHED": 5},
    "lstm": {"N_STEPS": 4, "BATCH": 2, "D_INPUT": 3, "D_HIDDEN": 5},
    "matmul": {"M": 3, "K": 4, "N": 5},
    "matmul_chain": {"N_EINSUMS": 3, "M": 3, "N": 4},
    "matrix_vector": {"K": 3, "M": 4},
    "mixture_of_experts": {"GROUPS": 2, "TOKENS": 3, "EXPERTS": 4, "CAPACITY": 2, "D_MODEL": 3, "D_FF": 5},
    "mixture_of_experts_top_k": {"TOKENS": 5, "EXPERTS": 4, "CAPACITY": 2, "D_MODEL": 3, "D_FF": 5},
    "mobilenet_pair": {"N": 2, "C": 3, "M": 4, "P": 5, "Q": 4, "STRIDE": 2},
    "mobilenet_v1": NET,
    "resnet50": NET,
    "resnet50_layer": {"LAYER": "fc1000"},
    "two_matvecs": {"NI": 3, "NA": 4, "NB": 5},
    "vgg16": NET,
}
"""Template values by the name of the workload."""
