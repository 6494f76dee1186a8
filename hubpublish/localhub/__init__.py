"""A Hugging Face Hub on this machine, for the demo and for tests: standard library and git.

``server.py`` has `LocalHub`; ``routes.py`` shows the whole surface; ``api/`` holds the endpoints by
concern; the modules beside it are what they work on: ``git.py`` and ``repo.py`` (a repo is a git
repository), ``registry.py`` (which repos there are), ``lfs.py`` (large files), ``discussions.py`` and
``pull_requests.py``, ``accounts.py`` and ``access.py`` (who may do what), ``faults.py``.
"""

from hubpublish.localhub.accounts import Token
from hubpublish.localhub.faults import Fault
from hubpublish.localhub.server import LocalHub, serve
from hubpublish.localhub.state import LogEntry

__all__ = ["Fault", "LocalHub", "LogEntry", "Token", "serve"]
