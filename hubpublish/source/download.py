"""One file from the Hub to this machine, with the bytes it must have."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import HfApi, hf_hub_url
from huggingface_hub.file_download import http_get
from huggingface_hub.utils import WeakFileLock
from huggingface_hub.utils._runtime import is_xet_available

from hubpublish.errors import SourceError
from hubpublish.hub import Digests, ListedFile, digests_of, is_transient, request_headers, retried, translated
from hubpublish.source.upstream import SourceFile, Upstream


def fetch_file(api: HfApi, upstream: Upstream, path: str, folder: Path, *, pin: str | None) -> SourceFile:
    """Have ``folder/path`` hold the file's bytes at the upstream commit, and prove it by their hash.

    A file that is there already and has the right hash costs no request. Wrong bytes are fetched once
    more, past every cache.

    Args:
        api: The Hub.
        upstream: The repo at the commit.
        path: The file's path in the repo.
        folder: A folder that nobody but this function writes to.
        pin: The SHA-256 the recipe demands; None: what the Hub lists at the commit is demanded.

    Raises:
        SourceError: ``hash_mismatch``, ``corrupt_download``, or why it cannot be fetched.
    """
    listed = upstream.file(path)
    if pin is not None and listed.sha256 is not None and pin != listed.sha256:
        raise _not_pinned(upstream, path, pin, listed.sha256)
    local = folder / path
    with translated(SourceError, f"fetch {path}", repo=upstream.repo):
        folder.mkdir(parents=True, exist_ok=True)
        # The client deletes a file that it is about to fetch again; another run may be reading it.
        with WeakFileLock(folder / ".lock"):
            found = digests_of(local) if local.is_file() else None
            if found is None:
                _resume(api, upstream, listed, folder)
                found = _download(api, upstream, path, folder, force=False)
            elif not _is_right(found, listed, pin):  # the client would take it as it is
                found = _download(api, upstream, path, folder, force=True)
            if not _is_right(found, listed, pin):
                found = _download(api, upstream, path, folder, force=True)
            _sweep(folder)
    if not _is_right(found, listed, pin):
        raise _wrong_bytes(upstream, listed, pin, found)
    return SourceFile(path, local, found.sha256, found.size)


def _download(api: HfApi, upstream: Upstream, path: str, folder: Path, *, force: bool) -> Digests:
    def download() -> str:
        return str(
            api.hf_hub_download(
                upstream.repo, path, revision=upstream.commit, local_dir=folder, force_download=force
            )
        )

    return digests_of(Path(retried(download)))


def _is_right(found: Digests, listed: ListedFile, pin: str | None) -> bool:
    demanded = pin or listed.sha256
    if demanded is not None:
        return found.sha256 == demanded
    return listed.git_oid is None or found.git_oid == listed.git_oid


def _resume(api: HfApi, upstream: Upstream, listed: ListedFile, folder: Path) -> None:
    """Finish what a killed run left behind, instead of fetching all of it again.

    The client itself starts anew: it names a partial file at random. That the name holds the hash is
    a habit of the client; where it changes, nothing is found here and nothing is lost.
    """
    if listed.sha256 is None or is_xet_available():
        return  # xet does not write front to back
    partial = max(_leftovers(folder, listed.sha256), key=lambda file: file.stat().st_size, default=None)
    if partial is None or not 0 < partial.stat().st_size <= listed.size:
        return

    def finish() -> None:
        with partial.open("ab") as file:
            http_get(
                hf_hub_url(upstream.repo, listed.path, revision=upstream.commit, endpoint=api.endpoint),
                file,
                resume_size=file.tell(),
                headers=request_headers(api),
                expected_size=listed.size,
                displayed_filename=listed.path,
            )

    try:
        retried(finish)
    except Exception as error:
        if is_transient(error):
            raise
        return  # whatever speaks against the rest, the whole file may still come, or say why not
    local = folder / listed.path
    local.parent.mkdir(parents=True, exist_ok=True)
    partial.replace(local)


def _leftovers(folder: Path, etag: str = "") -> list[Path]:
    partial = (folder / ".cache" / "huggingface" / "download").rglob("*.incomplete")
    return [path for path in partial if etag in path.name]


def _sweep(folder: Path) -> None:
    for leftover in _leftovers(folder):
        leftover.unlink(missing_ok=True)


def _not_pinned(upstream: Upstream, path: str, pin: str, actual: str) -> SourceError:
    return SourceError(
        f"{path} of {upstream.repo} is not the file that the recipe pins: "
        f"its SHA-256 is {actual}, pinned is {pin}",
        where=f"{upstream.repo}@{upstream.commit[:12]}",
        hint="if upstream changed on purpose, `hubpublish bump RECIPE --dry-run` says how; `bump` pins it",
        kind="hash_mismatch",
        details={"path": path, "expected": pin, "actual": actual, "commit": upstream.commit},
    )


def _wrong_bytes(upstream: Upstream, listed: ListedFile, pin: str | None, found: Digests) -> SourceError:
    if pin is not None and listed.sha256 is None:
        return _not_pinned(upstream, listed.path, pin, found.sha256)
    sha = pin or listed.sha256
    name, expected, actual = (
        ("SHA-256", sha, found.sha256) if sha else ("git blob id", listed.git_oid, found.git_oid)
    )
    return SourceError(
        f"{listed.path} of {upstream.repo} arrived corrupt twice: its {name} is {actual}, not {expected}",
        where=f"{upstream.repo}@{upstream.commit[:12]}",
        hint="run again later; if it stays so, something on the way changes files (a proxy, a full disk)",
        kind="corrupt_download",
        details={"path": listed.path, "expected": expected, "actual": actual, "commit": upstream.commit},
    )
