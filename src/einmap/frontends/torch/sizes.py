"""Sizes that a program leaves open: expressions of symbols, and the numbers that users give for these.

Files have them as SymPy writes them (`Add(Integer(1), Symbol('s77'))`), programs in memory as people do.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from math import ceil, floor, prod
from typing import Any

from einmap.errors import At, EinmapError, SpecError, did_you_mean, raise_all
from einmap.frontends.cascade.builder import MOST_VALUES
from einmap.frontends.files import reading
from einmap.frontends.torch.program import Given, Program, Size
from einmap.visible import short

LONGEST = 2000
_CALLS: Mapping[str, Callable[..., Any]] = {
    "Max": max, "Min": min, "FloorDiv": lambda a, b: a // b, "CleanDiv": lambda a, b: a // b, "floor": floor,
    "CeilDiv": lambda a, b: -(-a // b), "CeilToInt": ceil, "FloorToInt": floor, "TruncToInt": int, "ceiling": ceil,
    "Mod": lambda a, b: a % b, "PythonMod": lambda a, b: a % b, "IntTrueDiv": lambda a, b: a / b,
    "Add": lambda *a: sum(a), "Mul": lambda *a: prod(a), "Integer": int, "Float": float, "Rational": lambda a, b: a / b,
    "FloatTrueDiv": lambda a, b: a / b, "ToFloat": float, "Abs": abs, "Identity": lambda a: a,
}  # fmt: skip
_OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: lambda a, b: a + b, ast.Sub: lambda a, b: a - b, ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b, ast.Mod: lambda a, b: a % b, ast.Div: lambda a, b: a / b,
}  # fmt: skip


def symbols_of(size: Size) -> list[str]:
    """The symbols in an expression."""
    if isinstance(size, int):
        return []
    found: dict[str, None] = {}
    waiting: list[ast.AST] = [_parsed(size)]
    while waiting:
        match node := waiting.pop():
            case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str() as name), *_]):
                found[name] = None
            case ast.Call(args=args):
                waiting += reversed(args)
            case ast.Name(id=name):
                found[name] = None
            case _:
                waiting += reversed([*ast.iter_child_nodes(node)])
    return [*found]


def number_of(size: Size, symbols: Mapping[str, int]) -> int:
    """The number that an expression is. Raises SpecError for one that cannot be known."""
    if isinstance(size, int):
        return size
    try:
        found = _value(_parsed(size).body, symbols)
        if found == int(found) and abs(found) <= MOST_VALUES:
            return int(found)
    except (KeyError, ArithmeticError, TypeError, ValueError, RecursionError):
        pass
    raise SpecError(f"the size {short(size, 80)} is not a number that is known")


def _parsed(text: str) -> ast.Expression:
    try:
        if len(text) > LONGEST:
            raise ValueError
        return ast.parse(text.strip(), mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise SpecError(f"the size {short(text, 80)} is not an expression") from None


def _value(node: ast.AST, symbols: Mapping[str, int]) -> Any:
    match node:
        case ast.Constant(value=int() | float() as number):
            return number
        case ast.Name(id=name):
            return symbols[name]
        case ast.Call(func=ast.Name(id="Symbol"), args=[ast.Constant(value=str() as name), *_]):
            return symbols[name]
        case ast.Call(func=ast.Name(id="Pow"), args=[left, ast.Call(args=[power]) | power]):
            return _value(ast.BinOp(left=left, op=ast.Pow(), right=power), symbols)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, symbols)
        case ast.BinOp(left=left, op=ast.Pow(), right=ast.Constant(value=int() as power)) if 0 <= power <= 8:
            return _value(left, symbols) ** power
        case ast.BinOp(left=left, op=operator, right=right) if type(operator) in _OPERATORS:
            return _OPERATORS[type(operator)](_value(left, symbols), _value(right, symbols))
        case ast.Call(func=ast.Name(id=name), args=args) if name in _CALLS and args:
            return _CALLS[name](*(_value(one, symbols) for one in args))
    raise ValueError


def open_dimensions(program: Program) -> dict[str, str]:
    """The symbol of each open dimension, by the names that users may call it."""
    found = {alias: symbol for symbol, alias in program.aliases.items()}
    for symbol in _places(program):
        found.setdefault(symbol, symbol)
    for given in _inputs(program):
        for axis, size in enumerate(program.graph.facts[given.name].shape):
            if isinstance(size, str) and size in found:
                found.setdefault(f"{given.source}_{axis}", size)
    return found


def _inputs(program: Program) -> list[Given]:
    return [given for given in program.inputs if not given.is_weight]


def _places(program: Program) -> dict[str, str]:
    """The symbols of a program, and where each first stands."""
    places: dict[str, str] = {}
    for given in _inputs(program):
        for axis, size in enumerate(program.graph.facts[given.name].shape):
            for symbol in symbols_of(size):
                places.setdefault(symbol, f"dimension {axis} of {given.source}")
    for size in program.graph.sizes.values():
        for symbol in symbols_of(size):
            places.setdefault(symbol, "a size that the program computes from values")
    return places


def given_sizes(program: Program, sizes: Mapping[str, object], batch: int | None) -> dict[str, int]:
    """The number of each symbol of the inputs, by its name, an alias or `INPUT_AXIS`. `batch`: of first dimensions.

    Raises SpecError: all problems together.
    """
    known = open_dimensions(program)
    if (noted := reading()) is not None:
        noted.variables.update(known)
    problems: list[EinmapError] = []
    found: dict[str, int] = {}
    for name, number in sizes.items():
        if name not in known:
            hint = did_you_mean(name, known, listing="open dimensions")
            problems.append(SpecError(f"no input has an open dimension {name}", at=At(program.file), hint=hint))
        elif not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= MOST_VALUES:
            text = f"the dimension {name} must be an integer from 1 on, found {short(number)}"
            problems.append(SpecError(text, at=At(program.file)))
        else:
            found[known[name]] = number
    problems += _with_batch(program, batch, found)
    for symbol, place in _places(program).items():
        name = program.aliases.get(symbol, symbol)
        if symbol not in found:
            text, hint = f"the size of {place} is open ({name})", f"give it with -D {name}=N"
            problems.append(SpecError(text, at=At(program.file), hint=hint))
            continue
        low, high = program.ranges.get(symbol, (None, None))
        if found[symbol] < (low or 0) or (high is not None and found[symbol] > high):
            text = f"the program is for {name} from {low or 0} to {high}, found {found[symbol]}"
            problems.append(SpecError(text, at=At(program.file)))
    raise_all(problems)
    return found


def _with_batch(program: Program, batch: int | None, found: dict[str, int]) -> list[EinmapError]:
    """Set the symbols that are first dimensions of inputs, and say which of these are other numbers."""
    problems: list[EinmapError] = []
    for given in _inputs(program) if batch is not None else ():
        size = next(iter(program.graph.facts[given.name].shape), None)
        if isinstance(size, str) and batch is not None:
            found.setdefault(size, batch)
        elif size not in (None, batch):
            text = f"the first dimension of {given.source} is {size} in the program, not {batch}"
            hint = "export it with dynamic_shapes, or with example inputs of that size"
            problems.append(SpecError(text, at=At(program.file), hint=hint))
    return problems
