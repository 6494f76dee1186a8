"""The backbone: a Swin transformer (https://arxiv.org/abs/2103.14030), used twice with shared weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from onnx import TensorProto, numpy_helper

from hubpublish.demo.attention_mask import attention_mask, window_partition
from hubpublish.demo.config import STAGES, ModelConfig
from hubpublish.demo.graph import END, Array, GraphBuilder

PATCH = 4


@dataclass(frozen=True)
class _Stage:
    """What the blocks of one stage share: sizes, and the scalar tensors the exporter computes once."""

    width: int
    heads: int
    window: int
    height_name: str
    width_name: str
    pad_rows: str
    pad_columns: str
    tokens: str
    mask: str


class Backbone:
    """Call it once a scale: the second call shares every weight with the first.

    Args:
        g: The graph to extend.
        config: Widths, depths, heads and window.
    """

    def __init__(self, g: GraphBuilder, config: ModelConfig) -> None:
        self._g = g
        self._config = config

    def __call__(self, image: str, side: int) -> list[str]:
        """Features of the four stages.

        Args:
            image: [1, 3, side, side].
            side: Height and width in pixels, a multiple of 32.

        Returns:
            Four names: [1, embed * 2**i, side / 2**(i+2), side / 2**(i+2)].
        """
        g = self._g
        with g.scope("bb"):
            x, height, width = self._embed(image)
            features = []
            for index in range(STAGES):
                stage_side = side // PATCH // 2**index
                with g.scope(f"layers.{index}"):
                    x = self._blocks(x, index, stage_side, height, width)
                features.append(self._feature(x, index, height, width))
                if index < STAGES - 1:
                    with g.scope(f"layers.{index}"):
                        x, height, width = self._downsample(x, index, height, width)
        return features

    def _embed(self, image: str) -> tuple[str, str, str]:
        """Image -> tokens [1, H*W, C], and the names of H and W."""
        g, embed = self._g, self._config.embed
        with g.scope("patch_embed"):
            with g.scope("proj"):
                x = g.conv(image, "bb.patch_embed.proj", (3, embed), PATCH, stride=PATCH, pad=0)
            height, width = g.size(x, 2), g.size(x, 3)
            x = g.transpose(g.flatten(x), 0, 2, 1)
            with g.scope("norm"):
                x = g.layer_norm(x, "bb.patch_embed.norm", embed)
            x = g.view(g.transpose(x, 0, 2, 1), -1, embed, height, width)
        height, width = g.size(x, 2), g.size(x, 3)
        return g.transpose(g.flatten(x), 0, 2, 1), height, width

    def _feature(self, x: str, index: int, height: str, width: str) -> str:
        """Tokens [1, H*W, C] -> normalized image [1, C, H, W]."""
        g, channels = self._g, self._config.width(index)
        with g.scope(f"norm{index}"):
            x = g.layer_norm(x, f"bb.norm{index}", channels)
        return g.transpose(g.view(x, -1, height, width, channels), 0, 3, 1, 2)

    def _downsample(self, x: str, index: int, height: str, width: str) -> tuple[str, str, str]:
        """Patch merging: [1, H*W, C] -> [1, H*W/4, 2*C], and the names of the new H and W."""
        g, channels = self._g, self._config.width(index)
        name = f"bb.layers.{index}.downsample"
        with g.scope("downsample"):
            batch, depth = g.size(x, 0), g.size(x, 2)
            x = g.view(x, batch, height, width, depth)
            corners = []
            for row, column in ((0, 0), (1, 0), (0, 1), (1, 1)):
                corners.append(g.slice(g.slice(x, 1, row, END, 2), 2, column, END, 2))
            x = g.view(g.op("Concat", *corners, axis=-1), batch, -1, 4 * channels)
            with g.scope("norm"):
                x = g.layer_norm(x, f"{name}.norm", 4 * channels)
            with g.scope("reduction"):
                x = self._matmul(x, f"{name}.reduction", 4 * channels, 2 * channels)
        half = [g.floor_div(g.op("Add", n, g.integer(1)), 2) for n in (height, width)]
        return x, half[0], half[1]

    def _blocks(self, x: str, index: int, side: int, height: str, width: str) -> str:
        stage = self._stage(index, side, height, width)
        for block in range(self._config.depths[index]):
            with self._g.scope(f"blocks.{block}"):
                x = self._block(x, f"bb.layers.{index}.blocks.{block}", stage, shifted=block % 2 == 1)
        return x

    def _stage(self, index: int, side: int, height: str, width: str) -> _Stage:
        g, config = self._g, self._config
        return _Stage(
            width=config.width(index), heads=config.heads[index], window=config.window,
            height_name=height, width_name=width,
            pad_rows=self._missing(height), pad_columns=self._missing(width),
            tokens=g.op("Mul", height, width), mask=attention_mask(g, side, config.window),
        )  # fmt: skip

    def _missing(self, length: str) -> str:
        """``(window - length % window) % window``."""
        g = self._g
        window = [g.integer(self._config.window) for _ in range(3)]
        return g.op("Mod", g.op("Sub", window[0], g.op("Mod", length, window[1])), window[2])

    def _block(self, x: str, name: str, stage: _Stage, *, shifted: bool) -> str:
        """A transformer block on tokens [1, H*W, C]; ``shifted`` moves the windows by half a window."""
        g = self._g
        batch, depth = g.size(x, 0), g.size(x, 2)
        with g.scope("norm1"):
            windows = g.layer_norm(x, f"{name}.norm1", stage.width)
        windows = g.view(windows, batch, stage.height_name, stage.width_name, depth)
        windows = self._pad(windows, stage)
        padded = (g.size(windows, 1), g.size(windows, 2))
        if shifted:
            windows = self._roll(windows, stage.window // 2)
        sizes = (batch, g.size(windows, 1), g.size(windows, 2), depth)
        windows = window_partition(g, windows, stage.window, sizes)
        windows = g.view(windows, -1, stage.window**2, depth)
        with g.scope("attn"):
            windows = self._attention(windows, f"{name}.attn", stage, shifted=shifted)
        attended = self._merge(windows, depth, padded, stage)
        if shifted:
            attended = self._roll(attended, -(stage.window // 2))
        attended = g.slice(attended, 1, 0, stage.height_name, 1)
        attended = g.slice(attended, 2, 0, stage.width_name, 1)
        x = g.op("Add", x, g.view(attended, 1, stage.tokens, depth))
        with g.scope("norm2"):
            hidden = g.layer_norm(x, f"{name}.norm2", stage.width)
        return g.op("Add", x, self._mlp(hidden, f"{name}.mlp", stage.width))

    def _pad(self, x: str, stage: _Stage) -> str:
        """Pad [1, H, W, C] with zeros to whole windows; PyTorch lists pads from the last axis on."""
        g = self._g
        pads = g.dims((0, 0, 0, stage.pad_columns, 0, stage.pad_rows))
        missing = g.op("Sub", g.ints(8), g.size(pads, 0))
        zeros = g.op("ConstantOfShape", missing, value=numpy_helper.from_array(np.zeros(1, dtype=np.int64)))
        pairs = g.view(g.op("Concat", pads, zeros, axis=0), -1, 2)
        flipped = g.slice(pairs, 0, -1, -END, -1)
        pads = g.op("Cast", g.view(g.transpose(flipped, 1, 0), -1), to=TensorProto.INT64)
        return g.op("Pad", x, pads, mode="constant")

    def _roll(self, x: str, shift: int) -> str:
        """``torch.roll(x, (-shift, -shift), dims=(1, 2))``."""
        g = self._g
        for axis in (1, 2):
            x = g.op("Concat", g.slice(x, axis, shift, END), g.slice(x, axis, 0, shift), axis=axis)
        return x

    def _merge(self, windows: str, depth: str, padded: tuple[str, str], stage: _Stage) -> str:
        """Windows [n, window**2, C] -> image [1, Hp, Wp, C]."""
        g, window = self._g, stage.window
        windows = g.view(windows, -1, window, window, depth)
        rows, columns = (g.floor_div(length, window) for length in padded)
        windows = g.view(windows, 1, rows, columns, window, window, -1)
        return g.view(g.transpose(windows, 0, 1, 3, 2, 4, 5), 1, *padded, -1)

    def _attention(self, x: str, name: str, stage: _Stage, *, shifted: bool) -> str:
        """Multi-head attention within windows: [n, window**2, C] -> the same."""
        g, heads, head_width = self._g, stage.heads, stage.width // stage.heads
        count, length = g.size(x, 0), g.size(x, 1)
        qkv = self._linear(x, f"{name}.qkv", stage.width, 3 * stage.width)
        qkv = g.transpose(g.view(qkv, count, length, 3, heads, head_width), 2, 0, 3, 1, 4)
        query, key, value = (g.op("Gather", qkv, g.integer(part), axis=0) for part in range(3))
        query = g.op("Mul", query, g.number(head_width**-0.5))
        scores = g.op("MatMul", query, g.transpose(key, 0, 1, 3, 2))
        scores = g.op("Add", scores, self._position_bias(name, stage))
        if shifted:
            scores = self._mask(scores, (count, length), stage)
        with g.scope("softmax"):
            weights = g.op("Softmax", scores, axis=-1)
        x = g.transpose(g.op("MatMul", weights, value), 0, 2, 1, 3)
        x = g.view(x, count, -1, stage.width)
        return self._linear(x, f"{name}.proj", stage.width, stage.width)

    def _mask(self, scores: str, sizes: tuple[str, str], stage: _Stage) -> str:
        g = self._g
        count, length = sizes
        windows = g.size(stage.mask, 0)
        images = g.floor_div(count, windows)
        scores = g.view(scores, images, windows, stage.heads, length, length)
        scores = g.op("Add", scores, g.unsqueeze(g.unsqueeze(stage.mask, 1), 0))
        return g.view(scores, -1, stage.heads, length, length)

    def _position_bias(self, name: str, stage: _Stage) -> str:
        """The relative position bias [1, heads, window**2, window**2], which the exporter folds."""
        span = 2 * stage.window - 1
        table = self._g.random(f"{name}.relative_position_bias_table", (span**2, stage.heads)) * np.float32(
            0.5
        )
        bias = table[_relative_positions(stage.window)].transpose(2, 0, 1)[None]
        return self._g.initializer(f"{name}.relative_position_bias", bias)

    def _mlp(self, x: str, name: str, width: int) -> str:
        """Linear, GELU, Linear, with a hidden width of four times ``width``."""
        g = self._g
        with g.scope("mlp"):
            x = self._linear(x, f"{name}.fc1", width, 4 * width)
            with g.scope("act"):
                cdf = g.op("Add", g.op("Erf", g.op("Div", x, g.number(2**0.5))), g.number(1.0))
                x = g.op("Mul", g.op("Mul", x, cdf), g.number(0.5))
            return self._linear(x, f"{name}.fc2", 4 * width, width)

    def _linear(self, x: str, name: str, width_in: int, width_out: int) -> str:
        with self._g.scope(name.rsplit(".", 1)[1]):
            product = self._matmul(x, name, width_in, width_out)
            return self._g.op("Add", self._g.weight(f"{name}.bias", (width_out,), 0.05), product)

    def _matmul(self, x: str, name: str, width_in: int, width_out: int) -> str:
        """Multiply by a weight; from its second use on through an Identity, as the exporter does."""
        g = self._g
        shared = f"{name}.weight" in g.initializers
        weight = g.weight(f"{name}.weight", (width_in, width_out), width_in**-0.5)
        if shared:
            weight = g.op("Identity", weight)
        return g.op("MatMul", x, weight)


def _relative_positions(window: int) -> Array:
    """Index into the bias table for every pair of tokens of a window: [window**2, window**2]."""
    rows, columns = np.divmod(np.arange(window**2), window)
    span = 2 * window - 1
    difference_y = rows[:, None] - rows[None, :] + window - 1
    difference_x = columns[:, None] - columns[None, :] + window - 1
    positions: Array = difference_y * span + difference_x
    return positions
