"""The object behind a page of the studio: one specification and its mapping, and what was done to it.

It takes a message and gives an answer, both plain data; nothing here knows of the web. A move is a rewrite as
`einmap rewrite --do` reads it, and so ends in the mapping that the command gives.
"""

from __future__ import annotations

import shlex
import threading
from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from einmap.errors import EinmapError, MappingError, SpecError
from einmap.facade import map_workload
from einmap.frontends.yaml.spec import dump_mapping, loads_as
from einmap.mapper.result.result import Found
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Address
from einmap.mapping.rewrite.places import at, find_node
from einmap.mapping.rewrite.text import rewritten
from einmap.mapping.validate import check_tree
from einmap.model.cost import Cost
from einmap.model.evaluate import evaluate, without_advice
from einmap.spec.raw import RawMap
from einmap.spec.shared_inputs import put_in
from einmap.spec.spec import Spec
from einmap.studio import messages as asked
from einmap.studio import texts, view
from einmap.studio.folders import Folders
from einmap.studio.lessons import LESSONS, Built, lesson_named, shown
from einmap.studio.moves import options_of, why_not
from einmap.studio.play import run_of
from einmap.studio.running import Running, followed, given_of, same_problem
from einmap.studio.view import UNITS
from einmap.units import read_quantity
from einmap.visible import short, visible

LONGEST_HISTORY = 500
"""Steps that can be undone."""
LONGEST_NAME = 60
"""Characters of the name of a step."""


@dataclass(frozen=True)
class Optimum:
    """The least that metrics can be, as searches have shown for `spec`."""

    spec: Spec
    values: dict[str, float]


@dataclass(frozen=True)
class Snapshot:
    """The specification with its mapping after a step; `cost` is None, and `problem` says why, where it has none.

    `is_rewrite`: the step is a rewrite; `is_fresh`: it is the first one of another specification.
    """

    spec: Spec
    mapping: Mapping
    cost: Cost | None
    problem: str = ""
    text: str = ""
    is_rewrite: bool = True
    is_fresh: bool = False

    @property
    def parts(self) -> tuple[Spec, Mapping, Cost | None]:
        """Specification, mapping and cost, as a comparison takes them."""
        return self.spec, self.mapping, self.cost


@dataclass
class Session:
    """A mapping that is worked on. `source`: words of a command line that load it; `folders`: where files may be.

    `handle` may be called by several threads: one message is worked off after the other.
    """

    spec: Spec
    source: Sequence[str] = ()
    folders: Folders = field(default_factory=Folders)
    pins: frozenset[Address] = frozenset()
    search: Running | None = None
    revision: int = 0
    lesson: str | None = None
    answer: str = ""
    _done: list[Snapshot] = field(default_factory=list)
    _undone: list[Snapshot] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _optimum: Optimum | None = None

    def __post_init__(self) -> None:
        self._done = [_begun(self.spec)]

    @property
    def now(self) -> Snapshot:
        """The mapping as it is."""
        return self._done[-1]

    @property
    def mapping(self) -> Mapping:
        """The LoopTree as it is."""
        return self.now.mapping

    def handle(self, text: str) -> dict[str, Any]:
        """The answer to a message in JSON: a state, an answer to a question, or an error; it never raises.

        `kind`: what the answer is; `state`: all that the page shows has changed, in every window.
        """
        with self._lock:
            try:
                answer: dict[str, Any] = view.finite(self._answer(asked.read_message(text)))
                return answer
            except EinmapError as error:
                return problem_of(error)
            except MemoryError:
                return {"kind": "error", "message": "there is not enough memory for this", "hint": ""}
            except RecursionError:
                return {"kind": "error", "message": "this is nested too deeply", "hint": ""}

    def _answer(self, message: asked.Message) -> dict[str, Any]:
        match message:
            case asked.Look():
                return self.state()
            case asked.Move(text=text, instead=instead):
                return self._step(text, instead)
            case asked.Moves(node=node, tensor=tensor):
                options = options_of(self.now.spec, self.mapping, node, tensor, is_valid=self.now.cost is not None)
                return {"kind": "moves", "node": node, "tensor": tensor, "options": options}
            case asked.Judge(text=text):
                return {
                    "kind": "judged",
                    "text": text,
                    "why": why_not(self.now.spec, self.mapping, text, self.now.cost is not None),
                }
            case asked.Step(do=do):
                return self._back(do)
            case asked.Pin(node=node):
                self.pins ^= {find_node(self.mapping, node).address}
                return self.state()
            case asked.Search() | asked.OfSearch():
                return self._searching(message)
            case asked.Set(path=path, value=value):
                return self._set(path, value)
            case asked.Open() | asked.Save():
                return self._file(message)
            case asked.Lesson(name=name):
                return self._lesson(name)
            case asked.Answer(text=text):
                self.answer = text
                self.revision += 1
                return self.state()
            case _:
                return self._question(message)

    def _question(self, message: asked.Message) -> dict[str, Any]:
        """Answers that change nothing."""
        now, spec, mapping = self.now, self.now.spec, self.mapping
        match message:
            case asked.Details():
                return {"kind": "details", "revision": self.revision, **view.details(spec, mapping)}
            case asked.Explain(component=component, tensor=tensor, einsum=einsum):
                names = tuple([name] if name else [] for name in (einsum, tensor, component))
                return {"kind": "explanation", "text": texts.explained(spec, now.cost, names)}
            case asked.Compare(other=other, step=step):
                here = now if step is None else self._snapshot(step)
                return {"kind": "difference", "text": texts.compared(self._snapshot(other).parts, here.parts)}
            case asked.Draw(what=what):
                return {"kind": "drawing", "what": what, "svg": texts.drawing(spec, what)}
            case asked.Notes():
                return {"kind": "notes", "notes": [str(note) for note in evaluate(spec, mapping).notes]}
            case asked.Play():
                return run_of(spec, mapping)
            case asked.Export(what=what):
                return {"kind": "export", "what": what, "text": texts.exported(spec, mapping, what)}
            case asked.Text():
                return {"kind": "text", "yaml": self.yaml(), "command": self.command()}
            case _:
                return {"kind": "files", "names": [visible(name) for name in self.folders.names()]}

    def state(self) -> dict[str, Any]:
        """Everything that the page shows at once."""
        now, before = self.now, self._done[-2] if len(self._done) > 1 else None
        old = before.cost if before is not None and not now.is_fresh else None
        state = {
            "kind": "state",
            "revision": self.revision,
            "title": ", ".join(visible(name) for name in list(now.mapping.path_of)[:6]),
            "tree": view.tree(now.spec, now.mapping, now.cost, self.pins),
            "problem": now.problem,
            "last": visible(now.text),
            "steps": ["begin", *(visible(step.text)[:LONGEST_NAME] for step in self._done[1:])],
            "undo": len(self._done) - 1,
            "redo": len(self._undone),
            "pins": len(self.pins),
            "architecture": view.architecture(now.spec),
            "search": self._searched(),
            "writes": bool(self.folders.places),
            "lessons": [{"name": name, "title": one.title} for name, one in LESSONS.items()],
            "lesson": self._taught(),
        }
        if now.cost is not None:
            state["numbers"] = view.numbers(now.cost, old, self._least())
            state["bars"] = view.bars(now.cost, old)
            state["usage"] = view.usage(now.cost)
        return state

    def yaml(self) -> str:
        """The mapping as the command `einmap rewrite -o` writes it, but for the comment above it."""
        spec = self.now.spec
        return dump_mapping(self.mapping, put_in(spec.raw, spec.workload), spec.layouts, formats=spec.formats)

    def command(self) -> str:
        """The command that makes this mapping of the first one; empty where other things were changed too."""
        steps = self._done[1:]
        if not self.source or not steps or not all(step.is_rewrite for step in steps):
            return ""
        return shlex.join(["einmap", "rewrite", *self.source, *(w for step in steps for w in ("--do", step.text))])

    def _step(self, text: str, instead: bool) -> dict[str, Any]:
        """Do a rewrite; what it gives must have a cost, unless the mapping before has none."""
        head = text.split()[:2]
        replaces = instead and len(self._done) > 1 and head[:1] == ["reshape"] and self.now.text.split()[:2] == head
        begin = self._done[-2] if replaces else self.now
        mapping = rewritten(begin.mapping, begin.spec.workload, text)
        snapshot = _evaluated(begin.spec, mapping, text)
        if snapshot.cost is None and begin.cost is not None:
            without_advice(begin.spec, mapping)  # raises what is wrong, with its place
        self.pins = followed(self.pins, self.mapping, mapping)
        if replaces:
            self._done.pop()
        self._take(snapshot)
        return self.state()

    def _take(self, snapshot: Snapshot) -> None:
        first, *steps = self._done
        if len(steps) >= LONGEST_HISTORY:  # from the first one to the oldest that is kept no rewrite leads
            steps = [replace(steps[1], is_rewrite=False), *steps[2:]]
        self._done = [first, *steps, snapshot]
        self._undone = []
        self.revision += 1

    def _back(self, do: str) -> dict[str, Any]:
        """Undo, redo, or begin again, in a lesson from its own mapping; the latter can be undone."""
        if do == "reset" and self.lesson is not None and isinstance(lesson_named(self.lesson).check, Built):
            return self._lesson(self.lesson)
        spec, mapping = self.now.spec, self.mapping
        if do == "reset":
            if len(self._done) > 1:
                self._take(replace(self._done[0], text="begin again", is_rewrite=False))
        elif do == "undo" and len(self._done) > 1:
            self._undone.append(self._done.pop())
        elif do == "redo" and self._undone:
            self._done.append(self._undone.pop())
        else:
            raise MappingError(f"there is nothing to {do}")
        self.pins = followed(self.pins, mapping, self.mapping) if spec is self.now.spec else frozenset()
        self.revision += 1
        return self.state()

    def _searching(self, message: asked.Search | asked.OfSearch) -> dict[str, Any]:
        running = self.search
        if isinstance(message, asked.Search):
            if running is not None and running.runs:
                raise SpecError("a search runs already", hint="stop it first")
            spec = self.now.spec
            given = given_of(spec, self.mapping, self.pins) if message.pinned else None
            if message.pinned and not given:
                raise SpecError("nothing is pinned", hint="pin the loops and storage nodes that are to stay")
            self.search = Running(spec, message.metric, given, message.seconds).start()
            return self.state()
        if running is None:
            raise SpecError("no search was begun")
        if message.do == "stop":
            running.stop()
            running.wait(1.0)
        elif message.do == "keep":
            running.choose(message.index)
            found = self._found()
            kept = _evaluated(found.spec, found.mapping, f"found by {running.metric}")
            self._take(replace(kept, is_rewrite=False))
            self.pins = frozenset()
        if running.bound is not None:
            known = self._optimum.values if self._optimum and same_problem(self._optimum.spec, running.spec) else {}
            self._optimum = Optimum(running.spec, {**known, running.metric: running.bound})
        if message.do == "progress" and running.runs:
            return {"kind": "progress", "search": self._searched()}
        return self.state()

    def _is_searched(self) -> bool:
        """Whether the last search was of the architecture and the workload that are here now."""
        running, spec = self.search, self.now.spec
        if running is None:
            return False
        kept = running.found.spec if running.found is not None else running.spec
        return same_problem(running.spec, spec) or same_problem(kept, spec)

    def _searched(self) -> dict[str, Any] | None:
        """The last search as the page shows it: one of another specification only while it runs."""
        if self.search is None or not (self.search.runs or self._is_searched()):
            return None
        return self.search.state() | {"other": not self._is_searched()}

    def _found(self) -> Found:
        """The mapping that was found. Raises SpecError where that is nothing, or of another specification."""
        found = self.search.found if self.search is not None else None
        if found is None:
            raise SpecError("no search has found anything yet")
        if not self._is_searched():
            raise SpecError("the search was of another architecture or workload", hint="search again")
        return found

    def _least(self) -> MappingOf[str, float]:
        """The least that metrics can be here, as far as it is known."""
        return self._optimum.values if self._optimum and same_problem(self._optimum.spec, self.now.spec) else {}

    def _set(self, path: str, value: str) -> dict[str, Any]:
        if not path.startswith("arch.") or (field := path.rpartition(".")[2]) not in UNITS:
            raise SpecError("only numbers of the architecture are changed here")
        spec = self.now.spec
        spec.get(path)
        try:
            number = read_quantity(value, UNITS[field])
        except ValueError as error:
            raise SpecError(f"{field}: {short(value)} {error}") from None
        changed = spec.set(path, value if number is None else number)
        snapshot = _evaluated(changed, self.mapping, f"{path} = {value}")
        if snapshot.cost is None and self.now.cost is not None:
            without_advice(changed, self.mapping)
        self._take(replace(snapshot, is_rewrite=False))
        return self.state()

    def _lesson(self, name: str | None) -> dict[str, Any]:
        """Begin a lesson, with the mapping that it has (which can be undone); or end it."""
        if name is not None and isinstance(check := lesson_named(name).check, Built):
            spec = check.begin()
            self._take(replace(_begun(spec), text=f"lesson: {LESSONS[name].title}", is_rewrite=False, is_fresh=True))
            self.pins = frozenset()
        self.lesson, self.answer = name, ""
        self.revision += 1
        return self.state()

    def _taught(self) -> dict[str, Any] | None:
        """The lesson that was begun, as it stands."""
        if self.lesson is None:
            return None
        return shown(self.lesson, self.now.spec.with_mapping(self.mapping), self.answer)

    def _file(self, message: asked.Open | asked.Save) -> dict[str, Any]:
        if isinstance(message, asked.Save):
            path = self.folders.write(message.file, self.yaml(), force=message.force)
            return {"kind": "saved", "file": visible(path.name)}
        if (message.file is None) == (message.text is None):
            raise SpecError("open takes the name of a file, or a text")
        text = message.text if message.text is not None else self.folders.read(self._meant(message.file or ""))
        name = short(message.file) if message.file is not None else "a text"
        spec = _with_sections(self.now.spec, loads_as(message.file or "the text", text))
        is_fresh = spec.raw.get("workload") != self.now.spec.raw.get("workload")
        self._take(replace(_begun(spec), text=f"opened {name}", is_rewrite=False, is_fresh=is_fresh))
        self.pins = frozenset()
        return self.state()

    def _meant(self, shown: str) -> str:
        """The name of a file by that in the list, which has escapes for letters that deceive."""
        return next((name for name in self.folders.names() if visible(name) == shown), shown)

    def _snapshot(self, which: str | int) -> Snapshot:
        """The mapping after so many steps, the one before, the first one, or that of the search. Raises SpecError."""
        if which == "found":
            found = self._found()
            return _evaluated(found.spec, found.mapping, "")
        last = len(self._done) - 1
        step = which if isinstance(which, int) else 0 if which == "first" else max(0, last - 1)
        if step > last:
            raise SpecError(f"there is no step {step}", hint=f"the last one is {last}")
        return self._done[step]


def _begun(spec: Spec) -> Snapshot:
    """The mapping of a specification, or the first one that a search comes to where it has none.

    Raises MappingError for a mapping of another workload; one that does not fit the hardware can be mended by moves.
    """
    if spec.mapping is not None:
        begun = _evaluated(spec, spec.mapping, "")
        if begun.cost is None and not _is_of(spec, spec.mapping):
            without_advice(spec, spec.mapping)  # raises what is wrong, with its place
        return begun
    first = map_workload(spec, fuse=False, max_evaluations=1).front[0]
    return _evaluated(first.spec, first.mapping, "")


def _is_of(spec: Spec, mapping: Mapping) -> bool:
    """Whether the loops and leaves of a mapping are of Einsums of the workload."""
    try:
        check_tree(mapping, spec.workload, at)
    except MappingError:
        return False
    return True


def _evaluated(spec: Spec, mapping: Mapping, text: str) -> Snapshot:
    try:
        return Snapshot(spec, mapping, without_advice(spec, mapping), "", text)
    except MappingError as error:
        return Snapshot(spec, mapping, None, str(error), text)


def _with_sections(spec: Spec, opened: Spec) -> Spec:
    """The sections of what was opened, and of the specification those that it does not have."""
    sections = dict(spec.raw.items) | dict(opened.raw.items)
    if opened.raw.get("mapping") is None:
        sections.pop("mapping", None)
    raw = RawMap(tuple(sections.items()))
    return replace(spec, raw=raw).expanded()


def problem_of(error: EinmapError) -> dict[str, Any]:
    """An error as an answer."""
    text, _, hint = str(error).partition("\n  hint: ")
    return {"kind": "error", "message": text, "hint": hint}
