"""Commands on what is published already: rollback."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.cli.running import Shell
from tests.publication import READ_TOKEN, TARGET, TOKEN, Publication, commit, recipe_data

FURTHER = "To go further back, name an older publication with --to.\n"


@pytest.fixture
def recipe(shell: Shell, publication: Publication, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The recipe of two publications, of which the first has config.json."""
    publication.seed()
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    publication.run()
    publication.run(publication.recipe(source={"copy": []}))
    path = publication.folder / "small.yaml"
    path.write_text(yaml.safe_dump(recipe_data(publication.models)))
    return path


def test_rollback_says_what_it_did(shell: Shell, publication: Publication, recipe: Path) -> None:
    where = "--endpoint", publication.hub.endpoint
    old = publication.api.list_repo_commits(TARGET)[1].commit_id
    source = str(publication.api.model_info("acme/small").sha)
    state = f"what commit {old[:12]} published (source {source[:12]})"
    dry = shell("rollback", recipe, *where, "--dry-run")
    assert dry.code == 0, dry.err
    first, *rows = dry.out.splitlines()
    assert first == f"Dry run: nothing was changed. {TARGET} would again hold {state}:"
    assert "  restored   config.json" in rows
    assert "  rewritten  manifest.json" in rows
    done = shell("rollback", recipe, *where)
    head = publication.api.model_info(TARGET).sha
    assert done.out.splitlines() == [
        f"Rolled back: {publication.hub.endpoint}/{TARGET}/commit/{head}",
        f"It holds {state}:",
        *rows,
    ]
    again = shell("rollback", recipe, *where, "--to", old[:12])
    assert (again.code, again.out) == (0, f"Nothing to do: {TARGET} already holds {state}.\n{FURTHER}")


def test_rollback_as_json(shell: Shell, publication: Publication, recipe: Path) -> None:
    where = "--endpoint", publication.hub.endpoint, "--json"
    old = publication.api.list_repo_commits(TARGET)[1].commit_id
    dry = shell("rollback", recipe, *where, "--dry-run").json
    done = shell("rollback", recipe, *where, "--to", old).json
    head = publication.api.model_info(TARGET).sha
    assert (dry["status"], done["status"]) == ("dry_run", "rolled_back")
    assert (done["target"], done["commit"], done["to"]) == (TARGET, head, old)
    assert done["files"] == dry["files"]
    assert done["files"]["config.json"] == "restored"
    again = shell("rollback", recipe, *where, "--to", old).json
    assert (again["status"], again["commit"], again["files"]) == ("nothing_to_do", head, {})


def test_rollback_says_what_is_wrong(
    shell: Shell, publication: Publication, recipe: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = "--endpoint", publication.hub.endpoint, "--json"
    commits = publication.api.list_repo_commits(TARGET)
    none = shell("rollback", recipe, *where, "--to", "v9")
    assert (none.code, none.error["kind"]) == (6, "not_a_published_state")
    assert [each["commit"] for each in none.error["states"]] == [each.commit_id for each in commits[1:2]]
    lines = none.err.splitlines()[-2:]
    assert "v9" in lines[0]
    assert re.search(
        rf"{commits[1].commit_id[:12]} \(\d+-\d+-\d+, source \w{{12}}\); name one with --to$", lines[1]
    )
    commit(publication.api, TARGET, {"README.md": b"# Mine\n"})
    edited = shell("rollback", recipe, *where)
    assert (edited.code, edited.error["kind"], edited.error["files"]) == (6, "target_edited", ["README.md"])
    monkeypatch.setenv("HF_TOKEN", READ_TOKEN)
    assert shell("rollback", recipe, *where).error["kind"] == "read_only_token"
    recipe.write_text(recipe.read_text().replace(TARGET, "${HUBPUBLISH_NAMESPACE}/x"))
    monkeypatch.delenv("HUBPUBLISH_NAMESPACE", raising=False)
    unset = shell("rollback", recipe, *where, "--dry-run")
    assert (unset.code, unset.error["kind"]) == (2, "target_unset")
