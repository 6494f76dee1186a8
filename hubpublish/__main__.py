"""``python -m hubpublish``, where the command is not on the path."""

from hubpublish.cli import main

main()
