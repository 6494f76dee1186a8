"""What the demo's model card says in place of the recipe's texts, which speak of the trained model."""

from __future__ import annotations

from hubpublish.demo.config import ModelConfig
from hubpublish.recipe import CardSpec


def demo_card(card: CardSpec, source: str, config: ModelConfig) -> CardSpec:
    """The recipe's card with texts that are true of the demo model.

    Args:
        card: License, task and tags are taken over.
        source: The demo's source repo, on which the published files are based.
        config: Sizes of the model.
    """
    size = config.size
    return card.model_copy(
        update={
            "title": "Demo model for WebGPU",
            "summary": "A model of BiRefNet lite's structure with **random weights**: the masks that it "
            "draws mean nothing. It shows what a rewrite does and how it is published.\n",
            "base_model": (source,),
            "inputs": f"`input_image`: float32 [1, 3, {size}, {size}], normalized as "
            "`preprocessor_config.json` says.\n",
            "outputs": f"`output_image`: float32 [1, 1, {size}, {size}], logits.\n",
            "credits": "The structure is that of [BiRefNet lite](https://github.com/ZhengPeng7/BiRefNet); "
            "the weights were drawn at random by `hubpublish demo`.\n",
            "citation": None,
        }
    )
