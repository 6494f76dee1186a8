"""The pages, served from this machine as a page must be that may use threads and a GPU."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.browser.needs import FOLDER

# An isolated page: it takes nothing from another origin that does not allow it.
_HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
    "Cross-Origin-Resource-Policy": "same-origin",
}

# A system's own table may not know them.
_TYPES = {".mjs": "text/javascript", ".wasm": "application/wasm"}


class _Pages(SimpleHTTPRequestHandler):
    def __init__(self, *args: object, images: Path, **options: object) -> None:
        self._images = images
        super().__init__(*args, **options)  # type: ignore[arg-type]

    def guess_type(self, path: str | os.PathLike[str]) -> str:
        return _TYPES.get(Path(path).suffix) or super().guess_type(path)

    def translate_path(self, path: str) -> str:
        name = path.removeprefix("/images/")
        return str(self._images / Path(name).name) if name != path else super().translate_path(path)

    def end_headers(self) -> None:
        for name, value in _HEADERS.items():
            self.send_header(name, value)
        super().end_headers()

    def log_message(self, *args: object) -> None:
        """Nothing: what goes wrong shows in the page."""


@contextmanager
def served(images: Path) -> Iterator[str]:
    """The address at which this folder is served, and below ``/images/`` that one."""
    handler = functools.partial(_Pages, directory=str(FOLDER), images=images)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
