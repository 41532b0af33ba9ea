"""The studio in a notebook: the same modules in one, and a widget that answers."""

import json
import re
from collections import Counter

import pytest

import einmap
from einmap.studio.assets import MODULES, asset, bundle


def test_names_of_the_modules_do_not_clash_in_one():
    text = bundle("widget.js")
    names = re.findall(r"^(?:async )?(?:function|const|let) (\w+)", text, re.MULTILINE)
    assert [name for name, n in Counter(names).items() if n > 1] == []
    assert len(names) > 30
    assert re.findall(r"^(?:import|export) .*", text, re.MULTILINE) == ["export default { render };"]


def test_each_module_imports_only_those_before_it():
    for number, name in enumerate(MODULES):
        assert {*re.findall(r'from "\./([\w.]+)"', asset(name))} <= {*MODULES[:number]}


def test_no_file_of_the_page_names_another_host():
    hosts = {
        word
        for name in ("index.html", "studio.css", "main.js", "widget.js", *MODULES)
        for word in re.findall(r"https?://[^\s\"']*", asset(name))
    }
    assert hosts == {"http://www.w3.org/2000/svg"}


def test_the_widget_answers_as_the_session_does(monkeypatch):
    pytest.importorskip("anywidget")
    widget = einmap.studio(einmap.load("simple", "matmul", "simple_matmul"))
    sent = []
    monkeypatch.setattr(widget, "send", lambda content, buffers=None: sent.append(content))
    widget._handle_custom_msg({"id": 7, "message": {"do": "move", "text": "split k 8"}}, [])
    assert sent[0]["id"] == 7
    assert sent[0]["answer"]["last"] == "split k 8"
    assert widget.session.command() == ""  # it was not read from files
    json.dumps(sent)
    for bad in ({}, {"id": "a"}, 3, None, {"id": 1}):
        widget._handle_custom_msg(bad, [])
    assert [one["answer"]["kind"] for one in sent[1:]] == ["error"]


def test_a_widget_of_anything_else_is_an_error():
    pytest.importorskip("anywidget")
    with pytest.raises(TypeError, match="studio takes a specification"):
        einmap.studio("simple")


def test_without_the_extra_it_says_what_is_missing(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "anywidget", None)
    with pytest.raises(einmap.SpecError, match=r"needs anywidget(.|\n)*einmap\[studio\]"):
        einmap.studio(einmap.load("simple", "matmul", "simple_matmul"))
