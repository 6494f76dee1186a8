"""What every error must have, whoever raises it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest

from hubpublish.errors import HubpublishError

ErrorT = TypeVar("ErrorT", bound=HubpublishError)


def error_of(kind: type[ErrorT], call: Callable[[], object]) -> ErrorT:
    """The error that a call raises; it says what to do, and holds no token."""
    with pytest.raises(kind) as caught:
        call()
    error = caught.value
    assert type(error) is kind
    assert error.what
    assert error.hint
    assert "hf_" not in f"{error} {error.hint} {error.details}"
    return error
