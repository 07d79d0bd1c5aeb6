"""Draws small templates from a grammar: typed expressions, so that most of them render, and tags with random white space
and dashes."""

import random

PRELUDE = (
    "{% set ns = namespace(a=1) %}{% set l = [3,1,2] %}{% set d = {'a':1,'b':{'c':2}} %}"
    "{% set s = 'Hello wor' %}{% set n = 4 %}{% set x = 'ab' %}"
)
TEXTS = ["'ab'", "'x y'", "' a\\n'", "s", "x", "messages[1].content", "messages[-1]['content']", "messages[0].role",
         "'<|im_end|>'", "'é,b'", "''", "ns.a"]
TEXT_FILTERS = ["trim", "upper", "lower", "title", "capitalize", "replace('a','<>')", "replace('','.')", "string", "reverse",
                "indent(2,true)", "default('q')", "list|join('|')", "first", "last", "tojson", "unique|join", "sort|join",
                "map('upper')|join", "trim('a ')"]
TEXT_METHODS = ["strip()", "lstrip()", "rstrip()", "strip('a ')", "upper()", "lower()", "title()", "capitalize()",
                "replace('a','b')", "replace('a','',1)", "removeprefix('a')", "removesuffix('b')", "zfill(6)",
                "splitlines()|join('/')", "split('a',1)|join('#')", "rsplit(' ',1)|join('#')", "partition(' ')|join('#')",
                "rpartition('a')|join('_')", "join(['1','2'])", "rstrip('\\n').split('<')[-1]"]
TESTS = ["defined", "string", "none", "mapping", "iterable", "sequence", "number", "boolean", "true", "false", "integer",
         "float", "sameas none", "in [1,2]", "equalto 1"]
LISTS = ["l", "[1,2,3]", "[]", "['b','a','C']", "messages", "range(4)|list", "[true,none]", "[{'a':1},{'a':3},{'a':2}]",
         "(d|dictsort)", "(d|items|list)", "(d.keys()|list)", "messages|selectattr('role','equalto','user')|list",
         "messages|map(attribute='role')|list", "messages|rejectattr('tool_calls','defined')|list", "(['b','A','c']|sort)"]
LIST_FILTERS = ["list", "reverse|list", "map('string')|list", "select|list", "reject('none')|list", "select('defined')|list"]
LOOP = ["index", "index0", "first", "last", "length", "revindex", "revindex0", "previtem", "nextitem", "depth",
        "cycle('a','b')", "changed(x)"]


class Generator:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def pick(self, *choices):
        choice = self.random.choice(choices)
        return choice() if callable(choice) else choice

    def text(self, depth=0):
        if depth > 3 or self.random.random() < 0.25:
            return self.pick(*TEXTS)
        t = lambda: self.text(depth + 1)
        return self.pick(
            lambda: f"({t()})|string + {t()}|string",
            lambda: f"{t()} ~ {self.any(depth + 1)}",
            lambda: f"({t()})|string|{self.pick(*TEXT_FILTERS)}",
            lambda: f"(({t()})|string).{self.pick(*TEXT_METHODS)}",
            lambda: f"(({t()})|string){self.pick('[1:]', '[:-1]', '[::-1]', '[2:5]', '[-3:]', '[0]')}",
            lambda: f"({t()} if {self.truth(depth + 1)} else {t()})",
            lambda: f"({t()} if {self.truth(depth + 1)})",
            lambda: f"({self.list(depth + 1)})|join({self.pick(repr(','), repr(' '), '')})",
            lambda: f"({self.any(depth + 1)})|tojson",
            lambda: f"({self.list(depth + 1)})|tojson(indent={self.random.randrange(5)})",
            lambda: f"'%s:%5.1f|%03d' % ({t()}, {self.number(depth + 1)}, n)",
        )

    def number(self, depth=0):
        if depth > 3 or self.random.random() < 0.3:
            return self.pick("0", "1", "-2", "7", "n", "2.5", "d.a", "0.1", "1e3")
        n = lambda: self.number(depth + 1)
        return self.pick(
            lambda: f"{n()} {self.pick('+', '-', '*')} {n()}",
            lambda: f"({n()}) {self.pick('//', '/', '%')} {self.pick('2', '3', '-2', '1.5')}",
            lambda: f"({self.text(depth + 1)})|string|length",
            lambda: f"({self.list(depth + 1)})|length",
            lambda: f"({n()})|{self.pick('abs', 'int', 'round', 'float', 'round(1)')}",
            lambda: f"-({n()})",
            lambda: f"({n()} if {self.truth(depth + 1)} else {n()})",
            lambda: f"(l|{self.pick('min', 'max', 'sum', 'first', 'last')})",
            lambda: f"({self.text(depth + 1)})|string|int({self.random.randrange(9)})",
        )

    def list(self, depth=0):
        if depth > 3 or self.random.random() < 0.4:
            return self.pick(*LISTS)
        items = lambda: self.list(depth + 1)
        return self.pick(
            lambda: f"[{self.any(depth + 1)}, {self.any(depth + 1)}]",
            lambda: f"(({self.text(depth + 1)})|string).split({self.pick('', repr(','), repr(' '))})",
            lambda: f"({items()})|{self.pick(*LIST_FILTERS)}",
            lambda: f"({items()}){self.pick('[1:]', '[:-1]', '[::-1]', '[::2]', '[5:]')}",
            lambda: f"({items()}) + ({items()})",
        )

    def truth(self, depth=0):
        if depth > 3 or self.random.random() < 0.2:
            return self.pick("true", "false", "u", "u is defined", "x is string", "messages", "tools")
        t = lambda: self.truth(depth + 1)
        return self.pick(
            lambda: f"{self.text(depth + 1)} == {self.text(depth + 1)}",
            lambda: f"{self.number(depth + 1)} {self.pick('<', '>', '<=', '==', '!=')} {self.number(depth + 1)}",
            lambda: f"({self.text(depth + 1)})|string in ({self.text(depth + 1)})|string",
            lambda: f"{self.any(depth + 1)} not in ({self.list(depth + 1)})",
            lambda: f"not {t()}",
            lambda: f"{t()} {self.pick('and', 'or')} {t()}",
            lambda: f"({self.any(depth + 1)}) is {self.pick('', 'not ')}{self.pick(*TESTS)}",
            lambda: f"1 < {self.number(depth + 1)} < 5",
        )

    def any(self, depth=0):
        return self.random.choice([self.text, self.text, self.number, self.list, self.truth])(depth)

    def body(self, depth=0):
        parts = []
        for _ in range(self.random.randrange(1, 4)):
            parts.append(self.space())
            parts.append(self.pick(lambda: self.pick("a", "B\n", "\n", "<|t|>", "é", "{ ", "% }"), self.output,
                                   lambda: self.statement(depth)))
        return "".join(parts)

    def space(self):
        return self.pick("", " ", "\n", "  ", "\n  ", " \n", "\n\n")

    def output(self):
        return self.pick("{{ ", "{{- ", "{{") + self.any() + self.pick(" }}", " -}}", "}}")

    def tag(self, inside):
        return self.pick("{% ", "{%", "{%- ", "{%+ ") + inside + self.pick(" %}", " %}", " -%}", " +%}")

    def loop_body(self, depth):
        body = self.body(depth)
        if self.random.random() < 0.5:
            body += "{{ loop." + self.pick(*LOOP) + " }}"
        if self.random.random() < 0.3:
            body += "{% if " + self.pick("loop.index == 2", "i == 2") + " %}{% " + self.pick("break", "continue") + " %}{% endif %}"
        return body + self.space()

    def statement(self, depth):
        if depth > 2:
            return self.output()
        tag, body = self.tag, lambda: self.body(depth + 1)
        return self.pick(
            lambda: tag(f"if {self.truth()}") + body() + tag("else") + body() + tag("endif"),
            lambda: tag(f"if {self.truth()}") + body() + tag(f"elif {self.truth()}") + body() + tag("endif"),
            lambda: tag(f"for i in {self.list()}") + self.loop_body(depth + 1) + tag("endfor"),
            lambda: tag("for k, v in d.items()") + "{{ k }}={{ v }}" + body() + tag("else") + "E" + tag("endfor"),
            lambda: tag(f"for i in l if {self.pick('i is odd', 'i != 2', 'i > 7')}") + self.loop_body(depth + 1)
            + tag("else") + "none" + tag("endfor"),
            lambda: tag(f"set {self.pick('x', 'y', 's')} = {self.text()}"),
            lambda: tag(f"set ns.a = {self.any()}"),
            lambda: tag(f"set {self.pick('x', 's')}") + body() + tag("endset"),
            lambda: tag(f"macro f(a, b={self.number()})") + "<{{ a }},{{ b }}>" + body() + tag("endmacro")
            + "{{ f(" + self.any() + ") }}{{ f(b=1, a=2) }}",
            lambda: tag("macro g()") + "[{{ caller(" + self.number() + ") }}]" + tag("endmacro") + tag("call(q) g()")
            + "q={{ q }}" + body() + tag("endcall"),
            lambda: self.pick("{# c #}", "{#- c -#}", "{#+ c +#}", "  {# c #}\n", "{#- c #}"),
            lambda: tag("generation") + body() + tag("endgeneration"),
            lambda: self.pick("{% raw %}{{ x }}{% endraw %}\n", "  {%- raw -%} {{ {% x %} {%- endraw -%} z", "{% raw -%}\n a {%+ endraw +%}\n"),
            lambda: tag(f"with x = {self.text()}") + body() + tag("endwith"),
            lambda: tag(f"filter {self.pick('upper', 'trim', 'replace(1,2)')}") + body() + tag("endfilter"),
        )

    def template(self):
        return PRELUDE + self.body() + self.space() + self.body() + self.space()
