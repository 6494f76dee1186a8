"""model.sig: what it covers, where it is refused, and the keyless way as far as this machine goes."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
import webbrowser
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from huggingface_hub import snapshot_download
from model_signing.signing import Config
from sigstore.models import ClientTrustConfig

from hubpublish import publish, signing
from hubpublish.errors import HubError, UsageError
from hubpublish.layout import CARD, MANIFEST, SIGNATURE
from hubpublish.publish import Message, StagedFile, stage
from hubpublish.staging import add_signature
from tests.errors import error_of
from tests.publication import TARGET, TOKEN, Publication
from tests.reports import recipe_of

SUBJECT = "https://github.com/acme/recipes/.github/workflows/publish.yml@refs/heads/main"
_CI = ("BUILDKITE", "CIRCLECI", "GITHUB_ACTIONS", "GITLAB_CI", "GOOGLE_SERVICE_ACCOUNT_NAME")


class Key:
    """A key pair, and what signs with it."""

    def __init__(self, folder: Path) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        self.private, self.public = folder / "key.pem", folder / "key.pub"
        pem, plain = serialization.Encoding.PEM, serialization.NoEncryption()
        self.private.write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain))
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        self.public.write_bytes(key.public_key().public_bytes(pem, form))

    def signer(self) -> Config:
        return Config().use_elliptic_key_signer(private_key=self.private)

    def sign(self, folder: Path, files: Any) -> Path:
        return signing.sign(folder, files, signer=self.signer())

    def verify(self, folder: Path) -> subprocess.CompletedProcess[str]:
        """As a user does, whoever signed: only the words behind ``verify`` are others for Sigstore."""
        program = Path(sys.executable).with_name("model_signing")
        command = [program, "verify", "key", folder, "--signature", folder / SIGNATURE]
        command += ["--public_key", self.public, "--ignore_unsigned_files"]
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.fixture
def key(tmp_path: Path) -> Key:
    return Key(tmp_path)


@pytest.fixture
def staged(tmp_path: Path) -> list[StagedFile]:
    folder = tmp_path / "staged"
    (folder / "onnx").mkdir(parents=True)
    for path in ("README.md", "onnx/model.onnx", "manifest.json", ".gitignore"):
        (folder / path).write_text(path)
    return [stage(path.relative_to(folder).as_posix(), path) for path in folder.rglob("*") if path.is_file()]


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine that offers no identity, with no browser and none of the user's own files of Sigstore."""

    def refuse(*_: object, **__: object) -> bool:
        raise AssertionError("a browser was opened")

    monkeypatch.setattr(webbrowser, "open", refuse)
    monkeypatch.setattr("id._internal.oidc.ambient._GCP_PRODUCT_NAME_FILE", str(tmp_path / "none"))
    for name in (*_CI, "ACTIONS_ID_TOKEN_REQUEST_TOKEN", "ACTIONS_ID_TOKEN_REQUEST_URL"):
        monkeypatch.delenv(name, raising=False)
    for name in ("XDG_DATA_HOME", "XDG_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))


def resources(signature: Path) -> dict[str, str]:
    """Path and hash of everything that a signature covers."""
    payload = base64.b64decode(json.loads(signature.read_text())["dsseEnvelope"]["payload"])
    return {each["name"]: each["digest"] for each in json.loads(payload)["predicate"]["resources"]}


def signed(publication: Publication, key: Key) -> tuple[StagedFile, ...]:
    """What a run of today leaves, with a signature."""
    publication.seed()
    report = publication.run(dry_run=True).report
    assert report is not None
    folder = publication.staged
    files = [stage(path.relative_to(folder).as_posix(), path) for path in folder.rglob("*") if path.is_file()]
    return add_signature(files, report, publication.recipe(), folder, key.sign)


def test_it_covers_every_published_file_but_the_manifest(publication: Publication, key: Key) -> None:
    files = signed(publication, key)
    covered = resources(publication.staged / SIGNATURE)
    others = {file.path: file.sha256 for file in files if file.path not in (MANIFEST, SIGNATURE)}
    assert covered == others
    assert CARD in covered
    manifest = json.loads((publication.staged / MANIFEST).read_text())
    assert manifest["files"] == {file.path: file.sha256 for file in files if file.path != MANIFEST}
    assert files[-1].path == MANIFEST


def test_whoever_downloads_the_repo_can_verify_it(publication: Publication, key: Key) -> None:
    files = signed(publication, key)
    publish.ensure_target(publication.api, TARGET, create=True)
    publish.publish(publication.api, TARGET, files, Message("signed"))
    # With a .gitattributes of the Hub's, and a folder .cache of the client's.
    folder = publication.folder / "downloaded"
    endpoint = publication.hub.endpoint
    snapshot_download(TARGET, local_dir=folder, endpoint=endpoint, token=TOKEN, library_name="tests")
    done = key.verify(folder)
    assert (done.returncode, done.stdout) == (0, "Verification succeeded\n"), done.stderr
    (folder / MANIFEST).write_text("{}")
    assert key.verify(folder).returncode == 0
    (folder / "config.json").write_text("{}")
    assert "Hash mismatch for 'config.json'" in key.verify(folder).stderr


def test_what_else_lies_in_the_folder_is_not_signed(staged: list[StagedFile], key: Key) -> None:
    folder = staged[0].local.parents[staged[0].path.count("/")]
    (folder / "onnx" / "other.txt").write_text("not published")
    files = signing.signable(staged, recipe_of())
    assert set(resources(key.sign(folder, files))) == {"README.md", "onnx/model.onnx"}
    assert signing.covers((folder / SIGNATURE).read_bytes(), files)
    assert key.verify(folder).returncode == 0


def test_a_file_that_changed_since_it_was_hashed_is_not_signed(staged: list[StagedFile], key: Key) -> None:
    files = signing.signable(staged, recipe_of())
    folder = files[0].local.parents[files[0].path.count("/")]
    files[0].local.write_text("other")
    assert error_of(HubError, lambda: key.sign(folder, files)).kind == "staged_changed"
    assert not (folder / SIGNATURE).exists()


@pytest.mark.parametrize(
    "signature", [b"", b"\xff", b"[]", b"{}", b'{"dsseEnvelope": {"payload": "e30="}}', b"[" * 10**5]
)
def test_what_is_no_signature_covers_nothing(staged: list[StagedFile], signature: bytes) -> None:
    assert not signing.covers(signature, staged)


@pytest.mark.usefixtures("nowhere")
def test_without_an_identity_a_run_that_is_to_sign_is_refused(staged: list[StagedFile]) -> None:
    assert signing.unavailable() == "the environment offers no identity to sign with"
    error = error_of(UsageError, signing.require)
    assert (error.kind, error.exit_code) == ("cannot_sign", 2)
    assert "id-token: write" in str(error.hint)
    folder = staged[0].local.parents[staged[0].path.count("/")]
    assert error_of(UsageError, lambda: signing.sign(folder, staged)).kind == "cannot_sign"
    assert not (folder / SIGNATURE).exists()


@pytest.mark.usefixtures("nowhere")
def test_a_workflow_without_the_permission_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    error = error_of(UsageError, signing.require)
    assert "ACTIONS_ID_TOKEN_REQUEST_TOKEN" in error.what
    assert "id-token: write" in str(error.hint)


@pytest.mark.parametrize("module", ["model_signing", "OpenSSL"])
def test_without_the_extra_it_says_what_to_install(module: str) -> None:
    # In a process of its own: here it is imported already.
    code = f"import sys; sys.modules[{module!r}] = None; from hubpublish import signing; signing.require()"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert "cannot sign: model-signing is not installed" in done.stderr
    assert "UsageError" in done.stderr


class Authorities:
    """An identity provider and a certificate authority that refuses, on this machine."""

    def __init__(self, trust: Path) -> None:
        self.asked: list[str] = []
        self.identifies = True
        claims = {"aud": "sigstore", "iss": "https://token.actions.githubusercontent.com", "sub": SUBJECT}
        claims |= {"iat": int(time.time()), "exp": int(time.time()) + 600}  # type: ignore[dict-item]
        parts = (json.dumps(part).encode() for part in ({"alg": "none", "typ": "JWT"}, claims))
        self.token = ".".join(base64.urlsafe_b64encode(part).decode().rstrip("=") for part in parts) + ".c2ln"
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.trust = trust
        document = json.loads(ClientTrustConfig.production(offline=True)._inner.to_json())
        for name in ("caUrls", "oidcUrls", "rekorTlogUrls", "tsaUrls"):
            document["signingConfig"][name][0]["url"] = self.url
        trust.write_text(json.dumps(document))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        authorities = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                authorities.asked.append(f"GET {self.path}")
                authorization = self.headers.get("Authorization")
                if not authorities.identifies:
                    return self.answer(500, {"message": f"{authorization}, of-the-job, {authorities.token}"})
                if self.path.startswith("/token") and authorization == "bearer of-the-job":
                    return self.answer(200, {"value": authorities.token})
                return self.answer(200, {"authorization_endpoint": "x", "token_endpoint": "y"})

            def do_POST(self) -> None:
                authorities.asked.append(f"POST {self.path}")
                bearer = self.headers.get("Authorization", "")
                self.rfile.read(int(self.headers.get("Content-Length", 0)))
                return self.answer(403, {"message": f"no certificate for {bearer} {authorities.token}"})

            def answer(self, status: int, document: dict[str, str]) -> None:
                body = json.dumps(document).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@pytest.fixture
def workflow(nowhere: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Authorities]:
    """A job of GitHub's that may ask for an identity."""
    authorities = Authorities(tmp_path / "trust.json")
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_TOKEN", "of-the-job")
    monkeypatch.setenv("ACTIONS_ID_TOKEN_REQUEST_URL", f"{authorities.url}/token?version=2")
    thread = Thread(target=authorities.server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield authorities
    authorities.server.shutdown()
    authorities.server.server_close()
    thread.join()


def test_a_workflow_with_the_permission_can_sign(workflow: Authorities) -> None:
    assert signing.unavailable() is None
    signing.require()
    assert set(workflow.asked) == {"GET /token?version=2&audience=sigstore"}


def test_an_identity_that_is_refused_is_an_error_without_the_token(workflow: Authorities) -> None:
    workflow.identifies = False
    error = error_of(UsageError, signing.require)
    assert (error.kind, error.exit_code) == ("cannot_sign", 2)
    assert "code=500" in error.what
    assert workflow.token not in str(error.to_dict())
    assert "of-the-job" not in str(error.to_dict())


def test_a_certificate_that_is_refused_is_an_error_without_the_token(
    workflow: Authorities, staged: list[StagedFile], caplog: pytest.LogCaptureFixture
) -> None:
    folder = staged[0].local.parents[staged[0].path.count("/")]
    caplog.set_level(0)
    error = error_of(HubError, lambda: signing.sign(folder, staged, trust=workflow.trust))
    assert (error.kind, error.exit_code) == ("signing_failed", 6)
    assert workflow.asked[-1] == "POST /api/v2/signingCert"
    assert "403" in error.what
    assert not (folder / SIGNATURE).exists()
    said = f"{error.to_dict()} {caplog.text}"
    assert workflow.token not in said
    assert "of-the-job" not in said
