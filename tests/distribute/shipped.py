"""The shipped distributions: the commands that run them, at sizes that are quick and do not divide."""

from einmap import load
from einmap.distribute.plans.plan import Plan
from einmap.distribute.read import plan_of

MATMUL = {"M": 10, "K": 11, "N": 9}
ATTENTION = {"BATCH": 3, "N_TOKENS": 7, "D_IN": 5, "D_MODEL": 6, "HEADS": 6, "D_HEAD": 4}
ONE_HEAD = {"BATCH": 3, "N_TOKENS": 7, "D_IN": 5, "D_MODEL": 6, "D_HEAD": 4}
CAUSAL = {"BATCH": 2, "N_TOKENS": 11, "HEADS": 5, "D_HEAD": 3}
LLAMA = {"N_TOKENS": 5, "D_MODEL": 6, "HEADS": 6, "KV_HEADS": 3, "D_HEAD": 2, "D_FF": 10}
EXPERTS = {"GROUPS": 5, "TOKENS": 6, "EXPERTS": 6, "CAPACITY": 3, "D_MODEL": 4, "D_FF": 5}

IMPERFECT = {
    ("elementwise", "elementwise_parallel"): {"I": 13},
    ("matrix_vector", "matrix_vector_2d"): {"K": 11, "M": 10},
    **{
        ("matmul", f"matmul_{name}"): MATMUL
        for name in (
            "reduce_scatter",
            "overlap",
            "all_reduce",
            "all_gather_a",
            "all_gather_b",
            "2d_gather",
            "2d_reduce",
            "rotate_a",
            "rotate_b",
            "from_part",
            "cannon",
        )
    },
    ("matmul", "matmul_summa"): {**MATMUL, "PANELS": 3},
    ("attention", "attention_over_b"): ATTENTION,
    ("attention", "attention_over_h"): ATTENTION,
    ("attention", "attention_over_h_d"): ATTENTION,
    ("attention_single_head", "attention_over_b"): ONE_HEAD,
    ("attention_single_head", "attention_single_head_over_p"): ONE_HEAD,
    ("conv", "conv_rows"): {"P": 9, "Q": 4, "C": 3, "M": 2, "R": 3, "S": 2},
    ("attention", "attention_ring"): ATTENTION,
    ("attention_single_head", "attention_ring"): ONE_HEAD,
    ("llama3_8b", "llama3_8b_context_parallel"): LLAMA,
    ("attention_causal", "attention_causal_over_m"): CAUSAL,
    ("attention_causal", "attention_causal_over_h"): CAUSAL,
    ("attention_causal", "attention_causal_ring"): CAUSAL,
    ("mixture_of_experts", "mixture_of_experts_all_to_all"): EXPERTS,
    ("llama3_8b", "llama3_8b_fsdp"): {**LLAMA, "BATCH": 5},
    ("feed_forward", "feed_forward_fsdp"): {"N_TOKENS": 5, "D_MODEL": 6, "D_FF": 10},
    ("feed_forward", "feed_forward_columns_rows"): {"N_TOKENS": 5, "D_MODEL": 6, "D_FF": 10},
    ("llama3_8b", "llama3_8b_tensor_parallel"): LLAMA,
    ("llama3_8b", "llama3_8b_sequence_parallel"): LLAMA,
}
"""By workload and distribution: sizes of which few divide by the number of PEs."""
PERFECT = {
    names: dict.fromkeys(sizes, 8) | ({"PANELS": 2} if "PANELS" in sizes else {}) for names, sizes in IMPERFECT.items()
}
"""The same with sizes that all divide."""
DEVICES = (2, 4, 8)


def shipped_plan(names: tuple[str, str], sizes: dict, devices: int, dtype: str = "float64") -> Plan:
    """The plan of one example on so many PEs."""
    return plan_of(load(*names, define={**sizes, "G": devices}), dtype)
