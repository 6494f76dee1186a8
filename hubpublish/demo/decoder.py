"""The decoder of BiRefNet (https://arxiv.org/abs/2401.03407): from features and image patches to logits."""

from __future__ import annotations

from dataclasses import dataclass

from hubpublish.demo.config import GRIDS, STAGES, ModelConfig
from hubpublish.demo.deformable import aspp
from hubpublish.demo.graph import GraphBuilder
from hubpublish.demo.patch_grid import patch_grid

#: What the average of five ASPP branches and the edge attention take away, a block gives back.
BLOCK_GAIN = 1.5
#: Weight of the last convolution: random features would otherwise give logits close to 0.
LOGIT_GAIN = 2.5


@dataclass(frozen=True)
class Feature:
    """An image in the graph: its name, channels, and height = width."""

    name: str
    channels: int
    side: int


class Decoder:
    """Five decoder blocks, coarse to fine, each fed with image patches and with the backbone's features.

    Args:
        g: The graph to extend.
        config: Widths and the size of the image.
        image: [1, 3, size, size].
    """

    def __init__(self, g: GraphBuilder, config: ModelConfig, image: str) -> None:
        self._g = g
        self._config = config
        self._image = image
        self._sizes: dict[str, str] = {}

    def __call__(self, features: list[Feature]) -> str:
        """Logits [1, 1, size, size] from the backbone's four features, fine to coarse."""
        g = self._g
        context = self._context(features)
        with g.scope("squeeze_module"), g.scope("squeeze_module.0"):
            x = self._block(context, "squeeze_module.0", features[-1].channels)
        with g.scope("decoder"):
            x = self._with_patches(x, x, GRIDS[0], 5, features[-1].channels // 8)
            for level, grid in zip((4, 3, 2), GRIDS[1:], strict=True):
                skip = features[level - 2]
                x = self._up(x, skip, level)
                x = self._with_patches(x, skip, grid, level, features[max(level - 1, 0)].channels // 8)
            return self._logits(x, features[0].channels)

    def size_of(self, x: str) -> str:
        """``x.shape[2:]``: int64 [2]. The exporter asks a tensor for it once."""
        if x not in self._sizes:
            self._sizes[x] = self._g.slice(self._g.op("Shape", x), 0, 2, 4)
        return self._sizes[x]

    def _context(self, features: list[Feature]) -> Feature:
        """The coarsest feature together with all finer ones, shrunk to its size."""
        g, coarse = self._g, features[-1]
        names = [g.resize(feature.name, self.size_of(coarse.name)) for feature in features[:-1]]
        channels = sum(feature.channels for feature in features)
        return Feature(g.op("Concat", *names, coarse.name, axis=1), channels, coarse.side)

    def _with_patches(self, x: Feature, like: Feature, grid: int, level: int, channels: int) -> Feature:
        """Add features of the image's patches: the grid at the size of ``like``, through two convolutions."""
        g, name = self._g, f"decoder.ipt_blk{level}"
        side = self._config.size // grid
        patches = g.resize(patch_grid(g, self._image, grid, side), self.size_of(like.name))
        with g.scope(f"ipt_blk{level}"):
            with g.scope("conv1"):
                patches = g.conv(patches, f"{name}.conv1", (3 * grid**2, self._config.inner), 3)
            with g.scope("conv_out"):
                patches = g.conv(patches, f"{name}.conv_out", (self._config.inner, channels), 3)
        return Feature(g.op("Concat", x.name, patches, axis=1), x.channels + channels, x.side)

    def _up(self, x: Feature, skip: Feature, level: int) -> Feature:
        """A decoder block with gradient attention, enlarged and added to the backbone's feature ``skip``."""
        g = self._g
        with g.scope(f"decoder_block{level}"):
            x = self._block(x, f"decoder.decoder_block{level}", skip.channels)
        attention = self._edges(x, level)
        enlarged = g.resize(g.op("Mul", x.name, attention), self.size_of(skip.name))
        with g.scope(f"lateral_block{level}"), g.scope("conv"):
            name = f"decoder.lateral_block{level}.conv"
            lateral = g.conv(skip.name, name, (skip.channels, skip.channels))
        return Feature(g.op("Add", enlarged, lateral), skip.channels, skip.side)

    def _edges(self, x: Feature, level: int) -> str:
        """Attention to the object's edges: [1, 1, H, W], between 0 and 1."""
        g, edge = self._g, self._config.edge
        with g.scope(f"gdt_convs_{level}"):
            hidden = g.op("Relu", g.conv(x.name, f"decoder.gdt_convs_{level}.0", (x.channels, edge), 3))
        with g.scope(f"gdt_convs_attn_{level}"):
            name = f"decoder.gdt_convs_attn_{level}.0"
            return g.op("Sigmoid", g.conv(hidden, name, (edge, 1), rectified=True))

    def _block(self, x: Feature, name: str, channels: int) -> Feature:
        """Convolution, deformable ASPP, convolution; BatchNormalization is folded into the weights."""
        g, inner = self._g, self._config.inner
        with g.scope("conv_in"):
            hidden = g.conv(x.name, f"{name}.conv_in", (x.channels, inner), 3)
        with g.scope("relu_in"):
            hidden = g.op("Relu", hidden)
        with g.scope("dec_att"):
            hidden = aspp(g, hidden, f"{name}.dec_att", (inner, self._config.aspp), x.side)
        with g.scope("conv_out"):
            hidden = g.conv(hidden, f"{name}.conv_out", (inner, channels), 3, gain=BLOCK_GAIN, rectified=True)
        return Feature(hidden, channels, x.side)

    def _logits(self, x: Feature, channels: int) -> str:
        """The last block at full size next to the image itself (a grid of one piece), as one channel."""
        g, size = self._g, self._config.size
        with g.scope("decoder_block1"):
            x = self._block(x, "decoder.decoder_block1", channels // 2)
        full = Feature(g.resize(x.name, self.size_of(self._image)), x.channels, size)
        full = self._with_patches(full, Feature(self._image, 3, size), 1, 1, channels // 8)
        with g.scope("conv_out1"), g.scope("conv_out1.0"):
            return g.conv(full.name, "decoder.conv_out1.0", (full.channels, 1), gain=LOGIT_GAIN)


def merge_scales(g: GraphBuilder, fine: list[str], coarse: list[str], config: ModelConfig) -> list[Feature]:
    """Join the features of the image at full and at half size, the latter enlarged, as channels."""
    features = []
    for stage in range(STAGES):
        sizes = g.slice(g.op("Shape", fine[stage]), 0, 2, 4)
        joined = g.op("Concat", fine[stage], g.resize(coarse[stage], sizes), axis=1)
        features.append(Feature(joined, 2 * config.width(stage), config.size // 4 // 2**stage))
    return features
