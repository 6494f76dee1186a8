import logging

import pytest

from hubpublish.hub.redact import guard_logs, redact, remember, without_query

TOKEN = "hf_" + "AbCdEfGhIjKlMnOpQrStUvWxYz01234567"


@pytest.mark.parametrize(
    "text",
    [
        f"Bearer {TOKEN}",
        f"authorization: bearer {TOKEN}",
        f"https://user:{TOKEN}@host/path",
        f"https://host/path?X-Amz-Signature={TOKEN}&b=1",
        f"token={TOKEN}, and more",
        f"hf_jwt_{TOKEN[3:]}",
        f"hf_oauth_eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIx.{TOKEN[3:]}",
    ],
)
def test_no_token_survives(text: str) -> None:
    assert TOKEN[3:] not in redact(text)


def test_a_jwt_is_hidden() -> None:
    assert "eyJ" not in redact("id eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOiJodHRwcyJ9.c2lnbmF0dXJl end")


def test_a_remembered_secret_is_hidden_whatever_it_looks_like() -> None:
    remember("open-sesame")
    assert redact("say open-sesame now") == "say *** now"


def test_signed_urls_lose_their_query_and_the_rest_stays() -> None:
    text = "while downloading from https://cdn.host/a/b?sig=abc&x=1\nreset, see 'https://host/c'"
    assert redact(text) == "while downloading from https://cdn.host/a/b\nreset, see 'https://host/c'"


def test_without_query() -> None:
    assert without_query("https://u:p@host:8/a/b?x=1#f") == "https://host:8/a/b"


@pytest.mark.parametrize("text", ["hf_hub/2.4.0", "the hf_xet package", "onnx/model.onnx?"])
def test_ordinary_words_stay(text: str) -> None:
    assert redact(text) == text


def test_logs_of_the_client_are_redacted_for_every_handler(caplog: pytest.LogCaptureFixture) -> None:
    guard_logs()
    guard_logs()  # twice is once
    with caplog.at_level(logging.DEBUG):
        for name in ("huggingface_hub.file_download", "httpx2", "httpcore2.http11"):
            logger = logging.getLogger(name)
            logger.addHandler(caplog.handler)
            logger.setLevel(logging.DEBUG)
            try:
                logger.debug("GET %s with %s", "https://host/x?sig=1", f"Bearer {TOKEN}")
            finally:
                logger.removeHandler(caplog.handler)
                logger.setLevel(logging.NOTSET)
    assert "https://host/x with Bearer ***" in caplog.text
    assert TOKEN not in caplog.text
    assert "sig=1" not in caplog.text
