"""The page in a notebook: the same modules, their messages over the channel of an anywidget."""

from __future__ import annotations

import json
from typing import Any

from einmap.optional import require
from einmap.spec.spec import Spec, checked_spec
from einmap.studio.assets import asset, bundle
from einmap.studio.messages import LONGEST
from einmap.studio.session import Session


def studio(spec: Spec) -> Any:
    """The studio as a widget of a notebook: edit the mapping of a specification by hand and see what each move costs.

    `studio(spec).session` has the mapping as it is: `.mapping`, `.yaml()`. Without a mapping the studio begins with the
    first one that a search comes to. Raises SpecError where anywidget is missing, TypeError for anything but a Spec.
    """
    anywidget = require("anywidget", "studio")
    session = Session(checked_spec(spec, "studio"))
    kind = type("Studio", (anywidget.AnyWidget,), {"_esm": bundle("widget.js"), "_css": asset("studio.css")})
    widget: Any = kind()
    widget.session = session

    def heard(_: Any, content: Any, __: Any) -> None:
        answer = answered(session, content)
        if answer is not None:
            widget.send(answer)

    widget.on_msg(heard)
    return widget


def answered(session: Session, content: Any) -> dict[str, Any] | None:
    """The answer to what a widget was sent, with its number; None for what no page of ours sends."""
    if not isinstance(content, dict) or not isinstance(content.get("id"), int):
        return None
    text = json.dumps(content.get("message"))[: LONGEST + 1]
    return {"id": content["id"], "answer": session.handle(text)}
