"""Lessons: a short text, numbers, a task and a check. Numbers in them are computed, not typed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from einmap.errors import EinmapError, SpecError, did_you_mean
from einmap.spec.spec import Spec
from einmap.studio import lesson_answers as answers
from einmap.studio import lesson_mappings as mappings
from einmap.studio.running import same_problem
from einmap.visible import visible

type Table = list[list[str]]


@dataclass(frozen=True)
class Built:
    """A task on the mapping: `begin`: the specification with the mapping to begin with; `passed`: the check."""

    begin: Callable[[], Spec]
    passed: Callable[[Spec], bool]


@dataclass(frozen=True)
class Asked:
    """A question: `choices` for an answer, of which one is `right`."""

    choices: Sequence[str]
    right: Callable[[], str]


@dataclass(frozen=True)
class Lesson:
    """`tables`: numbers, the first row their names; `listing`: text that belongs to the mapping, or to the lesson."""

    title: str
    text: str
    task: str
    tables: tuple[Callable[[], Table], ...]
    check: Built | Asked
    listing: Callable[[Spec], str] | None = None


def lesson_named(name: str) -> Lesson:
    """The lesson of that name. Raises SpecError."""
    if name not in LESSONS:
        raise SpecError(f"there is no lesson {name!r}", hint=did_you_mean(name, LESSONS, listing="lessons"))
    return LESSONS[name]


def shown(name: str, spec: Spec, answer: str) -> dict[str, Any]:
    """A lesson as plain data for the page; `spec` has the mapping as it is, `answer` is what was answered last."""
    lesson = lesson_named(name)
    told = {"name": name, "title": lesson.title, "text": lesson.text, "task": lesson.task, "answer": answer}
    choices = list(lesson.check.choices) if isinstance(lesson.check, Asked) else []
    listing = _listing(lesson, spec)
    return {
        **told,
        "other": not _is_of(lesson, spec),
        "choices": choices,
        "passed": _has_passed(lesson, spec, answer),
        "tables": _tables(name),
        "listing": listing,
    }


@cache
def _tables(name: str) -> list[Table]:
    return [table() for table in LESSONS[name].tables]


def _listing(lesson: Lesson, spec: Spec) -> str:
    """The listing; none of a mapping that is not valid."""
    try:
        return visible(lesson.listing(spec)) if lesson.listing is not None else ""
    except EinmapError:
        return ""


def _has_passed(lesson: Lesson, spec: Spec, answer: str) -> bool:
    """Whether the check holds; not for a mapping that does not fit, or has other tensors."""
    if isinstance(lesson.check, Asked):
        return answer == lesson.check.right()
    try:
        return _is_of(lesson, spec) and lesson.check.passed(spec)
    except (EinmapError, StopIteration, ValueError):
        return False


def _is_of(lesson: Lesson, spec: Spec) -> bool:
    """Whether a lesson on the mapping still has its own architecture and workload: only with these it can be passed."""
    return isinstance(lesson.check, Asked) or same_problem(spec, _begun(lesson.check.begin))


@cache
def _begun(begin: Callable[[], Spec]) -> Spec:
    return begin()


LESSONS: dict[str, Lesson] = {
    "stationary": Lesson(
        "What stays: stationarity",
        "Z[m, n] = A[m, k] * B[k, n] with one loop for each rank. Held directly above the compute, a value comes "
        "from main memory again and again. A tensor above the innermost loop, which does not index it, stays "
        "while that loop runs: it is stationary. The order of the loops decides which one can be.",
        "Let the weights B stay, one value at a time, each fetched once: bring the loop over m to the bottom, and"
        " B above it.",
        (mappings.stationary_table,),
        Built(mappings.worst, mappings.weights_stay),
    ),
    "four_cases": Lesson(
        "Four cases: above and below, in the tensor and not",
        "A loop above a storage node whose rank is not in the tensor fetches each chunk again; one whose rank is "
        "in it makes other chunks. Below the node, a rank that is not in the tensor uses each value again, and "
        "one that is in it makes the tile larger.",
        "The loop over m stands above B in GlobalBuffer, and m is not in B: each chunk is fetched again. Move B "
        "so that each is fetched once.",
        (mappings.cases_table,),
        Built(mappings.in_blocks, mappings.is_fetched_once),
    ),
    "bypass": Lesson(
        "Past a memory: bypassing",
        "Z[i] = A[i] * B[i]: no value is used twice. A buffer that holds such a tensor writes it and reads it for"
        " nothing.",
        "Let tensors go past GlobalBuffer (choose the block, or press Delete) until no further one saves energy.",
        (mappings.bypass_table,),
        Built(mappings.elementwise, mappings.is_bypassed),
    ),
    "partition": Lesson(
        "Partitioning: for reuse, and for parallelism",
        "Z[m] = A[k, m] * B[k]. Below the loop over m, all of B must stay in the buffer to be fetched once. A rank "
        "that is partitioned has an outer loop over its tiles and an inner one over their values: a tile of B "
        "stays while m runs, at the price of sums of Z that come back. The inner loop may also run over lanes, all "
        "of its iterations at one time.",
        f"Fetch each value of B once, with at most {mappings.LANES} of them in GlobalBuffer, and keep all lanes of MAC"
        " busy: a loop over k above, in tiles, the rest of k spread over the lanes.",
        (mappings.partition_table,),
        Built(mappings.vector, mappings.is_partitioned),
    ),
    "delayed": Lesson(
        "A distributed product: the delayed reduction",
        f"{answers.PARTS} processing elements (PEs) hold a slice of k each, and make sums over it by themselves. A "
        "temporary keeps them, and an Einsum of its own adds them up: each PE gets a block of the result "
        "(reduce-scatter), or all of it (all-reduce). Or B is sent to all of them before (all-gather), and "
        "nothing is left to add.",
        f"Which way sends least where M and N are {answers.LONG['M']}, and K is {answers.LONG['K']}?",
        (answers.delayed_table,),
        Asked(tuple(answers.PRODUCTS), answers.least_sent),
        lambda _: answers.delayed_einsums(),
    ),
    "systolic": Lesson(
        "Tiles for a systolic array: mvin and mvout",
        "OA[n, m] = IA[m, k] * W[k, n] on an array of PEs that each keep one weight; buffers are filled by mvin, "
        "and emptied by mvout. Two loops over tiles stand above: the outer one decides which operand moves once. "
        "Below the table stands the nest of the mapping as it is.",
        "Let the weights move once: the loop over tiles of n outside, W directly below it.",
        (mappings.systolic_table,),
        Built(mappings.systolic, mappings.weights_move_once),
        mappings.loops_with_moves,
    ),
    "parallel": Lesson(
        "Model and data parallelism",
        f"Two products of a layer over {answers.PARTS} PEs. Model parallel: each PE has a part of the weights, sees "
        "all tokens, and the results are added up. Data parallel: each PE has a part of the tokens, and the weights "
        "are gathered before they are used. The one sends more with more tokens, the other with larger weights.",
        "From how many tokens on does data parallelism send less?",
        (answers.parallel_table,),
        Asked(tuple(map(str, answers.TOKENS)), answers.first_for_data),
    ),
    "algorithms": Lesson(
        "Three algorithms of a matrix product, level by level",
        "C = A B + C in blocks: the innermost loop over blocks leaves one matrix where it is, and the other two "
        "stream by. Each memory of a hierarchy has such a choice of its own, for the block of the memory above it.",
        "Which matrix stays in an L2 below main memory, in the plan of least time for "
        f"{' x '.join(map(str, answers.FLAT))} (m x k x n)?",
        (answers.algorithms_table, answers.levels_table),
        Asked(("A", "B", "C"), answers.kept_by_a_cache),
    ),
    "spread": Lesson(
        "The spread of a mapspace",
        f"All mappings of one product of {' x '.join([str(mappings.SIZE)] * 3)}: they compute the same, and cost much "
        "more or less. Many tie in latency, and are far apart in energy.",
        f"The mapping here is one of the worst. Bring it to at most {mappings.NEAR} times the least energy.",
        (mappings.spread_table, mappings.ties_table),
        Built(mappings.worst, mappings.is_near_the_best),
    ),
}  # fmt: skip
"""Lessons by name, in the order in which they are taken."""
