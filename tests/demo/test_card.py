"""What the demo's card says of its model."""

from pathlib import Path

from hubpublish import recipe as recipes
from hubpublish.demo.card import demo_card
from hubpublish.demo.config import SMALL

RECIPE = Path(__file__).parents[2] / "configs" / "birefnet_lite.yaml"


def test_is_true_of_a_model_with_random_weights():
    recipe = recipes.load(RECIPE)
    card = demo_card(recipe.card, "acme/birefnet-demo", SMALL)
    assert "random weights" in card.summary
    assert card.base_model == ("acme/birefnet-demo",)
    assert f"[1, 3, {SMALL.size}, {SMALL.size}]" in card.inputs
    texts = [card.title, card.summary, card.inputs, card.outputs, card.credits]
    assert not any("1024" in text or "original ones" in text for text in texts)
    assert card.citation is None
    assert (card.license, card.pipeline_tag) == (recipe.card.license, recipe.card.pipeline_tag)
    assert recipes.loads(recipes.dumps(recipe.model_copy(update={"card": card})), "demo").card == card
