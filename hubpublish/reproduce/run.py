"""Rebuild a publication from what it says of itself, and compare every file of it with what the repo holds.

Everything is made again that follows from the published report: the source is fetched at the recorded
commit and must have the recorded hashes, the recipe's passes rewrite it, and card, recipe, provenance and
manifest are rendered anew. No model is run. Of what is published hashes alone are compared; no published
model is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from huggingface_hub import HfApi

from hubpublish import publish
from hubpublish import report as reports
from hubpublish.errors import UsageError
from hubpublish.layout import CARD, MANIFEST, SIGNATURE
from hubpublish.publish import Manifest, Plan, PlanEntry, StagedFile
from hubpublish.publish.manifest import same_but_for_words
from hubpublish.recipe.types import target_repo_id
from hubpublish.report import Report
from hubpublish.reproduce.published import NotRebuiltError, Publication, read_publication, recipe_of
from hubpublish.reproduce.rebuild import rebuild
from hubpublish.reproduce.result import FileResult, Reproduction, Status, Versions
from hubpublish.verify.scratch import scratch
from hubpublish.verify.webgpu.system import PLUGIN

Say = Callable[[str], None]
_SIGNATURE = "a signature, not rebuilt"
_WORDS = "but for what people wrote, which is taken over"


def parse_target(text: str) -> tuple[str, str]:
    """Repo and revision of ``owner/name`` or ``owner/name@revision``.

    Raises:
        UsageError: It is no such thing.
    """
    repo, at, revision = text.partition("@")
    hint = "name a repo such as owner/name, or owner/name@v1.0"
    try:
        target_repo_id(repo)
    except ValueError as error:
        raise UsageError(str(error), hint=hint) from None
    if at and not revision:
        raise UsageError(f"{text!r} names no revision behind the @", hint=hint)
    return repo, revision or "main"


def reproduce(
    api: HfApi, repo: str, revision: str = "main", *, cache: Path, out: Path | None, say: Say
) -> Reproduction:
    """Make a publication again and compare it.

    Args:
        api: The Hub that holds the repo and its source.
        repo: The published repo, owner/name.
        revision: A branch, tag or commit of it.
        cache: Folder for source files; kept.
        out: Folder for what is made, new or empty; None: nothing is kept.
        say: Called with a line of progress.

    Raises:
        UsageError: ``out`` holds something, or cannot be written.
        HubError: ``repo_not_found``, ``nothing_published``, no access, no network.
        SourceError: The source could not be asked for. That it is gone is a result.
        VerificationError: ``report_unreadable``.
    """
    then = read_publication(api, repo, revision)
    say(f"{repo} is at commit {then.commit[:12]}")
    with _folder(out) as folder:
        try:
            staged = rebuild(api, then, recipe_of(then.report), cache, folder, say)
        except NotRebuiltError as error:
            files = tuple(_not_rebuilt(then, str(error)))
        else:
            files = tuple(_compared(api, then, staged))
    return Reproduction(
        repo=repo,
        commit=then.commit,
        source=then.report.source.repo,
        source_commit=then.report.source.commit,
        versions=_versions(then.report),
        files=files,
    )


def _compared(api: HfApi, then: Publication, staged: Sequence[StagedFile]) -> Iterator[FileResult]:
    """A result for every file of the publication, by path."""
    edited = then.state.edited()
    differs = _why_it_differs(then.report)
    plan = publish.make_plan(api, then.state, staged)
    found = [_result(entry, edited.get(entry.path), then.manifest, differs) for entry in plan.entries]
    found = [_exactly(api, then, plan, each, differs) for each in found]
    # Gone from the repo, and not made here either: no plan has them.
    lost = then.manifest.files.keys() - {file.path for file in found}
    found += [FileResult(path=path, status="missing", why=edited.get(path)) for path in lost]
    yield from sorted(found, key=lambda file: file.path)


def _exactly(api: HfApi, then: Publication, plan: Plan, found: FileResult, differs: str) -> FileResult:
    """A file that a plan takes for the same, looked at byte by byte; people's words are no difference."""
    listed, made = then.state.files.get(found.path), plan.file(found.path)
    if found.status != "same" or listed is None or made is None:
        return found
    if (listed.git_oid or listed.sha256) == (made.git_oid if listed.git_oid else made.sha256):
        free_text = found.path == CARD and then.manifest.free_text is not None
        return found.model_copy(update={"why": _WORDS}) if free_text else found
    published = publish.read_file(api, then.state, found.path) or b""
    if found.path == MANIFEST and same_but_for_words(published, made.read()):
        return found.model_copy(update={"why": _WORDS})
    return found.model_copy(update={"status": "differs", "why": differs})


def _result(entry: PlanEntry, edited: str | None, manifest: Manifest, differs: str) -> FileResult:
    path, now, made = entry.path, entry.old_sha256, entry.new_sha256

    def result(status: Status, why: str | None) -> FileResult:
        return FileResult(path=path, status=status, why=why, published=now, rebuilt=made)

    if path == SIGNATURE:
        return result("signature", _SIGNATURE)
    if entry.change == "unchanged":
        return result("same", None)
    if entry.change == "added":
        return result("missing", edited or "the report leads to it, and the repo does not have it")
    if entry.change == "deleted":
        return result("edited" if edited else "differs", edited or "the report does not lead to it")
    if edited:
        then = "what was published is made again" if made == manifest.files[path] else differs
        return result("edited", f"{edited}; {then}")
    return result("differs", differs)


def _not_rebuilt(then: Publication, why: str) -> Iterator[FileResult]:
    edited = then.state.edited()
    for path in sorted({*then.manifest.files, MANIFEST}):
        listed = then.state.files.get(path)
        status: Status = "not_rebuilt"
        if path == SIGNATURE:
            status = "signature"
        elif path in edited:
            status = "edited" if listed else "missing"
        said = _SIGNATURE if path == SIGNATURE else "; ".join(filter(None, (edited.get(path), why)))
        known = listed.sha256 if listed else None
        yield FileResult(path=path, status=status, why=said, published=known)


def _versions(report: Report) -> dict[str, Versions]:
    then = report.versions
    now = reports.versions(webgpu=PLUGIN in then)
    return {
        name: Versions(then=then.get(name), now=now.get(name))
        for name in {**now, **then}
        if then.get(name) != now.get(name)
    }


def _why_it_differs(report: Report) -> str:
    changed = _versions(report)
    if not changed:
        return "it does not follow from the report, made by the same versions"
    named = ", ".join(f"{name} {each.then} then, {each.now} here" for name, each in changed.items())
    return f"versions differ: {named}"


@contextmanager
def _folder(out: Path | None) -> Iterator[Path]:
    """The folder that everything is made in."""
    if out is None:
        with scratch("hubpublish-reproduce-") as folder:
            yield folder
        return
    try:
        out.mkdir(parents=True, exist_ok=True)
        taken = any(out.iterdir())
    except OSError as error:
        raise UsageError(
            f"cannot write to the folder: {error.strerror or error}",
            where=str(out),
            hint="name another with --out",
            kind="cannot_write",
        ) from error
    if taken:
        raise UsageError("the folder is not empty", where=str(out), hint="name a new one with --out")
    yield out
