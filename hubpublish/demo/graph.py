"""A graph under construction, in the idioms of PyTorch's TorchScript exporter.

The exporter turns every Python-level ``x.shape``, ``view``, ``pad`` and ``//`` into little chains of Shape,
Gather, Unsqueeze, Concat and Cast nodes, each with Constants of its own. Rewrites must cope with
those, so the demo model has them too.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

from hubpublish.demo.config import Dtype

#: What stands for "to the end" in a Slice.
END = np.iinfo(np.int64).max

Array = npt.NDArray[Any]
#: Standard deviation of max(x, 0) for a standard normal x.
RELU_DEVIATION = 0.58
#: A dimension of a view: known to the exporter, or the name of a scalar int64 tensor.
Dim = int | str


class GraphBuilder:
    """Collects nodes and initializers; names both as a PyTorch export does.

    A node is named after the module it belongs to (``/bb/layers.0/Reshape_3``), its outputs after the node.
    Random weights depend on the seed and their own name alone, so that neither the order of building
    nor the precision changes them: fp16 weights are the fp32 ones, rounded.

    Args:
        dtype: Precision of weights, float Constants and float Casts.
        seed: Seed of all weights.
    """

    def __init__(self, dtype: Dtype, seed: int) -> None:
        self.float_dtype: type[np.floating[Any]] = np.float16 if dtype == "fp16" else np.float32
        self.float_type: int = TensorProto.FLOAT16 if dtype == "fp16" else TensorProto.FLOAT
        self.nodes: list[onnx.NodeProto] = []
        self.initializers: dict[str, onnx.TensorProto] = {}
        self._seed = seed
        self._scopes: list[str] = []
        self._names: Counter[str] = Counter()
        self._made: dict[tuple[str, str, Dim], str] = {}

    @contextmanager
    def scope(self, name: str) -> Iterator[None]:
        """Nodes made inside belong to the submodule ``name``."""
        self._scopes.append(name)
        yield
        self._scopes.pop()

    def op(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Add a node with one output and return the output's name."""
        return self.op_many(op_type, *inputs, outputs=1, **attributes)[0]

    def op_many(self, op_type: str, *inputs: str, outputs: int, **attributes: Any) -> list[str]:
        """Add a node with any number of outputs and return their names."""
        name = self._fresh("/".join(["", *self._scopes, op_type]))
        names = [f"{name}_output_{index}" for index in range(outputs)]
        self.nodes.append(helper.make_node(op_type, list(inputs), names, name=name, **attributes))
        return names

    def _fresh(self, name: str) -> str:
        self._names[name] += 1
        count = self._names[name] - 1
        return f"{name}_{count}" if count else name

    # Constants and weights.

    def const(self, value: Array) -> str:
        """A Constant node; floats in the model's precision."""
        if value.dtype.kind == "f":
            value = value.astype(self.float_dtype)
        return self.op(
            "Constant", value=numpy_helper.from_array(np.ascontiguousarray(value).reshape(value.shape))
        )

    def ints(self, *values: int) -> str:
        """A Constant of shape [len(values)], int64."""
        return self.const(np.array(values, dtype=np.int64))

    def integer(self, value: int) -> str:
        """A scalar int64 Constant."""
        return self.const(np.array(value, dtype=np.int64))

    def number(self, value: float) -> str:
        """A scalar float Constant."""
        return self.const(np.array(value, dtype=np.float32))

    def random(self, name: str, shape: Sequence[int]) -> npt.NDArray[np.float32]:
        """Standard normal numbers that depend on the seed and the name."""
        digest = hashlib.sha256(f"{self._seed}:{name}".encode()).digest()
        generator = np.random.default_rng(int.from_bytes(digest[:8], "little"))
        return generator.standard_normal(tuple(shape), dtype=np.float32)

    def initializer(self, name: str, values: Array) -> str:
        """An initializer in the model's precision; the one already there if the name is taken."""
        if name not in self.initializers:
            values = np.ascontiguousarray(values.astype(self.float_dtype))
            self.initializers[name] = numpy_helper.from_array(values, name)
        return name

    def weight(self, name: str, shape: Sequence[int], std: float, mean: float = 0.0) -> str:
        """An initializer of normal random numbers; the one already there if the name is taken."""
        if name in self.initializers:
            return name
        return self.initializer(name, self.random(name, shape) * np.float32(std) + np.float32(mean))

    # Shapes, as the exporter traces them.

    def size(self, x: str, axis: int) -> str:
        """``x.size(axis)``: a scalar int64 tensor. Asked twice, the exporter computes it once."""
        return self._once(("size", x, axis), lambda: self._gather_size(x, axis))

    def floor_div(self, a: str, b: Dim) -> str:
        """``a // b`` of two scalars, with the exporter's two Casts; computed once, too."""
        return self._once(("floor_div", a, b), lambda: self._divide(a, b))

    def _once(self, key: tuple[str, str, Dim], make: Callable[[], str]) -> str:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]

    def _gather_size(self, x: str, axis: int) -> str:
        return self.op("Gather", self.op("Shape", x), self.integer(axis), axis=0)

    def _divide(self, a: str, b: Dim) -> str:
        divisor = self.integer(b) if isinstance(b, int) else b
        quotient = self.op("Cast", self.op("Div", a, divisor), to=TensorProto.INT64)
        return self.op("Cast", quotient, to=TensorProto.INT64)

    def dims(self, dims: Sequence[Dim]) -> str:
        """A shape of known and computed dimensions: int64, [len(dims)]."""
        if all(isinstance(dim, int) for dim in dims):
            return self.ints(*(int(dim) for dim in dims))
        parts = [self.ints(dim) if isinstance(dim, int) else self.unsqueeze(dim, 0) for dim in dims]
        return self.op("Concat", *parts, axis=0)

    def view(self, x: str, *dims: Dim) -> str:
        """``x.view(*dims)``."""
        return self.op("Reshape", x, self.dims(dims))

    def transpose(self, x: str, *perm: int) -> str:
        """``x.permute(*perm)``."""
        return self.op("Transpose", x, perm=perm)

    def unsqueeze(self, x: str, *axes: int) -> str:
        """``x.unsqueeze``; the axes are a Constant, as from opset 13 on."""
        return self.op("Unsqueeze", x, self.ints(*axes))

    def flatten(self, x: str) -> str:
        """``x.flatten(2)``: [B, C, H, W] -> [B, C, H*W]."""
        head = self.slice(self.op("Shape", x), 0, 0, 2)
        return self.op("Reshape", x, self.op("Concat", head, self.ints(-1), axis=0))

    def slice(self, x: str, axis: int, start: int, end: Dim, step: int | None = None) -> str:
        """``x[..., start:end:step, ...]`` along one axis."""
        end_name = self.unsqueeze(end, 0) if isinstance(end, str) else self.ints(end)
        steps = [] if step is None else [self.ints(step)]
        return self.op("Slice", x, self.ints(start), end_name, self.ints(axis), *steps)

    def resize(self, x: str, sizes: str) -> str:
        """``F.interpolate(x, sizes, mode="bilinear", align_corners=True)``; ``sizes`` is int64 [2]."""
        head = self.slice(self.op("Shape", x), 0, 0, 2)
        sizes = self.op("Concat", head, self.op("Cast", sizes, to=TensorProto.INT64), axis=0)
        return self.op(
            "Resize", x, "", "", sizes,
            coordinate_transformation_mode="align_corners", cubic_coeff_a=-0.75, mode="linear",
            nearest_mode="floor",
        )  # fmt: skip

    # Layers.

    def conv(
        self, x: str, name: str, channels: tuple[int, int], kernel: int = 1, *,
        gain: float = 1.0, stride: int = 1, pad: int | None = None, bias: float | None = 0.05,
        rectified: bool = False,
    ) -> str:  # fmt: skip
        """A convolution with random weights that keep the variance.

        Args:
            x: [N, channels[0], H, W].
            name: The module's name; its parameters are ``name.weight`` and ``name.bias``.
            channels: Channels in and out.
            kernel: Side of the kernel.
            gain: Standard deviation of the output for an input of deviation 1.
            stride: Same on both axes.
            pad: On all four sides; half the kernel when None.
            bias: Standard deviation of the bias; None for no bias.
            rectified: The input comes from a Relu: its deviation is 0.58, and filters that sum to 0 keep
                its mean from swamping what depends on the image.
        """
        weight = f"{name}.weight"
        values = self.random(weight, (channels[1], channels[0], kernel, kernel))
        if rectified:
            values = (values - values.mean(axis=(1, 2, 3), keepdims=True)) / np.float32(RELU_DEVIATION)
        inputs = [x, self.initializer(weight, values * np.float32(gain / (channels[0] * kernel**2) ** 0.5))]
        if bias is not None:
            inputs.append(self.weight(f"{name}.bias", (channels[1],), bias))
        margin = kernel // 2 if pad is None else pad
        return self.op(
            "Conv", *inputs, dilations=[1, 1], group=1, kernel_shape=[kernel, kernel],
            pads=[margin] * 4, strides=[stride, stride],
        )  # fmt: skip

    def layer_norm(self, x: str, name: str, width: int) -> str:
        """LayerNormalization over the last axis, of length ``width``."""
        scale = self.weight(f"{name}.weight", (width,), 0.1, 1.0)
        bias = self.weight(f"{name}.bias", (width,), 0.1)
        return self.op("LayerNormalization", x, scale, bias, axis=-1, epsilon=1e-5)
