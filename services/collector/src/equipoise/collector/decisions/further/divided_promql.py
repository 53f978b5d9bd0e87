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


class SelectorPlace(NamedTuple):
    """The place of a selector in PromQL."""

    begin: int
    end: int
    conditions: int | None
    """The place of its first condition; None if it has no braces."""

    has_conditions: bool


class DividedPromql(msgspec.Struct, frozen=True, kw_only=True):
    """PromQL that can be limited to chosen series: the result is then the part of its whole result about them."""

    promql: str
    selectors: tuple[SelectorPlace, ...]

    def selector_texts(self) -> tuple[str, ...]:
        """Each selector once."""
        return tuple(dict.fromkeys(self.promql[selector.begin : selector.end] for selector in self.selectors))

    def limited(self, matcher: NodeMatcher) -> str:
        """The PromQL about the series with this label. `matcher` has values."""
        return self.with_condition(one_of(matcher.label, matcher.values))

    def with_condition(self, condition: str) -> str:
        """The PromQL with a further condition in each selector."""
        parts, at = [], 0
        for selector in self.selectors:
            if selector.conditions is None:
                parts += [self.promql[at : selector.end], f"{{{condition}}}"]
                at = selector.end
            else:
                separator = "," if selector.has_conditions else ""
                parts += [self.promql[at : selector.conditions], condition, separator]
                at = selector.conditions
        return "".join([*parts, self.promql[at:]])


def divide_promql(
    promql: str, keys: Collection[str], kept: Collection[str] = (), *, exported: bool = False
) -> DividedPromql:
    """The PromQL, if no step combines series with different values of the labels `keys`. Raises UndividedPromqlError.

    `kept`: further labels that no step may write; with `exported`, all of them may be copied from labels with the
    prefix `exported_`. The precedence of operators has no effect, because each must fulfill the same condition.
    """
    tokens = _tokens(promql)
    closing, unchanged, copied = _closing(tokens), {*keys, *kept}, set[str]()
    selectors, at, behind_labels = list[SelectorPlace](), 0, 0
    while at < len(tokens):
        begin, token, word = at, tokens[at], tokens[at].text.lower()
        at += 1
        called = at < len(tokens) and tokens[at].text == "("
        if token.kind != "name":
            if token.text == "{":
                at = closing[begin] + 1
                selectors.append(_selector(tokens, closing, begin))
        elif word in (*_GROUPING, *_MATCHING):
            labels, at = _labels(tokens, closing, at)
            if word in _MATCHING:
                behind_labels = at
            _check(word, labels, keys)
        elif word in _JOINING:
            if called:
                labels, at = _labels(tokens, closing, at)
                behind_labels = at
                if changed := unchanged.intersection(labels):
                    raise UndividedPromqlError(f"{word} changes the label {min(changed)}")
        elif word in _AGGREGATIONS:
            after = closing[at] + 1 if called else at
            if after >= len(tokens) or tokens[after].text.lower() not in _GROUPING:
                raise UndividedPromqlError(f"{word} combines series of several nodes")
        elif called:
            label = _written(tokens, closing, at)
            if exported and label in kept and label not in keys and _is_copied(label, tokens[at - 1 : closing[at]]):
                copied.add(label)
            elif label in unchanged:
                raise UndividedPromqlError(f"{token.text}() changes the label {label}")
        elif word not in (*_WORDS, *_NUMBERS):
            after_operand = begin != behind_labels and begin > 0 and _ends_operand(tokens[begin - 1])
            if after_operand or (at < len(tokens) and _is_argument(tokens[at])):
                raise UndividedPromqlError(f"{token.text!r} is not understood")  # a word of a later version
            selectors.append(_selector(tokens, closing, begin))
            if at < len(tokens) and tokens[at].text == "{":
                at = closing[at] + 1
    if copied and copied != set(kept):
        raise UndividedPromqlError(f"only {min(copied)} is written")
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


def _is_argument(token: _Token) -> bool:
    """Whether the word before this token is no metric, but an aggregation, or one with a text or a number."""
    return token.kind in ("text", "number") or token.text.lower() in _GROUPING


def _selector(tokens: Sequence[_Token], closing: Mapping[int, int], begin: int) -> SelectorPlace:
    """The selector whose metric, or whose brace, is the token at `begin`."""
    brace = begin if tokens[begin].text == "{" else begin + 1
    if brace == len(tokens) or tokens[brace].text != "{":
        return SelectorPlace(tokens[begin].begin, tokens[begin].end, None, has_conditions=False)
    end = closing[brace]
    return SelectorPlace(tokens[begin].begin, tokens[end].end, tokens[brace].end, has_conditions=end > brace + 1)


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
    labels = list[str]()
    for index, token in enumerate(tokens[at + 1 : closing[at]]):
        is_label = token.kind in ("name", "text") and "\\" not in token.text
        if not (is_label if index % 2 == 0 else token.text == ","):
            raise UndividedPromqlError(f"{token.text!r} is not understood as a label")
        if is_label:
            labels.append(token.text[1:-1] if token.kind == "text" else token.text)
    return labels, closing[at] + 1


def _check(clause: str, labels: Collection[str], keys: Collection[str]) -> None:
    """Checks that series with different values of the keys are kept apart by `by`, `without`, `on` or `ignoring`."""
    if set(keys).difference(labels) if clause in ("by", "on") else set(keys).intersection(labels):
        raise UndividedPromqlError(f"{clause} ({', '.join(labels)}) may combine series of several nodes")


def _written(tokens: Sequence[_Token], closing: Mapping[int, int], at: int) -> str:
    """The label that the function with its arguments at `at` writes; empty if it writes none. Raises
    UndividedPromqlError if it may combine series."""
    name = tokens[at - 1].text
    is_time = name in _TIMES and at > 1 and tokens[at - 2].text == "@"
    if name not in (*_FUNCTIONS, *_RELABELING) and not is_time:
        raise UndividedPromqlError(f"{name}() may combine series of several nodes")
    if name not in _RELABELING:
        return ""
    comma = at + 1
    while comma < closing[at] and tokens[comma].text != ",":
        comma = closing.get(comma, comma) + 1
    label = [token.text for token in tokens[comma + 1 : min(comma + 3, closing[at])]]
    if len(label) != 2 or label[0][0] not in "\"'`" or "\\" in label[0] or label[1] != ",":
        raise UndividedPromqlError(f"the label that {name}() changes is not understood")
    return label[0][1:-1]


def _is_copied(label: str, call: Sequence[_Token]) -> bool:
    """Whether this call copies the label of an exporter that has the prefix `exported_`."""
    texts = [token.text[1:-1] for token in call[-7:] if token.kind == "text"]
    is_copy = texts in ([label, "$1", f"exported_{label}", regex] for regex in ("(.+)", "(.*)"))
    return is_copy and call[0].text == "label_replace"
