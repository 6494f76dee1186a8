"""The sizes of the demo model: BiRefNet-lite's own by default, and a small set for quick runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Dtype = Literal["fp32", "fp16"]

STAGES = 4
#: Grids of the patch input, coarse to fine. They belong to the architecture, not to the image size.
GRIDS = (32, 16, 8, 4)
#: Kernel sizes of the four deformable convolutions of one ASPP.
KERNELS = (1, 1, 3, 7)


@dataclass(frozen=True)
class ModelConfig:
    """Everything that decides the graph, apart from precision and seed.

    The defaults are BiRefNet_lite's: a Swin-T backbone (https://arxiv.org/abs/2103.14030) under the
    BiRefNet decoder (https://arxiv.org/abs/2401.03407). Widths change tensors only, never the number of
    nodes; so does ``size``.

    Args:
        size: Height and width of the image in pixels, a multiple of 64.
        embed: Channels of the backbone's first stage; every stage doubles them.
        depths: Blocks per stage, even numbers.
        heads: Attention heads per stage; each divides ``embed * 2**stage``.
        window: Side of an attention window in tokens.
        inner: Channels between the two convolutions of a decoder block, and into its ASPP.
        aspp: Channels out of each ASPP branch.
        edge: Channels of the gradient attention.

    Raises:
        ValueError: A value that the architecture cannot take, with the reason.
    """

    size: int = 1024
    embed: int = 96
    depths: tuple[int, int, int, int] = (2, 2, 6, 2)
    heads: tuple[int, int, int, int] = (3, 6, 12, 24)
    window: int = 7
    inner: int = 64
    aspp: int = 256
    edge: int = 16

    def __post_init__(self) -> None:
        if self.size <= 0 or self.size % 64:
            raise ValueError(f"size must be a positive multiple of 64, not {self.size}")
        if self.embed % 4:
            raise ValueError(f"embed must be a multiple of 4, not {self.embed}")
        if any(depth <= 0 or depth % 2 for depth in self.depths):
            raise ValueError(f"depths must be positive even numbers, not {self.depths}")
        if self.window < 2:
            raise ValueError(f"window must be at least 2, not {self.window}")
        for stage, heads in enumerate(self.heads):
            if self.width(stage) % heads:
                raise ValueError(
                    f"{heads} heads do not divide the {self.width(stage)} channels of stage {stage}"
                )

    def width(self, stage: int) -> int:
        """Channels of a backbone stage, 0 to 3."""
        return self.embed << stage


FULL = ModelConfig()
#: As many nodes as the full model and every wide one of them, in a few megabytes.
SMALL = ModelConfig(size=256, embed=16, heads=(2, 4, 8, 16), window=3, inner=16, aspp=32, edge=8)
