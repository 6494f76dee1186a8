"""A model of one node for each operator of ONNX Runtime's own that a kernel table names; ``T`` is a type.

Where the CPU has a kernel too, the inputs are such that both can run it and the results can be compared.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import onnx

ATTENTION: Final = "T[1,3,16] q, T[1,3,16] k, T[1,3,16] v"
QUANTIZED: Final = "uint8[8,1,16] b, T[8,1] s"

#: Inputs, outputs and the node's attributes, by operator.
MODELS: Final = {
    "SimplifiedLayerNormalization": ("T[2,8] x, T[8] scale", "y", ""),
    "Attention": ("T[1,3,8] x, T[8,24] w, T[24] b", "y", "num_heads = 2"),
    "BiasAdd": ("T[1,4,320] x, T[320] b, T[1,4,320] skip", "y", ""),
    "BiasGelu": ("T[2,8] x, T[8] b", "y", ""),
    "BiasSplitGelu": ("T[1,2,2560] x, T[2560] b", "y", ""),
    "CausalConvWithState": ("T[1,4,6] x, T[4,1,3] w, T[4] b, T[1,4,2] past", "y, present", ""),
    "EngramGate": ("T[1,2,1,8] k, T[1,2,1,8] q, T[1,2,8] v, T[1,8] ks, T[1,8] qs", "y", ""),
    "FastGelu": ("T[2,8] x, T[8] b", "y", ""),
    "FusedConv": ("T[1,1,8,8] x, T[1,1,3,3] w", "y", 'activation = "Relu"'),
    "GatedAdd": ("T[2,8] x, T[2,8] z, T[2,1] gate", "y", ""),
    "GatedRMSNorm": ("T[2,8] x, T[8] scale, T[2,8] gate", "y", ""),
    "GatherBlockQuantized": (
        "uint8[4,16] data, int64[2] at, T[4,1] s",
        "y",
        "bits = 4, block_size = 32, gather_axis = 0, quantize_axis = 1",
    ),
    "Gelu": ("T[2,8] x", "y", ""),
    "GroupQueryAttention": (
        "T[1,1,16] q, T[1,1,16] k, T[1,1,16] v, T[1,2,4,8] pk, T[1,2,4,8] pv, int32[1] ends, int32[1] total",
        "y, present_k, present_v",
        "num_heads = 2, kv_num_heads = 2",
    ),
    "LinearAttention": (
        "T[1,2,16] q, T[1,2,16] k, T[1,2,16] v, T[1,2,8,8] past",
        "y, present",
        'q_num_heads = 2, kv_num_heads = 2, update_rule = "linear"',
    ),
    "LinearAttentionGate": ("T[1,2,2] a, float[2] bias, float[2] scale", "y", ""),
    "MRotaryEmbedding": (
        "T[1,2,4,8] x, int64[3,1,4] at, T[8,4] cos, T[8,4] sin",
        "y",
        "mrope_section = [2, 1, 1]",
    ),
    "MatMulBnb4": (
        "T[2,32] a, uint8[128] b, T[8] absmax",
        "y",
        "K = 32, N = 8, block_size = 32, quant_type = 1",
    ),
    "MatMulNBits": (f"T[2,32] a, {QUANTIZED}", "y", "K = 32, N = 8, bits = 4, block_size = 32"),
    "MatMulNBitsMlp": (
        "T[2,32] a, T[2,32] skip, T[32] norm, uint8[8,1,16] gb, T[8,1] gs, T[8] gbias, "
        "uint8[8,1,16] ub, T[8,1] us, T[8] ubias",
        "y",
        'activation = "silu", K = 32, N = 8, bits = 4, block_size = 32',
    ),
    "MatMulNBitsQkv": (
        "T[2,32] a, T[2,32] skip, T[32] norm, uint8[8,1,16] qb, T[8,1] qs, -, uint8[8,1,16] kb, T[8,1] ks, "
        "-, uint8[8,1,16] vb, T[8,1] vs",
        "q, k, v",
        "K = 32, Nq = 8, Nkv = 8, bits = 4, block_size = 32",
    ),
    "MultiHeadAttention": (ATTENTION, "y", "num_heads = 2"),
    "NGramHashMapping": (
        "int32[1,4] ids, int32[2] multipliers, int32[2] sizes",
        "y",
        "pad_id = 0, n_head_per_ngram = 2, max_ngram_size = 2",
    ),
    "PagedAttention": (
        "T[2,16] q, T[2,16] k, T[2,16] v, T[2,16,2,8] kc, T[2,16,2,8] vc, int32[2] ends, int32[1] past, "
        "int32[1,2] table",
        "y",
        "num_heads = 2, kv_num_heads = 2",
    ),
    "QMoE": (
        "T[2,32] x, T[2,2] p, uint8[2,32,16] w1, T[2,32] s1, T[2,32] b1, uint8[2,32,16] w2, T[2,32] s2",
        "y",
        'k = 1, activation_type = "swiglu", swiglu_fusion = 1, expert_weight_bits = 4',
    ),
    "QuickGelu": ("T[2,8] x", "y", ""),
    "RotaryEmbedding": ("T[1,2,4,8] x, int64[1,4] at, T[8,4] cos, T[8,4] sin", "y", ""),
    "SkipLayerNormalization": ("T[1,2,8] x, T[1,2,8] skip, T[8] gamma, T[8] beta", "y", ""),
    "SkipSimplifiedLayerNormalization": ("T[1,2,8] x, T[1,2,8] skip, T[8] gamma", "y", ""),
}
#: Of a sequence of four and one more.
VALUES: Final = {"ends": 4, "total": 5}
#: The shapes of their inputs are not such that they run.
NOT_RUN: Final = frozenset({"PagedAttention", "QMoE"})


def feeds(proto: onnx.ModelProto) -> list[np.ndarray[Any, Any]]:
    """Seeded noise for the inputs of a model."""
    random, found = np.random.default_rng(0), []
    for value in proto.graph.input:
        shape = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        dtype = onnx.helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        noise = random.standard_normal(shape) if dtype.kind == "f" else random.integers(0, 2, shape)
        found.append(np.full(shape, VALUES.get(value.name, noise)).astype(dtype))
    return found


def model(op: str, dtype: str) -> onnx.ModelProto:
    """The model of an operator with the element type ``dtype``."""
    inputs, outputs, attributes = MODELS[op]
    given = [each for each in inputs.split(", ") if each != "-"]
    taken = ", ".join(each.split()[-1].strip("-") for each in inputs.split(", "))
    head = '<ir_version: 10, opset_import: ["": 17, "com.microsoft": 1]>'
    domain = "" if op == "SimplifiedLayerNormalization" else "com.microsoft."
    call = f"[n0] {outputs} = {domain}{op} <{attributes}> ({taken})".replace(" <>", "")
    text = f"{head} g ({', '.join(given).replace('T[', f'{dtype}[')}) => ({outputs}) {{ {call} }}"
    proto: onnx.ModelProto = onnx.parser.parse_model(text)
    return proto
