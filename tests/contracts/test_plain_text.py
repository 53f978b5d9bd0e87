"""Text of others, as it is written for people and for programs."""

import json
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.plain_text import plain_text, safe_json, visible


def test_every_control_and_format_of_unicode_is_made_visible() -> None:
    """Whatever version of Unicode this Python has; line breaks and tabs stay."""
    categories = ("Cc", "Cf", "Cs", "Zl", "Zp")
    unsafe = [chr(code) for code in range(sys.maxunicode + 1) if unicodedata.category(chr(code)) in categories]

    assert [each for each in unsafe if each not in "\t\n" and visible(each) == each] == []
    assert [each for each in unsafe if plain_text(each, 9) != " "] == []
    assert visible("\t\n") == "\t\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]52;c;ZXZpbA==\x07", "\\x1b]52;c;ZXZpbA==\\x07"),
        ("\x9b2J", "\\x9b2J"),
        ("a\u202eb\u200bc", "a\\u202eb\\u200bc"),
        ("a\r\nb", "a\\r\nb"),
        ("grün, 猫, [/red]", "grün, 猫, [/red]"),
    ],
)
def test_commands_of_a_terminal_are_shown_as_text(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_a_long_text_is_cut_to_one_line() -> None:
    """A megabyte in an annotation must not be a megabyte in each message about it."""
    assert plain_text("a\n" * 250_000, 5) == "a a …"
    assert plain_text("xxxxx", 5) == "xxxxx"


@given(st.text())
def test_json_for_programs_means_the_same(text: str) -> None:
    """The text has nothing that a terminal would interpret."""
    document = json.dumps({text: [text]}, ensure_ascii=False)

    assert json.loads(safe_json(document)) == json.loads(document)
    assert visible(safe_json(document)) == safe_json(document)
