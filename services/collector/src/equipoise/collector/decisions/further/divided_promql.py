"""Limits PromQL of the user to some series, if that does not change the result for them.

Series are chosen by a label that names their node. Prometheus can leave out the others at once if every step of the
expression keeps the chosen series apart from them: functions of single series, aggregations by that label, and
operators that match series with the same value of it. PromQL with any other step is not limited.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from equipoise.collector.decisions.profiles.query_profile import one_of
from equipoise.collector.decisions.query import NodeMatcher

_TOKEN = re.compile(
    r"""(?:\s|\#[^\n]*)*(?:
    (?P<text>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`[^`]*`)
    |(?P<range>\[[^\[\]]*\])
    |(?P<number>(?:0[xX][0-9a-fA-F]+|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?)[A-Za-z0-9]*)
    |(?P<name>[A-Za-z_:][A-Za-z0-9_:]*)
    |(?P<symbol>==|!=|<=|>=|=~|!~|[-+*/%^<>=(){},@])
    |(?P<end>\Z)
    )""",
    re.VERBOSE | re.ASCII,
)

_AGGREGATIONS = ("sum", "avg", "min", "max", "count", "group", "stddev", "stdvar", "quantile", "topk", "bottomk")
_FUNCTIONS = frozenset(
    {
        "rate", "irate", "increase", "delta", "idelta", "deriv", "predict_linear", "resets", "changes", "timestamp",
        "avg_over_time", "min_over_time", "max_over_time", "sum_over_time", "count_over_time", "quantile_over_time",
        "stddev_over_time", "stdvar_over_time", "last_over_time", "present_over_time",
        "abs", "ceil", "floor", "round", "clamp", "clamp_min", "clamp_max", "exp", "ln", "log2", "log10", "sqrt", "sgn",
        "time", "vector",
    }
)  # fmt: skip
"""The functions of single series, which keep all labels but the name of the metric."""

_RELABELING = ("label_replace", "label_join")
_TIMES = ("start", "end")
"""The functions that may follow `@`."""

_GROUPING = ("by", "without")
_MATCHING = ("on", "ignoring")
_JOINING = ("group_left", "group_right")
_WORDS = ("and", "or", "unless", "atan2", "bool", "offset")
"""The words that come before an operand, and that keep series apart."""

_NUMBERS = ("inf", "nan")


class UndividedPromqlError(Exception):
    """Why PromQL cannot be limited."""


class DividedPromql(msgspec.Struct, frozen=True, kw_only=True):
    """PromQL that can be limited to chosen series: the result is then the part of its whole result about them."""

    promql: str
    selectors: tuple[tuple[int, int], ...]
    """The start and the end of each selector in it."""

    def selector_texts(self) -> tuple[str, ...]:
        """Each selector once."""
        return tuple(dict.fromkeys(self.promql[begin:end] for begin, end in self.selectors))

    def limited(self, matcher: NodeMatcher) -> str:
        """The PromQL about the series with this label. `matcher` has values."""
        condition = one_of(matcher.label, matcher.values)
        parts, at = [], 0
        for begin, end in self.selectors:
            selector = self.promql[begin:end]
            metric, brace, conditions = selector.partition("{")
            separator = "," if brace and conditions.strip(" \t\r\n}") else ""
            parts += [self.promql[at:begin], f"{metric}{{{condition}{separator}{conditions or '}'}"]
            at = end
        return "".join([*parts, self.promql[at:]])


def divide_promql(promql: str, keys: Collection[str]) -> DividedPromql:
    """The PromQL, if no step combines series with different values of the labels `keys`. Raises UndividedPromqlError.

    The precedence of operators has no effect, because each must fulfill the same condition.
    """
    tokens = _tokens(promql)
    closing = _closing(tokens)
    selectors, at, behind_labels = [], 0, 0
    while at < len(tokens):
        begin, token, word = at, tokens[at], tokens[at].text.lower()
        at += 1
        called = at < len(tokens) and tokens[at].text == "("
        if token.kind != "name":
            if token.text == "{":
                at = closing[begin] + 1
                selectors.append((token.begin, tokens[closing[begin]].end))
        elif word in (*_GROUPING, *_MATCHING):
            labels, at = _labels(tokens, closing, at)
            behind_labels = at
            _check(word, labels, keys)
        elif word in _JOINING:
            if called:
                labels, at = _labels(tokens, closing, at)
                behind_labels = at
                if changed := set(labels).intersection(keys):
                    raise UndividedPromqlError(f"{word} changes the label {min(changed)}")
        elif word in _AGGREGATIONS:
            after = closing[at] + 1 if called else at
            if after >= len(tokens) or tokens[after].text.lower() not in _GROUPING:
                raise UndividedPromqlError(f"{word} combines series of several nodes")
        elif called:
            _check_call(tokens, at, keys)
        elif word not in (*_WORDS, *_NUMBERS):
            if begin != behind_labels and begin > 0 and _ends_operand(tokens[begin - 1]):
                raise UndividedPromqlError(f"{token.text!r} is not understood")  # a word of a later version
            if at < len(tokens) and tokens[at].text == "{":
                at = closing[at] + 1
            selectors.append((token.begin, tokens[at - 1].end))
    if not selectors:
        raise UndividedPromqlError("it has no selector")
    return DividedPromql(promql=promql, selectors=tuple(selectors))


class _Token(NamedTuple):
    kind: str
    text: str
    begin: int
    end: int


def _ends_operand(token: _Token) -> bool:
    """Whether an operator must follow this token."""
    if token.kind == "name":
        return token.text.lower() not in (*_WORDS, *_JOINING)
    return token.kind != "symbol" or token.text in (")", "}")


def _tokens(promql: str) -> list[_Token]:
    tokens, at = list[_Token](), 0
    while True:
        match = _TOKEN.match(promql, at)
        if match is None or match.lastgroup is None:
            raise UndividedPromqlError(f"{promql[at : at + 20].strip()!r} is not understood")
        kind, at = match.lastgroup, match.end()
        if kind == "end":
            return tokens
        tokens.append(_Token(kind, match[kind], match.start(kind), at))


def _closing(tokens: Sequence[_Token]) -> dict[int, int]:
    """The index of the closing bracket by that of its opening one."""
    closing, opened = dict[int, int](), list[int]()
    for index, token in enumerate(tokens):
        if token.text in ("(", "{"):
            opened.append(index)
        elif token.text in (")", "}"):
            if not opened:
                raise UndividedPromqlError(f"its {token.text!r} is not understood")
            closing[opened.pop()] = index
        elif token.text.lower() == "or" and opened and tokens[opened[-1]].text == "{":
            raise UndividedPromqlError("a selector has alternatives")  # as VictoriaMetrics has them
    if opened:
        raise UndividedPromqlError(f"its {tokens[opened[-1]].text!r} is not understood")
    return closing


def _labels(tokens: Sequence[_Token], closing: Mapping[int, int], at: int) -> tuple[list[str], int]:
    """The labels in the brackets at `at`, and the index after them."""
    if at not in closing:
        raise UndividedPromqlError(f"{tokens[at - 1].text!r} is not understood")
    names = [token for token in tokens[at + 1 : closing[at]] if token.kind in ("name", "text")]
    return [token.text[1:-1] if token.kind == "text" else token.text for token in names], closing[at] + 1


def _check(clause: str, labels: Collection[str], keys: Collection[str]) -> None:
    """Checks that series with different values of the keys are kept apart by `by`, `without`, `on` or `ignoring`."""
    if set(keys).difference(labels) if clause in ("by", "on") else set(keys).intersection(labels):
        raise UndividedPromqlError(f"{clause} ({', '.join(labels)}) may combine series of several nodes")


def _check_call(tokens: Sequence[_Token], at: int, keys: Collection[str]) -> None:
    """Checks that the function with its arguments at `at` keeps series apart."""
    name = tokens[at - 1].text
    is_time = name in _TIMES and at > 1 and tokens[at - 2].text == "@"
    if name not in (*_FUNCTIONS, *_RELABELING) and not is_time:
        raise UndividedPromqlError(f"{name}() may combine series of several nodes")
    if name in _RELABELING:
        depth, label = 0, ""
        for token in tokens[at:]:
            depth += {"(": 1, "{": 1, ")": -1, "}": -1}.get(token.text, 0)
            if depth == 1 and token.kind == "text":
                label = token.text[1:-1]  # the first text among its arguments
                break
        if label in keys or "\\" in label:
            raise UndividedPromqlError(f"{name}() changes the label {label}")
