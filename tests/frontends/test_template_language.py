"""Templates mean what Jinja2 makes of them: each snippet is rendered by both, and gives one text."""

import jinja2
import pytest

from einmap.errors import SpecError
from einmap.frontends.yaml.include import Documents

GIVEN = {
    "n": 7,
    "x": 2.5,
    "s": "Hello wide World",
    "t": True,
    "nothing": None,
    "xs": [3, 1, 2],
    "names": ["b", "A", "c", "a"],
    "d": {"b": 1, "a": 2, "C": 3},
    "rows": [
        {"k": "x", "v": 2, "in": {"z": 1}},
        {"k": "y", "v": 1, "in": {"z": 3}},
        {"k": "x", "v": 0, "in": {"z": 2}},
    ],
}

SNIPPETS = """\
{{ n }} {{ x }} {{ s }} {{ t }} {{ nothing }} {{ xs }} {{ d }} {{ (1, 'a') }} {{ [] }} {{ {} }} {{ 1e3 }} {{ 0x10 }} {{ 1_000 }}
{{ n + 1 }} {{ n - 1 }} {{ n * 2 }} {{ n / 2 }} {{ n // 2 }} {{ n % 4 }} {{ n ** 2 }} {{ -n }} {{ +n }} {{ 2 ** 3 ** 2 }} {{ -2 ** 2 }}
{{ 'a' + 'b' }} {{ [1] + [2] }} {{ 'ab' * 3 }} {{ 3 * [0] }} {{ (1,) + (2,) }} {{ n ~ 'a' ~ x ~ none }}
{{ n > 3 }} {{ n == 7.0 }} {{ 1 < n <= 7 }} {{ n != 7 }} {{ 'a' in s }} {{ 2 in xs }} {{ 'b' in d }} {{ 4 not in xs }} {{ [1, 2] < [1, 3] }}
{{ t and n }} {{ not t }} {{ nothing or 'x' }} {{ 0 and 1 }} {{ 'a' if t else 'b' }} {{ 'a' if not t }}{{ ('a' if not t) is defined }}{{ 1 if ('a' if not t) else 2 }} {{ 'a' if not t else 'b' if n > 9 else 'c' }}
{{ xs[0] }} {{ xs[-1] }} {{ xs[1:] }} {{ s[::-1] }} {{ s[2] }} {{ d.b }} {{ d['a'] }} {{ rows[1].k }} {{ rows.0.v }} {{ range(9)[2:5] }}
{{ s.upper() }} {{ s.split() }} {{ s.split('l') }} {{ s.find('w') }} {{ s.startswith('He') }} {{ s.partition(' ') }} {{ ' a '.strip() }}
{{ s.rsplit(' ', 1) }} {{ s.count('l') }} {{ 'abc'.removeprefix('a') }} {{ 'a\\nb'.splitlines() }} {{ s.swapcase() }} {{ 'ab1'.isalnum() }}
{{ d.get('z', 5) }} {{ d.keys() | list }} {{ d.values() | list }} {{ d.items() | list }} {{ 5.0.is_integer() }} {{ (5).bit_length() }}
{% set l = [1] %}{% set _ = l.append(2) %}{% set _ = l.insert(0, 9) %}{{ l }} {{ l.pop() }} {{ l.index(9) }} {{ l.count(1) }} {{ (1, 2).index(2) }}
{% set e = {} %}{% set _ = e.update(a=1) %}{% set _ = e.update({'b': 2}) %}{{ e }} {{ e.setdefault('c', 3) }} {{ e.pop('a') }} {{ e }}
{{ xs | sort }} {{ xs | sort(reverse=true) }} {{ names | sort }} {{ names | sort(case_sensitive=true) }} {{ rows | sort(attribute='k,v') | map(attribute='v') | list }}
{{ xs | sum }} {{ xs | min }} {{ xs | max }} {{ rows | sum(attribute='v') }} {{ [[1], [2]] | sum(start=[]) }} {{ rows | max(attribute='v') }} {{ names | min }}
{{ xs | first }} {{ xs | last }} {{ xs | length }} {{ s | count }} {{ xs | reverse | list }} {{ s | reverse }} {{ s | list | length }} {{ xs | join('-') }} {{ rows | join(',', attribute='k') }}
{{ s | upper }} {{ s | lower }} {{ s | title }} {{ s | capitalize }} {{ ' a ' | trim }} {{ 'xax' | trim('x') }} {{ s | replace('l', 'L') }} {{ s | replace('l', 'L', 1) }} {{ n | string | length }}
{{ '4' | int }} {{ '4.7' | int }} {{ 'x' | int }} {{ 'x' | int(9) }} {{ 'ff' | int(base=16) }} {{ '2.5' | float }} {{ 'x' | float }} {{ -3 | abs }} {{ 2.567 | round(1) }} {{ 42 | round }} {{ 2.1 | round(0, 'ceil') }} {{ 2.9 | round(method='floor') }}
{{ q | default('z') }} {{ q | d(1) }} {{ '' | default('e', true) }} {{ n | default(1) }} {{ d | dictsort }} {{ d | dictsort(true) }} {{ d | dictsort(false, 'value', true) }} {{ d | items | list }}
{{ xs | map('string') | list }} {{ xs | select('odd') | list }} {{ xs | reject('odd') | list }} {{ xs | select('>', 1) | list }} {{ [0, 1, ''] | select | list }} {{ rows | selectattr('v') | map(attribute='k') | list }}
{{ rows | selectattr('k', 'equalto', 'x') | map(attribute='v') | list }} {{ rows | rejectattr('v', 'in', [0, 1]) | map(attribute='in.z') | list }} {{ rows | map(attribute='w', default=5) | list }}
{{ ['a', 'A', 'b'] | unique | list }} {{ [(1, 2), (1, 2)] | unique | list }} {{ names | map('upper') | join }} {{ ['a'] | map('replace', 'a', 'b') | list }}
{% for g in rows | groupby('k') %}{{ g.grouper }}{{ g.list | length }}{{ g[0] }}{% endfor %} {% for k, r in rows | groupby('in.z') %}{{ k }}{{ r | length }}{% endfor %}
{{ q is defined }} {{ n is undefined }} {{ n is odd }} {{ n is even }} {{ n is divisibleby 7 }} {{ n is divisibleby(2) }} {{ nothing is none }} {{ t is true }} {{ t is false }} {{ t is boolean }} {{ t is integer }}
{{ n is number }} {{ x is float }} {{ s is string }} {{ d is mapping }} {{ xs is sequence }} {{ d is iterable }} {{ n is iterable }} {{ range is callable }} {{ n is sameas n }} {{ 'a' is lower }} {{ 'a' is upper }} {{ n is ge 7 }} {{ n is not in xs }} {{ 'upper' is filter }} {{ 'odd' is test }} {{ 'a' is escaped }}
{% if n > 9 %}a{% elif n > 5 %}b{% else %}c{% endif %}{% if q is defined %}d{% endif %}
{% for i in xs %}{{ loop.index }}/{{ loop.length }}{{ loop.first }}{{ loop.last }}{{ loop.revindex0 }}:{{ i }}{{ loop.cycle('a', 'b') }}{{ ',' if not loop.last }}{% endfor %}
{% for i in xs if i > 1 %}{{ i }}{{ loop.index0 }}{{ loop.previtem | default('-') }}{{ loop.nextitem | default('-') }}{% else %}none{% endfor %} {% for i in [] %}{% else %}none{% endfor %}
{% for i in [1, 1, 2] %}{{ loop.changed(i) }}{% endfor %} {% for a, (b, c) in [(1, (2, 3))] %}{{ a + b + c }}{% endfor %} {% for k in d %}{{ k }}{% endfor %} {% for c in 'ab' %}{{ c }}.{% endfor %}
{% for i in range(2) %}{% for j in range(2) %}{{ loop.index }}{{ i }}{{ j }} {% endfor %}{{ loop.index }}{% endfor %}{% for i in range(5, 0, -2) %}{{ i }}{% endfor %}
{% set a = 1 %}{% for i in xs %}{% set a = a + i %}{{ a }}{% endfor %}{{ a }} {% if t %}{% set a = 9 %}{% endif %}{{ a }}
{% set ns = namespace(c=0, l=[]) %}{% for i in xs %}{% set ns.c = ns.c + i %}{% endfor %}{{ ns.c }} {% set a, b = 1, 2 %}{{ a }}{{ b }} {% set a, b = b, a %}{{ a }}{{ b }}
{% set block %}x{{ n }}y{% endset %}{{ block }} {% set up | upper %}x{{ n }}{% endset %}{{ up }} {% filter upper | replace('A', 'b') %}ab{{ n }}{% endfilter %}
{% with a = 1, b = n %}{{ a + b }}{% set c = 5 %}{{ c }}{% endwith %}{{ c is defined }} {% with %}{% set n = 0 %}{{ n }}{% endwith %}{{ n }}
{% macro f(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, 3) }} {{ f(b=4, a=5) }} {{ f(*[1, 2]) }} {{ f(**{'a': 7}) }} {{ f(1) | length }}
{% macro g(a) %}{{ a }}{{ varargs }}{{ kwargs }}{% endmacro %}{{ g(1, 2, 3, k=4) }} {% macro h() %}<{{ caller() }}>{% endmacro %}{% call h() %}in{{ n }}{% endcall %}
{% macro each(v) %}{% for i in v %}{{ caller(i) }};{% endfor %}{% endmacro %}{% call(i) each(xs) %}{{ i }}{% endcall %} {% macro r(k) %}{{ k }}{{ r(k - 1) if k else '' }}{% endmacro %}{{ r(4) }}
{% macro late() %}{{ after }}{% endmacro %}{% set after = 3 %}{{ late() }} {% macro m(p) %}{{ p | default('none') }}{% endmacro %}{{ m() }} {% macro n2(n) %}{{ n }}{% endmacro %}{{ n2(1) }}{{ n }}
{# comment #}{% raw %}{{ raw }}{% endraw %} {%- if t -%}  a  {%- endif %} b {{- n -}} c {% block b %}in{{ n }}{% endblock %} {% print n, x %}
{{ dict(a=1) }} {{ dict({'a': 1}, b=2) }} {{ range(3) | list }} {{ range(2, 9, 3) | list }} {{ 'a' 'b' }} {{ "it's" }} {{ 'a\\tb' }} {{ ['a', "b'"] }} {{ (1,) }} {{ () }} {{ true }} {{ None }} {{ False }}
""".splitlines()

SAID = [  # what Jinja2 renders otherwise: views, iterators
    ("{{ d.keys() }}", "['b', 'a', 'C']"),
    ("{{ xs | map('string') }}", "['3', '1', '2']"),
    ("{{ names | select('lower') | unique }}", "['b', 'c', 'a']"),
]

FAILING = [
    "{{ q }}", "{{ q.a }}", "{{ d.q }}", "{{ xs[9] }}", "{{ q + 1 }}", "{% if q %}{% endif %}", "{% for i in q %}{% endfor %}",
    "{{ ('a' if false) + 'b' }}", "{{ 1 + 'a' }}", "{{ 'a' + 1 }}", "{{ n() }}", "{{ n | nofilter }}", "{{ n is notest }}", "{{ 1 // 0 }}",
    "{% for i in 5 %}{% endfor %}", "{% set a, b = [1] %}", "{% macro f(a) %}{% endmacro %}{{ f(1, 2) }}", "{{ {[1]: 1} }}",
    "{% macro f(a) %}{% endmacro %}{{ f(z=2) }}", "{% macro f(a) %}{{ a }}{% endmacro %}{{ f() }}", "{% set n.a = 1 %}",
    "{{ xs | sort(attribute='q') }}", "{{ [] | max }}", "{{ [] | first }}", "{{ ['a', 1] | sort }}", "{% if %}", "{{", "{% endfor %}",
    "{% for i in xs %}{{ loop.previtem }}{% endfor %}", "{{ caller() }}", "{% from 'x' import y %}", "{{ 9 | round(0, 'up') }}",
]  # fmt: skip


def ours(text):
    return Documents(GIVEN).source("f.yaml", None).rendered(text).text


def theirs(text):
    return (
        jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True).from_string(text).render(GIVEN)
    )


@pytest.mark.parametrize("text", SNIPPETS)
def test_a_snippet_gives_what_jinja2_gives(text):
    assert ours(text) == theirs(text)


@pytest.mark.parametrize(("text", "said"), SAID)
def test_lists_are_written_as_lists(text, said):
    assert ours(text) == said


@pytest.mark.parametrize("text", FAILING)
def test_what_fails_in_jinja2_fails_here(text):
    with pytest.raises((jinja2.TemplateError, TypeError, ValueError, ZeroDivisionError)):
        theirs(text)
    with pytest.raises(SpecError, match=r"f\.yaml:1: "):
        ours(text)


def test_a_template_changes_nothing_of_what_the_caller_gives():
    given = {"xs": [1]}
    Documents(given).source("f.yaml", None).rendered("{% set _ = xs.append(2) %}")
    assert given == {"xs": [1]}


def test_values_that_are_not_plain_are_refused():
    with pytest.raises(SpecError, match="template variable f is of the type function"):
        Documents({"f": ours}).source("f.yaml", None).rendered("{{ f }}")
