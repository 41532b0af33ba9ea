"""Which variables a template asks for: those that it reads where it has not set them itself."""

from __future__ import annotations

from collections.abc import Iterable

from jinja2 import nodes

_IN_MACROS = frozenset({"caller", "varargs", "kwargs"})


def asked_for(body: Iterable[nodes.Node], known: set[str]) -> set[str]:
    """The names that statements read and that are not `known` there; what they set is added to `known`.

    Branches that are not taken count as well, and a name that only some branches set may be asked for after them.
    """
    found: set[str] = set()
    for node in body:
        found |= _of(node, known)
    return found


def _of(node: nodes.Node, known: set[str]) -> set[str]:
    match node:
        case nodes.Name():
            return {node.name} - known
        case nodes.If():
            return _of_branches(node, known)
        case nodes.For():
            found = _of(node.iter, known)
            inner = known | _targets(node.target) | {"loop"}
            parts = [*([node.test] if node.test is not None else []), *node.body]
            return found | asked_for(parts, inner) | asked_for(node.else_, set(known))
        case nodes.Macro() | nodes.CallBlock():
            own = {argument.name for argument in node.args} | _IN_MACROS
            found = asked_for([*node.defaults, *node.body], known | own)
            if isinstance(node, nodes.CallBlock):
                return found | _of(node.call, known)
            known.add(node.name)
            return found
        case nodes.With():
            found = asked_for(node.values, known)
            return found | asked_for(node.body, known.union(*map(_targets, node.targets)))
        case nodes.Assign():
            found = _of(node.node, known)
            known |= _targets(node.target)
            return found
        case nodes.AssignBlock():
            found = asked_for([*([node.filter] if node.filter else []), *node.body], set(known))
            known |= _targets(node.target)
            return found
        case nodes.FilterBlock() | nodes.Block():
            return asked_for(node.iter_child_nodes(), set(known))
        case nodes.Import():
            found = _of(node.template, known)
            known.add(node.target)
            return found
        case nodes.FromImport():
            found = _of(node.template, known)
            known |= {name[1] if isinstance(name, tuple) else name for name in node.names}
            return found
        case _:
            return asked_for(node.iter_child_nodes(), known)


def _of_branches(node: nodes.If, known: set[str]) -> set[str]:
    found: set[str] = set()
    after = []
    for branch in (node, *node.elif_):
        inner = set(known)
        found |= _of(branch.test, known) | asked_for(branch.body, inner)
        after.append(inner)
    inner = set(known)
    found |= asked_for(node.else_, inner)
    known |= inner.intersection(*after)
    return found


def _targets(node: nodes.Node) -> set[str]:
    """The names that an assignment sets; a field of a namespace is none."""
    return {name.name for name in ([node] if isinstance(node, nodes.Name) else node.find_all(nodes.Name))}
