"""Which variables a template asks for: those that it reads where it has not set them itself."""

from __future__ import annotations

from collections.abc import Iterable

from jinja2 import nodes

_IN_MACROS = frozenset({"caller", "varargs", "kwargs"})


def asked_for(body: Iterable[nodes.Node], defined: set[str]) -> set[str]:
    """The names that statements read and that are not `defined` there; what they set is added to `defined`.

    Branches that are not taken count as well, and a name that only some branches set may be asked for after them.
    """
    names: set[str] = set()
    for node in body:
        names |= _of(node, defined)
    return names


def _of(node: nodes.Node, defined: set[str]) -> set[str]:
    match node:
        case nodes.Name():
            return {node.name} - defined
        case nodes.If():
            return _of_branches(node, defined)
        case nodes.For():
            names = _of(node.iter, defined)
            inner = defined | _targets(node.target) | {"loop"}
            parts = [*([node.test] if node.test is not None else []), *node.body]
            return names | asked_for(parts, inner) | asked_for(node.else_, set(defined))
        case nodes.Macro() | nodes.CallBlock():
            parameters = {argument.name for argument in node.args} | _IN_MACROS
            names = asked_for([*node.defaults, *node.body], defined | parameters)
            if isinstance(node, nodes.CallBlock):
                return names | _of(node.call, defined)
            defined.add(node.name)
            return names
        case nodes.With():
            names = asked_for(node.values, defined)
            return names | asked_for(node.body, defined.union(*map(_targets, node.targets)))
        case nodes.Assign():
            names = _of(node.node, defined)
            defined |= _targets(node.target)
            return names
        case nodes.AssignBlock():
            names = asked_for([*([node.filter] if node.filter else []), *node.body], set(defined))
            defined |= _targets(node.target)
            return names
        case nodes.FilterBlock() | nodes.Block():
            return asked_for(node.iter_child_nodes(), set(defined))
        case nodes.Import():
            names = _of(node.template, defined)
            defined.add(node.target)
            return names
        case nodes.FromImport():
            names = _of(node.template, defined)
            defined |= {name[1] if isinstance(name, tuple) else name for name in node.names}
            return names
        case _:
            return asked_for(node.iter_child_nodes(), defined)


def _of_branches(node: nodes.If, defined: set[str]) -> set[str]:
    names: set[str] = set()
    after = []
    for branch in (node, *node.elif_):
        inner = set(defined)
        names |= _of(branch.test, defined) | asked_for(branch.body, inner)
        after.append(inner)
    inner = set(defined)
    names |= asked_for(node.else_, inner)
    defined |= inner.intersection(*after)
    return names


def _targets(node: nodes.Node) -> set[str]:
    """The names that an assignment sets; a field of a namespace is none."""
    return {name.name for name in ([node] if isinstance(node, nodes.Name) else node.find_all(nodes.Name))}
