import pytest
from hypothesis import given
from hypothesis import strategies as st

from einmap.errors import ManyErrors, SpecError
from einmap.frontends.yaml.load import read_files, read_text
from einmap.frontends.yaml.parsing import work
from einmap.frontends.yaml.spec import load
from einmap.spec.raw import get_value, parse_path, place, to_python

TAGGED = "arch: !include {}\n"
BY_FUNCTION = "arch: {{{{ include('{}') }}}}\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder `spec` as current directory, filled by `folder({"a.yaml": text})`."""
    home = tmp_path / "spec"
    home.mkdir()
    monkeypatch.chdir(home)

    def write(files):
        for name, text in files.items():
            (home / name).parent.mkdir(parents=True, exist_ok=True)
            (home / name).write_text(text)
        return home

    return write


def read(*paths, **options):
    return to_python(read_files(*(paths or ["a.yaml"]), **options)[0])


def failure(*paths, **options):
    with pytest.raises(SpecError) as caught:
        read_files(*(paths or ["a.yaml"]), **options)
    return str(caught.value)


# tags


def test_an_include_tag_gives_the_whole_document(folder):
    folder({"a.yaml": "arch: !include sub/b.yaml", "sub/b.yaml": "x: !include c.yaml", "sub/c.yaml": "[1, 2]"})
    assert read() == {"arch": {"x": [1, 2]}}


@pytest.mark.parametrize("text", ["arch: !include b.yaml,", "arch: !include 'b.yaml'", "{arch: !include b.yaml, }"])
def test_a_trailing_comma_after_a_path_is_dropped(folder, text):
    folder({"a.yaml": text, "b.yaml": "{x: 1}"})
    assert read() == {"arch": {"x": 1}}


def test_an_included_folder_is_the_list_of_its_yaml_files_by_name(folder):
    folder({"a.yaml": "arch: !includedir d", "d/2.yaml": "two", "d/1.yaml": "one", "d/3.txt": "three"})
    assert read() == {"arch": ["one", "two"]}


@pytest.mark.parametrize(
    ("tag", "problem"),
    [
        ("!include", "a.yaml:2:7: !include needs a path"),
        ("!include gone.yaml", "a.yaml:2:7: no file matches 'gone.yaml'"),
        ("!include bb.yaml", "did you mean 'b.yaml'?"),
        ("!include '*.yaml'", "'*.yaml' matches 2 files"),
        ("!includedir gone", "a.yaml:2:7: no file matches 'gone/*.yaml'"),
        ("!include [b.yaml]", "a.yaml:2:7: the tag !include needs a path"),
        ("!include sub", "no file matches 'sub'"),
        ("!includes b.yaml", "the tag !includes is not known"),
    ],
)
def test_a_wrong_include_tag_is_refused_at_its_line(folder, tag, problem):
    folder({"a.yaml": f"# one\narch: {tag}", "b.yaml": "1", "sub/x.txt": ""})
    assert problem in failure()


def test_included_documents_can_be_merged(folder):
    folder(
        {
            "a.yaml": "arch: {<<<: [!include b.yaml, !include c.yaml], l: [0]}\nmodel: {<<: !include b.yaml, x: 9}",
            "b.yaml": "{x: 1, l: [1]}",
            "c.yaml": "{y: 2, l: [2]}",
        }
    )
    assert read() == {"arch": {"l": [0, 1, 2], "x": 1, "y": 2}, "model": {"x": 9, "l": [1]}}


def test_nomerge_holds_in_included_documents(folder):
    folder({"a.yaml": "arch: {<<<: !include b.yaml, l: [0]}\nmodel: !include b.yaml", "b.yaml": "l: !nomerge [1]"})
    assert read() == {"arch": {"l": [0]}, "model": {"l": [1]}}
    assert "nomerge" not in repr(read_files("a.yaml")[0])


def test_a_file_may_include_its_whole_content(folder):
    folder({"a.yaml": "!include b.yaml", "b.yaml": "arch: 1"})
    assert read() == {"arch": 1}


def test_an_anchor_at_an_include_names_what_is_included(folder):
    folder({"a.yaml": "arch: &b !include b.yaml\nmodel: {<<: *b, y: *b}", "b.yaml": "x: 1"})
    assert read() == {"arch": {"x": 1}, "model": {"y": {"x": 1}, "x": 1}}


# functions


def test_include_gives_the_value_at_its_keys(folder):
    folder({"a.yaml": "arch: {{ include('b.yaml', 'arch.nodes.M') }}", "b.yaml": "arch: {nodes: [{name: M, x: 1}]}"})
    assert read() == {"arch": {"name": "M", "x": 1}}


def test_a_placeholder_can_be_stored_and_followed_by_keys(folder):
    text = "{% set B = include('b.yaml') %}\narch: {{B}}.p.q\nmodel: [{{B}}.p, {{ B }}]\n"
    folder({"a.yaml": text, "b.yaml": "p: {q: 1}"})
    assert read() == {"arch": 1, "model": [{"q": 1}, {"p": {"q": 1}}]}


def test_placeholders_can_be_merged(folder):
    text = "{% set B = include('b.yaml') %}{% set C = include('c.yaml') %}\narch: {<<<: [{{B}}.x, {{C}}.x], l: [0]}\n"
    folder({"a.yaml": text, "b.yaml": "x: {l: [1], b: 1}", "c.yaml": "x: {l: [2], b: 2, c: 2}"})
    assert read() == {"arch": {"l": [0, 1, 2], "b": 1, "c": 2}}


def test_a_placeholder_reaches_included_files(folder):
    text = "{% set B = include('b.yaml') %}arch: {{ include('c.yaml') }}"
    folder({"a.yaml": text, "b.yaml": "x: 1", "c.yaml": "c: {{B}}.x"})
    assert read() == {"arch": {"c": 1}}


@pytest.mark.parametrize(
    "value", ['"{{B}}"', "{{B}} 1", "x{{B}}", "{{B}}x", "{{B}}{{B}}", "|\n  {{B}}", "{{B ~ B}}", "'{{B}}.x'"]
)
def test_a_placeholder_must_stand_alone(folder, value):
    folder({"a.yaml": f"{{% set B = include('b.yaml') %}}\narch: {value}", "b.yaml": "x: 1"})
    assert "a.yaml:2:7: what include" in failure()


@pytest.mark.parametrize("keys", ["include('b.yaml', 'x.b')", "include('b.yaml')}}.x.b{{''"])
def test_a_missing_key_names_file_and_keys(folder, keys):
    folder({"a.yaml": f"# one\narch: {{{{{keys}}}}}", "b.yaml": "x: {a: 1, bb: 2}"})
    text = failure()
    assert text.startswith("a.yaml:2")
    assert "the key 'b' is not in x of b.yaml\n  hint: did you mean 'bb'? keys there: a, bb" in text


def test_a_key_of_a_single_value_says_so(folder):
    folder({"a.yaml": "arch: {{ include('b.yaml', 'x.y') }}", "b.yaml": "x: 5"})
    assert "the key 'y' is not in x of b.yaml\n  hint: there is a single value, '5'" in failure()


def test_included_files_see_variables(folder):
    text = "{% set K = 2 %}\narch: [{{ include('b.yaml') }}, {{ include('b.yaml', M=7, K=8) }}]"
    folder({"a.yaml": text, "b.yaml": "{{ M }} {{ K }}"})
    assert read(define={"M": 1}) == {"arch": ["1 2", "7 8"]}


def test_variables_can_be_kept_from_an_included_file(folder):
    text = "arch: {{ include('b.yaml', inherit_parse_data=False, K=1) }}\n"
    folder({"a.yaml": text, "b.yaml": "# one\n{{ M | default(0) }} {{ K }}"})
    assert read(define={"M": 1}) == {"arch": "0 1"}
    folder({"b.yaml": "# one\n{{ M }} {{ K }}"})
    assert failure(define={"M": 1}).startswith("b.yaml:2: template variable M is not defined")


def test_variables_of_the_user_reach_files_included_by_tag(folder):
    folder({"a.yaml": "arch: !include b.yaml", "b.yaml": "{{ M }}"})
    assert read(define={"M": 1}) == {"arch": 1}


def test_include_all_gives_a_list_by_name(folder):
    folder({"a.yaml": "arch: {{ include_all('d/*.yaml', 'x', M=3) }}", "d/2.yaml": "x: 2", "d/1.yaml": "x: {{ M }}"})
    assert read() == {"arch": [3, 2]}
    folder({"a.yaml": "# one\narch: {{ include_all('e/*.yaml') }}"})
    assert "a.yaml:2: no file matches 'e/*.yaml'" in failure()


def test_include_text_pastes_rendered_text(folder):
    folder({"a.yaml": "arch:\n{{ include_text('d/*', M=3) }}", "d/1": "  x: {{ M }}", "d/2": "  y: 2"})
    assert read() == {"arch": {"x": 3, "y": 2}}
    folder({"a.yaml": "arch: {{ include_text('d/1', 'x') }}"})
    assert "include_text takes no keys" in failure()


def test_include_of_several_files_is_refused(folder):
    folder({"a.yaml": "# one\narch: {{ include('d/*') }}", "d/1": "1", "d/2": "2"})
    assert "a.yaml:2: 'd/*' matches 2 files" in failure()


def test_functions_search_the_include_path(folder):
    folder({"a.yaml": "{{ add_to_path('lib*') }}arch: {{ include('b.yaml') }}", "lib1/b.yaml": "1", "lib2/c": ""})
    assert read() == {"arch": 1}
    assert failure("lib1/b.yaml", "a.yaml").count("problems") == 0


def test_a_path_that_was_found_can_be_included(folder):
    folder({"a.yaml": "arch: {{ include(find_path('d/b.yaml')) }}", "d/b.yaml": "1"})
    assert read() == {"arch": 1}


# what may be included


@pytest.mark.parametrize("form", [TAGGED, BY_FUNCTION])
@pytest.mark.parametrize("path", ["../secret.yaml", "/etc/passwd", "sub/../../secret.yaml", "link.yaml", "out/x.yaml"])
def test_nothing_outside_the_folders_of_the_files_is_included(folder, form, path):
    home = folder({"a.yaml": form.format(path), "sub/x": ""})
    (home.parent / "secret.yaml").write_text("secret")
    (home.parent / "x.yaml").write_text("secret")
    (home / "link.yaml").symlink_to("../secret.yaml")
    (home / "out").symlink_to("..")
    text = failure()
    assert text.startswith("a.yaml:1")
    assert f"the path {path!r} leads out of {home}" in text


@pytest.mark.parametrize("form", [TAGGED, BY_FUNCTION])
def test_the_folder_of_every_named_file_may_be_included_from(folder, form):
    home = folder({"a.yaml": form.format("../lib/b.yaml")})
    (home.parent / "lib").mkdir()
    (home.parent / "lib" / "b.yaml").write_text("1")
    (home.parent / "lib" / "c.yaml").write_text("model: {}")
    assert "leads out of" in failure()
    assert read("a.yaml", "../lib/c.yaml") == {"arch": 1, "model": {}}


@pytest.mark.parametrize("form", [TAGGED, BY_FUNCTION])
def test_files_below_may_include_what_is_above_them_in_the_folder(folder, form):
    folder({"a.yaml": form.format("sub/b.yaml"), "sub/b.yaml": form.format("../c.yaml"), "c.yaml": "1"})
    assert read() == {"arch": {"arch": 1}}


@pytest.mark.parametrize("text", ["arch: !include b.yaml", "arch: {{ include('b.yaml') }}"])
def test_a_text_that_is_no_file_includes_nothing(text):
    with pytest.raises(SpecError, match="not read from a file has no folder"):
        read_text(text)


@pytest.mark.parametrize("form", [TAGGED, BY_FUNCTION])
def test_an_include_cycle_is_named(folder, form):
    folder({"a.yaml": form.format("sub/b.yaml"), "sub/b.yaml": form.format("../a.yaml")})
    assert "sub/b.yaml:1" in failure()
    assert "include cycle a.yaml -> sub/b.yaml -> a.yaml" in failure()
    folder({"a.yaml": "# one\n" + form.format("a.yaml")})
    assert "include cycle a.yaml -> a.yaml" in failure()
    assert failure().startswith("a.yaml:2")


def test_a_long_chain_of_includes_is_refused(folder):
    folder({f"{i}.yaml": f"arch: !include {i + 1}.yaml" for i in range(200)})
    assert "more than 20 deep: 0.yaml -> 1.yaml" in failure("0.yaml")


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("{% for i in range(10**5) %}{% set B = include('b.yaml') %}{% endfor %}", "x"),
        ("arch: [{% for i in range(1500) %}{{ include('b.yaml', i=i) }}, {% endfor %}]", "[" + "x, " * 1000 + "]"),
        ("{% set B = include('b.yaml') %}arch: [{% for i in range(1500) %}{{ B }}, {% endfor %}]", f"[{'x, ' * 1000}]"),
        ("{% for i in range(90) %}{{ include_text('b.yaml') }}{% endfor %}", "x" * 10**6),
        ("{% for i in range(10**5) %}{% include 'b.yaml' %}{% endfor %}", "{% for i in range(100) %}{% endfor %}"),
    ],
    ids=["files", "parsed", "values", "text", "steps"],
)
def test_too_much_that_is_included_is_refused(folder, monkeypatch, first, other):
    monkeypatch.setattr(work, "MAX_STEPS", 100_000)
    folder({"a.yaml": first, "b.yaml": other})
    text = failure()
    assert "more than 100,000 steps" in text or "more than 1,000,000 values" in text or "longer than 2,000,000" in text


def test_deep_nesting_through_includes_is_refused(folder):
    deep = "{}!include {}.yaml{}"
    folder({f"{i}.yaml": deep.format("[" * 90, i + 1, "]" * 90) for i in range(19)} | {"19.yaml": "1"})
    folder({"a.yaml": "arch: !include 0.yaml"})
    assert "nested" in failure()


def test_files_that_include_two_each_are_stopped(folder, monkeypatch):
    monkeypatch.setattr(work, "MAX_STEPS", 100_000)
    folder({f"{i}.yaml": f"[!include {i + 1}.yaml, !include {i + 1}.yaml]" for i in range(1, 20)})
    folder({"a.yaml": "arch: !include 1.yaml", "20.yaml": "1"})
    assert "more than 1,000,000 values, aliases and includes expanded" in failure()


# places


def test_included_values_keep_their_file_and_line(folder):
    folder(
        {
            "a.yaml": "{% set B = include('lib/b.yaml') %}\narch:\n  <<: {{B}}.x\n  z: {{B}}.x.y\n  w: !include lib/b.yaml\n",
            "lib/b.yaml": "# one\nx:\n  y: 5\n",
        }
    )
    tree = read_files("a.yaml")[0]
    for path in ("arch.y", "arch.z", "arch.w.x.y"):
        assert str(place(tree, parse_path(path))) == f"lib/b.yaml:3:6: {path}"
    assert str(get_value(tree, ("arch",)).at) == "a.yaml:3:3"


def test_problems_in_included_values_are_placed_in_their_file(folder):
    folder(
        {
            "a.yaml": "arch: {nodes: [!include m.yaml, !Compute {name: C, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, latency: 1}]}]}\n"
            "workload: {rank_sizes: {M: 4}, bits_per_value: {All: 8}, einsums: ['Z[m] = A[m]']}\n",
            "m.yaml": "!Memory\nname: Buffer\nsize: 8 * sizzle\nleak_power: 0\narea: 0\nactions:\n- {name: read, energy: 1, latency: 1}\n- {name: write, energy: 1, latency: 1}\n",
        }
    )
    with pytest.raises(SpecError) as caught:
        load("a.yaml").arch()
    assert str(caught.value).startswith("m.yaml:3:7: arch.nodes[0] \"Buffer\".size: name 'sizzle' is not defined")


def test_errors_of_included_yaml_are_placed_in_their_file(folder):
    folder({"a.yaml": "arch: {{ include('b.yaml') }}", "b.yaml": "x: 1\nx: 2"})
    assert failure().startswith("b.yaml:2:1: the key 'x' is given twice")
    folder({"b.yaml": "x: 1\n{% if %}"})
    assert failure().startswith("b.yaml:2: not a valid template")


def test_problems_of_several_files_are_reported_together(folder):
    folder({"a.yaml": "arch: !include x.yaml", "b.yaml": "arch: {{ include('x.yaml') }}"})
    with pytest.raises(ManyErrors) as caught:
        read_files("a.yaml", "b.yaml")
    assert len(caught.value.problems) == 2


VALUES = st.recursive(
    st.integers(0, 9) | st.sampled_from(["text", "a b"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=8,
)


@given(value=VALUES)
def test_both_ways_of_including_give_the_same_as_writing_it_out(value, tmp_path_factory):
    home = tmp_path_factory.mktemp("spec")
    (home / "b.yaml").write_text(f"x: {value!r}")
    (home / "a.yaml").write_text(
        f"{{% set B = include('b.yaml') %}}arch: {{{{B}}}}\nmodel: !include b.yaml\nconfig: {{x: {value!r}}}\n"
    )
    tree = read(home / "a.yaml")
    assert tree["arch"] == tree["model"] == tree["config"] == {"x": value}
