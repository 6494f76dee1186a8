"""Publishing: read the target's head, plan against it, commit once, read back what is there."""

from hubpublish.publish.access import ensure_target, require_write_token
from hubpublish.publish.commit import Message, Published, commit_plan, is_withdrawn, publish
from hubpublish.publish.history import first_commit
from hubpublish.publish.manifest import Manifest, make_manifest
from hubpublish.publish.old_state import OldState, find_old_state, require_publication
from hubpublish.publish.plan import (
    Conflict,
    Plan,
    PlanEntry,
    make_plan,
    obstacles,
    refuse_conflicts,
    refuse_edited,
    refuse_lost_words,
)
from hubpublish.publish.pull_request import PullRequest, find_pull_request
from hubpublish.publish.read_back import check_published
from hubpublish.publish.rollback import RolledBack, plan_rollback, roll_back
from hubpublish.publish.staged import StagedFile, stage, stage_content
from hubpublish.publish.tag import check_tag, ensure_tag, find_tag, tag_name
from hubpublish.publish.target import (
    TargetState,
    already_published,
    is_signed,
    read_file,
    read_target,
    withdrawn,
)

__all__ = [
    "Conflict",
    "Manifest",
    "Message",
    "OldState",
    "Plan",
    "PlanEntry",
    "Published",
    "PullRequest",
    "RolledBack",
    "StagedFile",
    "TargetState",
    "already_published",
    "check_published",
    "check_tag",
    "commit_plan",
    "ensure_tag",
    "ensure_target",
    "find_old_state",
    "find_pull_request",
    "find_tag",
    "first_commit",
    "is_signed",
    "is_withdrawn",
    "make_manifest",
    "make_plan",
    "obstacles",
    "plan_rollback",
    "publish",
    "read_file",
    "read_target",
    "refuse_conflicts",
    "refuse_edited",
    "refuse_lost_words",
    "require_publication",
    "require_write_token",
    "roll_back",
    "stage",
    "stage_content",
    "tag_name",
    "withdrawn",
]
