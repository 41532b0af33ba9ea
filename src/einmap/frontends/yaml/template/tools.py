"""Tools of all parts of the interpreter: counting of work, and values as texts, elements and keys.

A step is what evaluating one node of a template costs. Whatever Python does in one go is paid by its size before it is
done, so that neither time nor memory can be multiplied.
"""

from __future__ import annotations

from typing import Any, NoReturn

from einmap.errors import SpecError
from einmap.frontends.yaml.parsing.work import Work
from einmap.frontends.yaml.template.values import Function, LoopVariable, Missing, Module, Namespace, kind

MAX_LENGTH = 1_000_000
"""Characters of one text, elements of one list."""
MAX_BITS = 10_000
"""Bits of one integer."""
MAX_DIGITS = 5_000
"""Characters of a text that is read as a number."""
MAX_RANGE = 100_000

_CHARACTERS = 32
"""Characters that are handled in the time of one step, and need no more memory than steps may take."""
_ELEMENTS = 2
_BITS = 256


class UndefinedNameError(Exception):
    """A name or field was used that is not there."""

    def __init__(self, missing: Missing) -> None:
        super().__init__(missing.text)
        self.missing = missing


def stop(text: str) -> NoReturn:
    """End the template: it asks for too much."""
    raise SpecError(f"the template was stopped: {text}")


def defined(value: Any) -> Any:
    """`value`, unless it is missing."""
    if type(value) is Missing:
        raise UndefinedNameError(value)
    return value


def pay_text(work: Work, characters: int) -> None:
    """Count a new text. Raises SpecError when it is too long, or too much has been done."""
    if characters > MAX_LENGTH:
        stop(f"a text in the template is longer than {MAX_LENGTH:,}")
    work.step(characters // _CHARACTERS)


def pay_elements(work: Work, elements: int) -> None:
    """Count a new list. Raises SpecError when it is too long, or too much has been done."""
    if elements > MAX_LENGTH:
        stop(f"a list in the template is longer than {MAX_LENGTH:,}")
    work.step(elements // _ELEMENTS)


def check_bits(bits: float) -> None:
    """Raise SpecError for an integer that is too large."""
    if bits > MAX_BITS:
        stop(f"a number in the template has more than {MAX_BITS:,} bits")


def checked(work: Work, value: Any) -> Any:
    """A new value, paid by its size; what it holds was paid when that was made."""
    match value:
        case int():
            check_bits(value.bit_length())
            work.step(value.bit_length() // _BITS)
        case str():
            pay_text(work, len(value))
        case list() | tuple() | dict():
            pay_elements(work, len(value))
        case complex():
            raise TypeError("the result is a complex number")
    return value


def weigh(work: Work, value: Any) -> None:
    """Pay for all that is in a value, as often as it is in it: for what looks at all of it.

    A list that holds itself is endless, and ends here.
    """
    if not isinstance(value, list | tuple | dict | range | str | int):
        return
    waiting = [value]
    while waiting:
        item = waiting.pop()
        match item:
            case str():
                work.step(len(item) // _CHARACTERS)
            case int():
                work.step(item.bit_length() // _BITS)
            case range():
                work.step(len(item) // _ELEMENTS)
            case list() | tuple():
                work.step(1 + len(item) // _ELEMENTS)
                waiting += item
            case dict():
                work.step(1 + len(item))
                waiting += item.keys()
                waiting += item.values()


def text_of(work: Work, value: Any) -> str:
    """A value as text, as it is written into the file."""
    if type(value) is str:
        return value
    if type(value) is Missing and value.blank:
        return ""
    if isinstance(defined(value), Function | Namespace | Module | LoopVariable):
        raise TypeError(f"{kind(value)} cannot be written" + (", call it" if isinstance(value, Function) else ""))
    weigh(work, value)
    text = str(value)
    pay_text(work, len(text))
    return text


def elements_of(work: Work, value: Any) -> list[Any]:
    """The elements of a list, tuple or range, the keys of a dictionary, the characters of a text."""
    if not isinstance(defined(value), list | tuple | range | dict | str):
        raise TypeError(f"{kind(value)} has no elements")
    pay_elements(work, len(value))
    return list(value)


def key_of(value: Any) -> Any:
    """A value as the key of a dictionary.

    Tuples and huge integers are refused: what they hash to can be chosen, so that many fall into one place.
    """
    if not isinstance(defined(value), str | int | float | None) or (isinstance(value, int) and abs(value) >> 60):
        raise TypeError(f"{kind(value)}{' that is so large' if isinstance(value, int) else ''} cannot be a key")
    return value


def number_of(value: Any) -> Any:
    """Input that `int` and `float` may read: a number, or a text that is not too long."""
    if not isinstance(defined(value), str | int | float):
        raise TypeError(f"{kind(value)} is not a number")
    if isinstance(value, str) and len(value) > MAX_DIGITS:
        stop(f"a number in the template has more than {MAX_DIGITS:,} digits")
    return value


def truth(value: Any) -> bool:
    """Whether a value counts as true."""
    return bool(defined(value)) if type(value) is not Missing or not value.blank else False
