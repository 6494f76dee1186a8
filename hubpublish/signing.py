"""model.sig: a signature over the published files, made with model-signing (the extra ``sign``).

Whoever has the repo's files checks it with ``model_signing verify sigstore``. It is keyless: Sigstore issues
a certificate for the identity that the environment offers (GitHub Actions, GitLab, Buildkite, CircleCI,
Google Cloud) and logs it. Without such an identity nothing is signed; no browser is ever opened.

The signature covers every published file but

- manifest.json, which names the signature by its hash like any other file of ours, so that an edited or
  stale one is seen, replaced and deleted as they are;
- git's own files, which model-signing leaves out by default;
- a card that the recipe lets people edit: their first edit would break the signature.

No two signatures are equal, so a new one alone is no reason to publish: see `hubpublish.publish.make_plan`.

Not tried in this project's tests, which reach no network: what Sigstore answers. They sign with a local key,
which differs in the signer alone, and take the keyless way as far as the request for a certificate.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hubpublish.errors import HubError, UsageError
from hubpublish.hub import redact
from hubpublish.hub.redact import remember
from hubpublish.layout import CARD, MANIFEST, SIGNATURE
from hubpublish.publish import StagedFile
from hubpublish.recipe import Recipe

if TYPE_CHECKING:
    from model_signing.signing import Config

_OF_GIT = frozenset({".gitattributes", ".gitignore"})
_FOLDERS_OF_GIT = (".git/", ".github/")
_SECRETS = ("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "SIGSTORE_ID_TOKEN")
_NOT_INSTALLED = "model-signing is not installed"
_INSTALL = "install hubpublish with the extra `sign`, as in: pip install '.[sign]'"
_ELSEWHERE = "run it where there is one, such as a GitHub workflow with `id-token: write`"


def unavailable() -> str | None:
    """Why nothing can be signed here, in a sentence without a stop; None if it can be.

    It asks the environment for an identity, and keeps none.
    """
    try:
        import model_signing.signing  # noqa: F401
    except ImportError as error:
        return f"{_NOT_INSTALLED} ({error})"
    try:
        return None if _identity() else "the environment offers no identity to sign with"
    except Exception as error:  # of several libraries
        return f"the environment's identity cannot be had: {_in_words(error)}"


def require() -> None:
    """Refuse a run that is to sign and cannot, before its work.

    Raises:
        UsageError: ``cannot_sign``.
    """
    reason = unavailable()
    if reason is not None:
        hint = _INSTALL if reason.startswith(_NOT_INSTALLED) else _ELSEWHERE
        raise UsageError(
            f"cannot sign: {reason}",
            hint=f"{hint}; or do without --sign",
            kind="cannot_sign",
        )


def sign(
    folder: Path, files: Sequence[StagedFile], *, signer: Config | None = None, trust: Path | None = None
) -> Path:
    """Sign these files, and nothing else that the folder may hold.

    Args:
        folder: Where the files are, under their paths in the repo; model.sig is written there.
        files: From `signable`.
        signer: Signs instead of Sigstore with the environment's identity.
        trust: A Sigstore client trust configuration (JSON), for an instance that is not the public one.

    Raises:
        UsageError: ``cannot_sign``.
        HubError: ``signing_failed``; ``staged_changed``: a file is not what it was when it was hashed.
    """
    target = folder / SIGNATURE
    if signer is None:
        require()
    try:
        config = signer or _keyless(trust)
        _hash_only(config, folder, files)
        config.sign(folder, target)
    except Exception as error:  # of several libraries
        raise HubError(
            f"cannot sign: {_in_words(error)}",
            where=str(target),
            hint="run again later, or do without --sign",
            kind="signing_failed",
        ) from None
    if not covers(target.read_bytes(), files):
        target.unlink()
        raise HubError(
            "a file changed on disk while it was signed",
            where=str(folder),
            hint="let nothing write to the staged folder, and run again",
            kind="staged_changed",
        )
    return target


def signable(files: Sequence[StagedFile], recipe: Recipe) -> tuple[StagedFile, ...]:
    """Those of the published files that a signature covers, in their order."""
    left_out = {MANIFEST, SIGNATURE, *_OF_GIT}
    if recipe.card.free_text:
        left_out.add(CARD)
    return tuple(
        file for file in files if file.path not in left_out and not file.path.startswith(_FOLDERS_OF_GIT)
    )


def covers(signature: bytes, files: Sequence[StagedFile]) -> bool:
    """Whether a signature names exactly these files, by these hashes.

    It is not verified: that takes the knowledge who should have signed. Needs no extra.
    """
    try:
        payload = json.loads(signature)["dsseEnvelope"]["payload"]
        resources = json.loads(base64.b64decode(payload))["predicate"]["resources"]
        signed = [(each["name"], each["algorithm"], each["digest"]) for each in resources]
        return sorted(signed) == sorted((file.path, "sha256", file.sha256) for file in files)
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


def _keyless(trust: Path | None) -> Config:
    from model_signing.signing import Config

    # Given by hand: without one, model-signing would open a browser.
    token = _identity()
    if token is None:
        raise RuntimeError("the environment offers no identity")
    return Config().use_sigstore_signer(identity_token=token, trust_config=trust)


def _identity() -> str | None:
    """An identity token for Sigstore from the environment; it lives for minutes."""
    from sigstore.oidc import detect_credential

    for name in _SECRETS:  # what errors may repeat
        remember(os.environ.get(name, ""))
    token = detect_credential()
    if token:
        remember(token)
    return token


def _hash_only(config: Config, folder: Path, files: Sequence[StagedFile]) -> None:
    """Have everything else in the folder left out, and say so in the signature, for the verifier."""
    from model_signing.hashing import Config as Hashing

    wanted = {file.path for file in files}
    found = (path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir())
    others = sorted({SIGNATURE, *found} - wanted)
    config.set_hashing_config(Hashing().set_ignored_paths(paths=others))


def _in_words(error: BaseException) -> str:
    text = redact(" ".join(str(error).split()))[:300].rstrip(".")
    if not text and error.__cause__ is not None:  # Sigstore's own errors are often empty
        text = _in_words(error.__cause__)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
