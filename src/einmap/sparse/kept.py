"""Answers that are kept for who asks again."""

from __future__ import annotations

from collections.abc import Hashable
from threading import Lock
from typing import Any


class Kept:
    """Answers by question, up to a number of bytes: where there are more the oldest ones go.

    Copies, and what another process is sent, begin empty.
    """

    def __init__(self, most: int) -> None:
        """`most`: bytes of all answers together."""
        self.most, self.bytes = most, 0
        self._found: dict[Hashable, tuple[Any, int]] = {}
        self._changing = Lock()

    def __reduce__(self) -> tuple[type[Kept], tuple[int]]:
        return Kept, (self.most,)

    def __len__(self) -> int:
        return len(self._found)

    def get(self, question: Hashable) -> Any:
        """The answer to a question, None if there is none."""
        found = self._found.get(question)
        return None if found is None else found[0]

    def keep(self, question: Hashable, answer: Any, size: int) -> None:
        """Keep an answer of so many bytes, unless it is larger than all may be together."""
        if size > self.most:
            return
        with self._changing:
            before = self._found.pop(question, None)
            self.bytes += size - (before[1] if before else 0)
            self._found[question] = answer, size
            while self.bytes > self.most:
                oldest = next(iter(self._found))
                self.bytes -= self._found.pop(oldest)[1]
