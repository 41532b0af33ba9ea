"""`einmap studio`: edit a mapping by hand in the browser, and see at once what it costs."""

from __future__ import annotations

import webbrowser
from pathlib import Path

from einmap.cli.inputs import Source
from einmap.cli.options import flag, group, option, several
from einmap.cli.output import print_hint
from einmap.errors import SpecError
from einmap.optional import require
from einmap.studio.folders import Folders
from einmap.studio.server import Server
from einmap.studio.session import Session


@group
class Options:
    """Where the page is, and which files it may read and write."""

    folder: list[Path] = several(
        "DIR",
        "A folder that the page opens files from; into the first it saves. By default the current one; repeatable.",
    )
    port: int = option("N", "The port on 127.0.0.1; 0: one that is free.", default=0, min=0, max=65535)
    browser: bool | None = flag("Open the page in the browser.", "--browser/--no-browser", default=True)


def studio_command(options: Options, source: Source) -> None:
    """Edit a mapping by hand in the browser, and see at once what it costs.

    The page is on 127.0.0.1, and knows nothing but the folders that are named. Without a mapping it begins with the
    first one that a search comes to. Ctrl-C ends it.

    Example: einmap studio simple matmul simple_matmul
    """
    for module in ("starlette", "uvicorn", "websockets"):
        require(module, "studio")
    folders = Folders.of(options.folder or [Path()])
    spec = source.load()
    for section in ("arch", "workload"):
        if spec.raw.get(section) is None:
            raise SpecError(
                f"the studio needs {section} and workload" if section == "arch" else "the studio needs a workload"
            )
    if spec.mapping is None:
        print_hint("no mapping is given: looking for a first one")
    server = Server(Session(spec, source.command_words, folders), options.port)
    address = server.bind()
    print_hint(f"the studio is at {address} (Ctrl-C ends it)")
    if options.browser:
        webbrowser.open(address)
    server.run()
