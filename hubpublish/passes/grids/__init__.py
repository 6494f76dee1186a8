"""How a patch grid is recognized: its pieces as boxes of an image, their order, and what is between."""
