"""The deformable convolution, node for node as the usual exporter writes torchvision's ``deform_conv2d``.

Deformable ConvNets v2 (https://arxiv.org/abs/1811.11168): tap k of a K = k*k kernel reads the image at
its own place plus a learned offset, bilinearly, times a learned mask. Without an operator for it the
export gathers the four neighbours of every tap with GatherND and sums them by their bilinear weights.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto

from hubpublish.demo.config import KERNELS
from hubpublish.demo.graph import Array, GraphBuilder

#: Standard deviation of the offsets in pixels: of the part that each tap has anywhere, large enough to
#: leave the image at its borders, and of the part that the image decides. Much more of the latter
#: on random features would make the model chaotic: rounding errors would decide the logits.
TAP_PIXELS, IMAGE_PIXELS = 2.5, 0.5
#: Corners in the exporter's order: top or bottom, left or right.
CORNERS = ("tl", "br", "bl", "tr")


@dataclass(frozen=True)
class DeformShape:
    """Sizes of one deformable convolution of stride and dilation 1 that keeps height and width.

    Args:
        channels: Channels in.
        side: Height and width.
        kernel: Side of the kernel, odd.
    """

    channels: int
    side: int
    kernel: int

    @property
    def taps(self) -> int:
        return self.kernel**2

    @property
    def pad(self) -> int:
        """Zero padding of the image; the exporter pads by 1 where the convolution itself has none."""
        return max(self.kernel // 2, 1)

    @property
    def padded(self) -> int:
        return self.side + 2 * self.pad

    @property
    def points(self) -> int:
        return self.taps * self.side**2


def aspp(g: GraphBuilder, x: str, name: str, channels: tuple[int, int], side: int) -> str:
    """Atrous spatial pyramid pooling with four deformable branches and one of the global average.

    Args:
        g: The graph to extend.
        x: [1, channels[0], side, side].
        name: Prefix of the parameters.
        channels: Channels in (and out), and out of each branch.
        side: Height and width.

    Returns:
        [1, channels[0], side, side], not negative.
    """
    scopes = ["aspp1", *(f"aspp_deforms.{index}" for index in range(len(KERNELS) - 1))]
    branches = []
    for scope, kernel in zip(scopes, KERNELS, strict=True):
        shape = DeformShape(channels[0], side, kernel)
        with g.scope(scope):
            branches.append(_branch(g, x, f"{name}.{scope}", shape, channels[1]))
    with g.scope("global_avg_pool"):
        pooled = g.op("GlobalAveragePool", x)
        pooled = g.op("Relu", g.conv(pooled, f"{name}.global_avg_pool.1", channels, rectified=True))
    pooled = g.resize(pooled, g.slice(g.op("Shape", branches[-1]), 0, 2, 4))
    merged = g.op("Concat", *branches, pooled, axis=1)
    return g.op("Relu", g.conv(merged, f"{name}.conv1", (5 * channels[1], channels[0]), rectified=True))


def _branch(g: GraphBuilder, x: str, name: str, shape: DeformShape, channels_out: int) -> str:
    """Deformable convolution, BatchNormalization, Relu: [1, C, s, s] -> [1, channels_out, s, s]."""
    with g.scope("atrous_conv"):
        margin = shape.kernel // 2
        offsets = g.conv(
            x, f"{name}.atrous_conv.offset_conv", (shape.channels, 2 * shape.taps), shape.kernel,
            gain=IMAGE_PIXELS, pad=margin, bias=TAP_PIXELS, rectified=True,
        )  # fmt: skip
        mask = g.conv(
            x, f"{name}.atrous_conv.modulator_conv", (shape.channels, shape.taps), shape.kernel,
            pad=margin, rectified=True,
        )  # fmt: skip
        mask = g.op("Mul", g.op("Sigmoid", mask), g.number(2.0))
        x = deform_conv2d(g, x, offsets, mask, f"{name}.atrous_conv.regular_conv", shape, channels_out)
    with g.scope("bn"):
        parameters = [
            g.weight(f"{name}.bn.{part}", (channels_out,), std, mean)
            for part, std, mean in (("weight", 0.1, 1.0), ("bias", 0.1, 0.0), ("running_mean", 0.1, 0.0))
        ]
        # A variance must be positive: 20 standard deviations are.
        parameters.append(g.weight(f"{name}.bn.running_var", (channels_out,), 0.05, 1.0))
        x = g.op("BatchNormalization", x, *parameters, epsilon=1e-5, momentum=0.9)
    with g.scope("relu"):
        return g.op("Relu", x)


def deform_conv2d(
    g: GraphBuilder, x: str, offsets: str, mask: str, name: str, shape: DeformShape, channels_out: int
) -> str:
    """A modulated deformable convolution, taken apart.

    Args:
        g: The graph to extend.
        x: [1, C, s, s].
        offsets: [1, 2*K, s, s] in pixels; channels dy and dx of the first tap, of the second, ...
        mask: [1, K, s, s].
        name: Prefix of the weight and the bias.
        shape: C, s and the kernel.
        channels_out: Channels out.

    Returns:
        [1, channels_out, s, s].
    """
    return _convolve(g, _columns(g, x, offsets, mask, shape), name, shape, channels_out)


def _columns(g: GraphBuilder, x: str, offsets: str, mask: str, shape: DeformShape) -> str:
    """What every tap reads, weighted and masked: [1, 1, C, K, s, s]."""
    taps, side = shape.taps, shape.side
    place = g.op("Add", g.const(_base(shape)), g.view(offsets, 1, 1, taps, 2, side, side))
    floor = g.op("Floor", place)
    pads = [0, 0, shape.pad, shape.pad]
    image = g.op("Pad", x, g.ints(*pads, *pads), mode="constant")
    image = g.view(image, 1, 1, shape.channels, shape.padded, shape.padded)
    rows_columns = _corners(g, floor, shape)
    weights = _weights(g, place, floor, shape)
    values = {
        corner: _gather(g, image, rows_columns[corner[0]], rows_columns[corner[1]], shape)
        for corner in CORNERS
    }
    total = g.op("Sum", *(g.op("Mul", weights[corner], values[corner]) for corner in CORNERS))
    return g.op("Mul", total, g.view(mask, 1, 1, 1, taps, side, side))


def _base(shape: DeformShape) -> Array:
    """Where the taps are without an offset, in coordinates of the padded image: [1, 1, K, 2, s, s]."""
    extra = 1 if shape.kernel == 1 else 0
    place = np.arange(shape.side)[None, :] + np.arange(shape.kernel)[:, None] + extra
    full = (shape.kernel, shape.kernel, shape.side, shape.side)
    rows = np.broadcast_to(place[:, None, :, None], full)
    columns = np.broadcast_to(place[None, :, None, :], full)
    both = np.stack([rows.reshape(-1, *full[2:]), columns.reshape(-1, *full[2:])], axis=1)
    return both[None, None].astype(np.float32)


def _corners(g: GraphBuilder, floor: str, shape: DeformShape) -> dict[str, str]:
    """Indices of the rows t, b and columns l, r around each place, clamped into the padded image."""
    index = g.op("Cast", floor, to=TensorProto.INT64)
    one = g.integer(1)
    top, left = g.slice(index, 3, 0, 1), g.slice(index, 3, 1, 2)
    bottom, right = g.op("Add", top, one), g.op("Add", left, one)
    last = shape.padded - 1
    return {
        key: g.op("Clip", value, g.integer(0), g.integer(last))
        for key, value in (("t", top), ("l", left), ("b", bottom), ("r", right))
    }


def _weights(g: GraphBuilder, place: str, floor: str, shape: DeformShape) -> dict[str, str]:
    """Bilinear weights of the corners, each [1, 1, 1, K, s, s]."""
    fraction = g.op("Sub", place, floor)
    one = g.number(1.0)
    dy, dx = g.slice(fraction, 3, 0, 1), g.slice(fraction, 3, 1, 2)
    away_y, away_x = g.op("Sub", one, dy), g.op("Sub", one, dx)
    factors = {"tl": (away_x, away_y), "br": (dx, dy), "bl": (away_x, dy), "tr": (dx, away_y)}
    return {
        corner: g.view(g.op("Mul", *pair), 1, 1, 1, shape.taps, shape.side, shape.side)
        for corner, pair in factors.items()
    }


def _gather(g: GraphBuilder, image: str, rows: str, columns: str, shape: DeformShape) -> str:
    """The image's values at one corner of every place: [1, 1, C, K, s, s]."""
    index = g.op(
        "Concat", g.view(rows, 1, 1, shape.points, 1), g.view(columns, 1, 1, shape.points, 1), axis=3
    )
    values = g.op("GatherND", g.transpose(image, 0, 1, 3, 4, 2), index, batch_dims=2)
    return g.view(g.transpose(values, 0, 1, 3, 2), 1, 1, shape.channels, shape.taps, shape.side, shape.side)


def _convolve(g: GraphBuilder, columns: str, name: str, shape: DeformShape, channels_out: int) -> str:
    """Lay the taps of each pixel out as a k x k tile and convolve the tiles: [1, channels_out, s, s]."""
    kernel, side = shape.kernel, shape.side
    tiles = g.view(columns, 1, shape.channels, kernel, kernel, side, side)
    tiles = g.transpose(tiles, 0, 1, 4, 2, 5, 3)
    tiles = g.view(tiles, 1, shape.channels, side * kernel, side * kernel)
    x = g.conv(
        tiles, name, (shape.channels, channels_out), kernel, stride=kernel, pad=0, bias=None, rectified=True
    )
    return g.op("Add", x, g.weight(f"{name}.bias", (1, channels_out, 1, 1), 0.05))
