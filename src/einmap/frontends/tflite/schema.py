"""Numbers of fields and of operators of TFLite's schema (`schema.fbs` of LiteRT 2.3), as far as they are read."""

from __future__ import annotations

from collections.abc import Mapping

_NAMES = """
    ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE EMBEDDING_LOOKUP FLOOR
    FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D LOCAL_RESPONSE_NORMALIZATION LOGISTIC
    LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6 RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH
    SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER
    BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE
    BIDIRECTIONAL_SEQUENCE_RNN EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM
    ARG_MAX MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV SPARSE_TO_DENSE
    TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT REDUCE_PROD REDUCE_MAX PACK
    LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV REDUCE_ANY SQUARE ZEROS_LIKE FILL
    FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL
    REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND
    HARD_SWISH IF WHILE NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM
    BATCH_MATMUL PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS
    HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE READ_VARIABLE
    ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM MULTINOMIAL GELU
    DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX UNSORTED_SEGMENT_SUM ATAN2
    UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE
    STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE
    STABLEHLO_BROADCAST_IN_DIM STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE
    STABLEHLO_ABS STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG
    STABLEHLO_MINIMUM STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT
    STABLEHLO_SELECT STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT
    STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA STABLEHLO_DOT_GENERAL
    STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER STABLEHLO_TRANSPOSE DILATE
    STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT STABLEHLO_CASE
"""
NAMES = tuple(_NAMES.split())
"""Operators by number (`BuiltinOperator`)."""
CUSTOM = NAMES.index("CUSTOM")

KINDS = {
    0: 1, 1: 10, 2: 6, 3: 2, 4: 7, 6: 9, 7: 5, 9: 3, 10: 11, 12: 13, 15: 12, 16: 4, 17: 22, 18: 16, 19: 26, 20: 21,
    21: 17, 22: 19,
}  # fmt: skip
"""Types of ONNX (`TensorProto.DataType`) by those of TFLite (`TensorType`); texts, complex numbers are missing."""

type Fields = Mapping[str, tuple[int, str] | tuple[int, str, float]]

_WINDOW: Fields = {"padding": (0, "b"), "stride_w": (1, "i"), "stride_h": (2, "i")}
_ACTIVATION: Fields = {"activation": (0, "b")}
_POOL: Fields = {**_WINDOW, "filter_w": (3, "i"), "filter_h": (4, "i"), "activation": (5, "b")}
_KEEP: Fields = {"keep_dims": (0, "?")}
_ADJOINT: Fields = {"adj_x": (0, "?"), "adj_y": (1, "?")}

OPTIONS: Mapping[str, Fields] = {
    "CONV_2D": {**_WINDOW, "activation": (3, "b"), "dilation_w": (4, "i", 1), "dilation_h": (5, "i", 1)},
    "DEPTHWISE_CONV_2D": {**_WINDOW, "activation": (4, "b"), "dilation_w": (5, "i", 1), "dilation_h": (6, "i", 1)},
    "TRANSPOSE_CONV": {**_WINDOW, "activation": (3, "b")},
    "FULLY_CONNECTED": {"activation": (0, "b"), "weights_format": (1, "b"), "keep_num_dims": (2, "?")},
    "BATCH_MATMUL": _ADJOINT,
    **dict.fromkeys(("AVERAGE_POOL_2D", "MAX_POOL_2D", "L2_POOL_2D"), _POOL),
    **dict.fromkeys(("ADD", "SUB", "MUL", "DIV", "L2_NORMALIZATION"), _ACTIVATION),
    "SOFTMAX": {"beta": (0, "f")},
    "CONCATENATION": {"axis": (0, "i"), "activation": (1, "b")},
    "STRIDED_SLICE": {
        "begin_mask": (0, "i"), "end_mask": (1, "i"), "ellipsis_mask": (2, "i"), "new_axis_mask": (3, "i"),
        "shrink_axis_mask": (4, "i"), "offset": (5, "?"),
    },
    **dict.fromkeys(("MEAN", "SUM", "REDUCE_MAX", "REDUCE_MIN"), _KEEP),
    "RESIZE_BILINEAR": {"align_corners": (2, "?"), "half_pixel_centers": (3, "?")},
    "RESIZE_NEAREST_NEIGHBOR": {"align_corners": (0, "?"), "half_pixel_centers": (1, "?")},
    "UNIDIRECTIONAL_SEQUENCE_LSTM": {
        "activation": (0, "b"), "cell_clip": (1, "f"), "proj_clip": (2, "f"), "time_major": (3, "?"),
        "diagonal": (5, "?"),
    },
    "SVDF": {"rank": (0, "i"), "activation": (1, "b")},
    "LEAKY_RELU": {"alpha": (0, "f")},
    "PACK": {"axis": (1, "i")},
    "UNPACK": {"axis": (1, "i")},
    "GATHER": {"axis": (0, "i"), "batch_dims": (1, "i")},
    "SPACE_TO_DEPTH": {"block_size": (0, "i")},
    "DEPTH_TO_SPACE": {"block_size": (0, "i")},
    "LOCAL_RESPONSE_NORMALIZATION": {"radius": (0, "i"), "bias": (1, "f"), "alpha": (2, "f"), "beta": (3, "f")},
    "GELU": {"approximate": (0, "?")},
    "MIRROR_PAD": {"mode": (0, "b")},
    "CUMSUM": {"exclusive": (0, "?"), "reverse": (1, "?")},
}  # fmt: skip
"""Options that are read: by operator and name the number of the field, the letter of its type, and what is taken
without it (0)."""
