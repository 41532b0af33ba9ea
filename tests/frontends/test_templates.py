import subprocess
import sys

import pytest
from tests.work import work_below

from einmap.errors import NotSupportedError, SpecError
from einmap.frontends.yaml.folders import NO_ROOTS, Roots
from einmap.frontends.yaml.include import Documents


def render(text, folder=None, **define):
    path = None if folder is None else folder / "f.yaml"
    documents = Documents(define, NO_ROOTS if path is None else Roots.of([path]))
    return documents.source("f.yaml", path).rendered(text)


def rendered(text, folder=None, **define):
    return render(text, folder, **define).text


def failure(text, folder=None, **define):
    with pytest.raises(SpecError) as caught:
        rendered(text, folder, **define)
    return caught.value


def test_text_without_marks_is_left_alone():
    assert rendered("a: {b: 1}\r\n") == "a: {b: 1}\r\n"


def test_loading_without_templates_does_not_import_jinja2():
    code = "import sys, einmap.frontends.yaml.load; assert 'jinja2' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_statements_filters_and_variables_work():
    text = "{% set M = N * 2 %}m: {{M}}, k: {{ K | default(3) }}\n{% for i in range(2) %}[{{i}}]{% endfor %}\n"
    assert rendered(text, N=4) == "m: 8, k: 3\n[0][1]\n"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("ceil(7 / 2)", "4"),
        ("floor(3.5)", "3"),
        ("log2(8)", "3.0"),
        ("max(1, 2) + min(3, 4)", "5"),
        ("sqrt(16)", "4.0"),
        ("len([1, 2])", "2"),
        ("round(2.567, 1)", "2.6"),
        ("pow(2, 10)", "1024"),
        ("prod([2, 3])", "6"),
        ("factorial(5)", "120"),
        ("['a', 'b'] | join(', ')", "a, b"),
        ("'a' ~ 1 ~ 'b'", "a1b"),
    ],
)
def test_expressions_have_the_functions_of_specifications(expression, value):
    assert rendered(f"{{{{ {expression} }}}}") == value


def test_an_undefined_variable_says_how_to_give_it():
    error = failure("a: 1\nb: {{ M }}\n", N=1)
    assert str(error) == (
        "f.yaml:2: template variable M is not defined\n"
        "  hint: pass it: -D M=VALUE, or load(..., define={'M': ...}); given variables: N"
    )


def test_a_missing_field_is_an_error():
    assert "no attribute 'x'" in str(failure("{{ d.x }}", d={}))


def test_a_failed_assert_gives_its_message_and_line():
    text = "a: 1\n{% assert N < 4, 'N is too big: ' ~ N %}\n"
    assert rendered(text, N=3) == "a: 1\n\n"
    assert str(failure(text, N=5)) == "f.yaml:2: N is too big: 5"


def test_an_assert_needs_no_message():
    assert "assertion does not hold" in str(failure("{% assert 1 > 2 %}"))


def test_a_syntax_error_has_its_line():
    error = failure("a: 1\n{% if %}\n")
    assert str(error).startswith("f.yaml:2: not a valid template: ")


def test_a_failing_expression_has_its_line():
    assert str(failure("\n\n{{ 1 // 0 }}")).startswith("f.yaml:3: the template failed: ZeroDivisionError")


def test_cwd_is_the_folder_of_the_file(tmp_path):
    assert rendered("{{ cwd() }}", tmp_path) == str(tmp_path)
    assert "has no folder" in str(failure("{{ cwd() }}"))


def test_jinja_includes_come_from_the_own_folder(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "part.yaml").write_text("m: {{ M }}")
    assert rendered("{% include 'sub/part.yaml' %}\n", tmp_path, M=3) == "m: 3\n"
    error = failure("a: 1\n{% include 'sub/part.yaml' %}\n", tmp_path)
    assert error.at is not None
    assert (error.at.file, error.at.line) == (str(tmp_path / "sub" / "part.yaml"), 1)


def test_jinja_macros_can_be_imported(tmp_path):
    (tmp_path / "m.jinja").write_text("{% macro twice(x) %}{{ 2 * x }}{% endmacro %}")
    assert rendered("{% from 'm.jinja' import twice %}{{ twice(4) }}", tmp_path) == "8"


@pytest.mark.parametrize("name", ["../secret.yaml", "/etc/passwd", "link.yaml", "sub/../../secret.yaml"])
def test_jinja_includes_cannot_leave_the_folder(tmp_path, name):
    folder = tmp_path / "spec"
    (folder / "sub").mkdir(parents=True)
    (tmp_path / "secret.yaml").write_text("secret")
    (folder / "link.yaml").symlink_to(tmp_path / "secret.yaml")
    assert "leads out of" in str(failure(f"{{% include '{name}' %}}", folder))


def test_a_missing_jinja_include_is_named(tmp_path):
    assert "the included template 'gone.yaml' was not found" in str(
        failure("{% include 'gone.yaml' %}", tmp_path)
    ).replace(f"{tmp_path}/", "")


def test_jinja_includes_are_relative_to_the_file_they_stand_in(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.jinja").write_text("a {% include 'b.jinja' %}")
    (tmp_path / "sub" / "b.jinja").write_text("b {% include '../c.jinja' %}")
    (tmp_path / "c.jinja").write_text("c")
    assert rendered("{% include 'sub/a.jinja' %}", tmp_path) == "a b c"


def test_jinja_includes_need_a_folder():
    assert "no folder" in str(failure("{% include 'a.jinja' %}"))


def test_jinja_includes_in_a_circle_are_refused(tmp_path):
    (tmp_path / "f.yaml").write_text("{% include 'a.jinja' %}")
    (tmp_path / "a.jinja").write_text("{% include 'b.jinja' %}")
    (tmp_path / "b.jinja").write_text("{% include 'a.jinja' %}")
    text = str(failure("{% include 'a.jinja' %}", tmp_path)).replace(f"{tmp_path}/", "")
    assert text == "f.yaml: include cycle a.jinja -> b.jinja -> a.jinja"


def test_paths_are_found_in_the_own_folders(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.yaml").touch()
    (tmp_path / "a.yaml").touch()
    assert rendered("{{ find_path('*.yaml') }}", tmp_path) == str(tmp_path / "a.yaml")
    assert rendered("{{ path_exists('b.yaml') }}", tmp_path) == "False"
    assert rendered("{{ add_to_path('sub') }}{{ find_paths('b.yaml') }}", tmp_path) == f"['{tmp_path}/sub/b.yaml']"


@pytest.mark.parametrize("call", ["find_path('../x')", "add_to_path('..')", "path_exists('/etc/passwd')"])
def test_path_functions_cannot_leave_the_folder(tmp_path, call):
    assert "leads out of" in str(failure(f"{{{{ {call} }}}}", tmp_path))


def test_patterns_match_sorted_names_in_folders(tmp_path):
    for name in ("b.yaml", "a.yaml", ".hidden.yaml", "x/c.yaml", "x/y/d.yaml"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    def found(pattern):
        return rendered(f"{{{{ find_paths('{pattern}') | join(' ') }}}}", tmp_path).replace(f"{tmp_path}/", "")

    assert found("*.yaml") == "a.yaml b.yaml"
    assert found("*/*.yaml") == "x/c.yaml"
    assert found("**/*.yaml") == "a.yaml b.yaml x/c.yaml x/y/d.yaml"
    assert found("[a]?yaml") == "a.yaml"
    assert found("x/../a.yaml") == "a.yaml"


def test_links_that_leave_are_refused_and_others_followed(tmp_path):
    home = tmp_path / "spec"
    home.mkdir()
    (home / "a.yaml").touch()
    (home / "in.yaml").symlink_to("a.yaml")
    assert rendered("{{ path_exists('in.yaml') }}", home) == "True"
    (tmp_path / "b.yaml").touch()
    (home / "out.yaml").symlink_to(tmp_path / "b.yaml")
    assert f"the path 'out.yaml' leads out of {home} (it is {tmp_path / 'b.yaml'})" in str(
        failure("{{ find_path('out.yaml') }}", home)
    )


def test_patterns_in_folders_that_repeat_themselves_are_stopped(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).symlink_to(tmp_path)
    assert "takes more than" in str(failure(f"{{{{ find_paths('{'*/' * 30}x') }}}}", tmp_path))


def test_missing_paths_are_errors(tmp_path):
    assert f"searched: {tmp_path}" in str(failure("{{ find_path('x') }}", tmp_path))
    assert "no folder matches 'x'" in str(failure("{{ add_to_path('x') }}", tmp_path))


def test_setenv_is_refused():
    error = failure("\n{{ setenv('A', 'b') }}")
    assert isinstance(error, NotSupportedError)
    assert str(error).startswith("f.yaml:2: setenv is not supported: a specification does not change the environment")


@pytest.mark.parametrize(
    "text",
    [
        "{{ ().__len__() }}",
        "{{ ''['zfill'] }}",
        "{{ cwd.name }}",
        "{{ self.name }}",
        "{{ '%s'.format(1) }}",
        "{{ 'a'['format'](1) }}",
        "{% set f = 'a'|attr('format') %}",
        "{{ range.name }}",
    ],
)
def test_templates_cannot_reach_into_python(text):
    failure(text)


@pytest.mark.parametrize(
    "text",
    [
        "{{ range(10**9) }}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(60) }}",
        "{{ 'a' * 10**9 }}",
        "{{ 10 ** (10**10) }}",
        "{{ pow(10, pow(10, 10)) }}",
        "{{ factorial(10**7) }}",
        "{{ '%1000000000d' % 1 }}",
        "{{ 'a'.center(10**9) }}",
        "{{ 'a' | center(10**9) }}",
        "{{ [1] | batch(10**9, 1) | list }}",
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}",
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}",
        "{% set ns = namespace(x=3) %}{% for i in range(60) %}{% set ns.x = ns.x * ns.x %}{% endfor %}",
        "{% set x = [1, 2] %}{% for i in range(60) %}{% set _ = x.extend(x) %}{% endfor %}",
        "{% set x = 'ab' * 9999 %}{{ x | replace('a', x) }}",
        "{% set x = range(99999) | list %}{% for i in range(9999) %}{{ x | sum }}{% endfor %}",
        "{% for i in range(99999) %}{{ 'a' * 1000 }}{% endfor %}",
        "{% for i in [[[]]] recursive %}{{ loop(i) }}{% endfor %}",
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}",
        "{{ lipsum(10**6) }}",
    ],
)
def test_endless_templates_are_stopped(text):
    with work_below(10):
        failure(text)
