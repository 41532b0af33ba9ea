"""Masks of tensors from files, bands and generators; sizes are known before anything large is read.

Files are `.npy`, `.npz` with one array, Matrix Market `.mtx`, and `.txt` with digits 0 and 1; a value is nonzero where
the file has another value than 0. Nothing in a file is run: arrays of Python objects are refused.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator, Sequence
from itertools import islice
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from einmap.arrays import Bools
from einmap.errors import SpecError
from einmap.units import counted
from einmap.visible import short

MOST_VALUES = 50_000_000
"""Values of the largest tensor whose mask is held."""
MOST_BYTES = 8 * MOST_VALUES + 4096
"""Bytes of the largest file, and of the largest array in one."""
KINDS = (".npy", ".npz", ".mtx", ".txt")
"""Endings of files that may hold a mask."""
SYMMETRIES = ("general", "symmetric", "skew-symmetric", "hermitian")
_SIZES = {"coordinate": "rows, columns and the number of entries", "array": "rows and columns"}
_LINE = 4096
"""Characters of the longest line of a Matrix Market file."""


class WrongShape(SpecError):
    """A mask of another shape than its tensor."""


def read_mask(path: Path, shape: Sequence[int]) -> Bools:
    """The mask of a tensor of a shape from a file. Raises SpecError for files that are not of that shape and kind."""
    readers = dict(zip(KINDS, (_npy, _npz, _matrix_market, _digits), strict=True))
    if path.suffix not in readers:
        kinds = ", ".join(readers)
        raise SpecError(f"a mask is in a file of {kinds}, found {short(path.name)}", hint=f"save it as one of {kinds}")
    check_size(shape)
    try:
        if not path.is_file():
            raise SpecError(f"no file {short(str(path))}", hint="masks stand beside the file that names them, or below")
        if path.stat().st_size > MOST_BYTES:
            raise SpecError(f"{short(path.name)} has {path.stat().st_size:,} bytes, at most {MOST_BYTES:,} are read")
        mask = readers[path.suffix](path, tuple(shape))
    except (OSError, ValueError, IndexError, EOFError, zipfile.BadZipFile) as problem:
        raise SpecError(f"{short(path.name)} cannot be read: {short(str(problem))}") from None
    if mask.shape != tuple(shape):
        raise WrongShape(f"{short(path.name)} has shape {mask.shape}, the tensor has {tuple(shape)}")
    return mask


def check_size(shape: Sequence[int]) -> None:
    """Raise SpecError for a tensor whose mask would be too large."""
    if prod(shape) > MOST_VALUES:
        raise SpecError(
            f"the mask of a tensor of {prod(shape):,} values is too large, at most {MOST_VALUES:,} are held",
            hint="use a density without positions: a number, or structured",
        )


def _npy(path: Path, shape: tuple[int, ...]) -> Bools:
    with path.open("rb") as file:
        return _array(file, path.name, shape)


def _array(file: IO[bytes], name: str, shape: tuple[int, ...]) -> Bools:
    """An array whose header says that it is small enough, and of numbers."""
    version = npy.read_magic(file)
    reader = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    found, fortran, kind = reader(file, max_header_size=_LINE)
    if kind.hasobject or kind.kind not in "biufc":
        raise SpecError(f"{short(name)} holds {kind}, numbers were expected")
    if found != shape:
        raise WrongShape(f"{short(name)} has shape {found}, the tensor has {shape}")
    count = prod(found)
    data = file.read(count * kind.itemsize)
    if len(data) < count * kind.itemsize:
        raise SpecError(f"{short(name)} ends early: {len(data):,} of {count * kind.itemsize:,} bytes")
    values: Any = np.frombuffer(data, dtype=kind).reshape(found, order="F" if fortran else "C")
    if kind.kind in "fc" and (no_number := np.isnan(values)).any():
        raise _not_a_number(name, np.unravel_index(int(no_number.argmax()), found))
    mask: Bools = values != 0
    return mask


def _not_a_number(name: str, index: Sequence[Any]) -> SpecError:
    """The error for a value of which nobody can say whether it is zero."""
    text = f"{short(name)} holds NaN at [{', '.join(str(int(i)) for i in index)}], numbers were expected"
    return SpecError(text, hint="write 0 where the tensor has a zero, another number where it has none")


def _npz(path: Path, shape: tuple[int, ...]) -> Bools:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        if len(members) != 1:
            is_sparse = {"format.npy", "data.npy"} <= {member.filename for member in members}
            raise SpecError(
                f"{short(path.name)} holds {counted(len(members), 'array')}, one was expected",
                hint="SciPy's sparse matrices are read from .mtx: scipy.io.mmwrite(FILE, matrix)"
                if is_sparse
                else None,
            )
        if members[0].file_size > MOST_BYTES:
            raise SpecError(f"the array in {short(path.name)} is too large: {members[0].file_size:,} bytes")
        with archive.open(members[0]) as file:
            return _array(file, path.name, shape)


def _matrix_market(path: Path, shape: tuple[int, ...]) -> Bools:
    """Matrix Market's coordinate and array forms (Boisvert et al., 1996): general, symmetric, skew-symmetric."""
    with path.open(encoding="ascii") as file:
        head = file.readline(_LINE).lower().split()
        if (
            len(head) != 5
            or head[:2] != ["%%matrixmarket", "matrix"]
            or head[2] not in ("coordinate", "array")
            or head[4] not in SYMMETRIES
        ):
            raise SpecError(
                f"{short(path.name)} does not begin as a Matrix Market file",
                hint="its first line is: %%MatrixMarket matrix coordinate real general",
            )
        numbered = _numbered(file)
        number, words = next(numbered, (1, []))
        sizes = [_whole(word, number, "sizes") for word in words]
        if len(sizes) != (3 if head[2] == "coordinate" else 2):
            raise ValueError(f"line {number}: {_SIZES[head[2]]} were expected, found {' '.join(words)!r}")
        if tuple(sizes[:2]) != shape:
            raise WrongShape(f"{short(path.name)} has shape {tuple(sizes[:2])}, the tensor has {shape}")
        if head[2] == "array":
            if head[4] != "general":
                raise SpecError(f"{short(path.name)}: arrays are read where they are general, found {short(head[4])}")
            return _array_values(path.name, numbered, shape)
        mask = np.zeros(shape, dtype=bool)
        found = 0
        for row, column in _entries(path.name, islice(numbered, sizes[2]), shape):
            found += 1
            if row < 0:
                continue
            mask[row, column] = True
            if head[4] != "general":
                mask[column, row] = True
        if found != sizes[2]:
            entries = f"{found:,} entr{'y' if found == 1 else 'ies'}"
            raise SpecError(f"{short(path.name)} has {entries}, {sizes[2]:,} were expected")
        _check_end(numbered, f"{sizes[2]:,} entr{'y' if sizes[2] == 1 else 'ies'}")
    return mask


def _numbered(file: IO[str]) -> Iterator[tuple[int, list[str]]]:
    """Words of each line after the first one, with its number; comments and empty lines left out."""
    for number, line in enumerate(iter(lambda: file.readline(_LINE), ""), 2):
        if not line.startswith("%") and (words := line.split()):
            yield number, words


def _check_end(numbered: Iterator[tuple[int, list[str]]], told: str) -> None:
    number, _ = next(numbered, (0, []))
    if number:
        raise ValueError(f"line {number}: more than the {told} that the file says it has")


def _whole(word: str, number: int, what: str) -> int:
    if not (word.isascii() and word.isdigit()):
        raise ValueError(f"line {number}: {what} are whole numbers, found {word!r}")
    return int(word)


def _array_values(name: str, numbered: Iterator[tuple[int, list[str]]], shape: tuple[int, ...]) -> Bools:
    values = list[bool]()
    for number, words in islice(numbered, prod(shape)):
        index = len(values) % shape[0], len(values) // shape[0]
        values.append(_is_nonzero(name, words, number, index))
    if len(values) != prod(shape):
        raise SpecError(f"{short(name)} has {counted(len(values), 'value')}, {prod(shape):,} were expected")
    _check_end(numbered, counted(prod(shape), "value"))
    return np.array(values, dtype=bool).reshape(shape, order="F")


def _is_nonzero(name: str, words: Sequence[str], number: int, index: tuple[int, int]) -> bool:
    """Whether a value, of one or two numbers, in a line is not zero. Raises SpecError where one is NaN."""
    try:
        numbers = [float(word) for word in words]
    except ValueError:
        raise ValueError(f"line {number}: a number was expected, found {' '.join(words)!r}") from None
    if any(math.isnan(one) for one in numbers):
        raise _not_a_number(name, index)
    return any(numbers)


def _entries(name: str, numbered: Iterator[tuple[int, list[str]]], shape: tuple[int, ...]) -> Iterator[tuple[int, int]]:
    """Row and column of each entry, -1 twice for a zero that is written."""
    for number, words in numbered:
        if len(words) < 2:
            raise ValueError(f"line {number}: a row and a column were expected, found {words[0]!r}")
        row, column = (_whole(word, number, "rows and columns") - 1 for word in words[:2])
        if not (0 <= row < shape[0] and 0 <= column < shape[1]):
            raise ValueError(f"line {number}: entry {words[0]} {words[1]} is outside of {shape[0]} x {shape[1]}")
        is_nonzero = len(words) == 2 or _is_nonzero(name, words[2:], number, (row, column))
        yield (row, column) if is_nonzero else (-1, -1)


def _digits(path: Path, shape: tuple[int, ...]) -> Bools:
    """A text of 0 and 1, the index of the first rank going fastest, as Sparseloop's masks are."""
    text = "".join(path.read_text(encoding="ascii").split())
    if len(text) != prod(shape):
        raise SpecError(
            f"{short(path.name)} has {counted(len(text), 'digit')}, the tensor {counted(prod(shape), 'value')}"
        )
    digits = np.frombuffer(text.encode(), dtype=np.uint8) - ord("0")
    if digits.max(initial=0) > 1:
        raise SpecError(f"{short(path.name)} holds other digits than 0 and 1")
    mask: Bools = digits.reshape(shape, order="F") == 1
    return mask


def banded(shape: Sequence[int], below: int, above: int) -> Bools:
    """Nonzeros near the diagonal of the last two ranks: column - row from -`below` to `above`.

    Where the ranks differ the diagonal goes from corner to corner: row i is at column i * columns // rows.
    """
    rows, columns = shape[-2:]
    away = np.arange(columns)[None, :] - (np.arange(rows) * columns // rows)[:, None]
    band = (away >= -below) & (away <= above)
    return np.ascontiguousarray(np.broadcast_to(band, tuple(shape)))
