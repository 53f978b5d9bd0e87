"""The search for the smallest cluster that is good enough."""

from hypothesis import given
from hypothesis import strategies as st

from equipoise.lab.capacity.size_search import SizeSearch


def searched(most: int, answer: int, guess: int, width: int) -> tuple[SizeSearch, list[set[int]]]:
    """A search in which up to `answer` removed nodes are good enough (−1: none), and the sizes that it asked for."""
    search, rounds = SizeSearch(most), list[set[int]]()
    while sizes := search.next_sizes(guess, width):
        rounds.append(set(sizes))
        for removed in sizes:
            search.learn(removed, good_enough=removed <= answer)
    return search, rounds


@given(st.data(), st.integers(0, 60), st.integers(1, 4))
def test_the_answer_is_found_from_every_guess_and_no_size_is_replayed_twice(
    data: st.DataObject, most: int, width: int
) -> None:
    answer, guess = data.draw(st.integers(-1, most)), data.draw(st.integers(0, most))
    search, rounds = searched(most, answer, guess, width)
    assert (search.enough, search.too_few) == (answer, answer + 1)
    sizes = [size for each in rounds for size in each]
    assert len(sizes) == len(set(sizes))
    assert all(0 <= size <= most for size in sizes)
    assert all(len(each) <= width for each in rounds)
    assert len(rounds) <= 2 + 2 * most.bit_length()


def test_a_right_guess_needs_two_replays_and_with_two_at_a_time_one_round() -> None:
    assert searched(40, answer=7, guess=7, width=1)[1] == [{7}, {8}]
    assert searched(40, answer=7, guess=7, width=2)[1] == [{7, 8}]


def test_a_size_that_is_good_enough_below_one_that_is_not_does_not_count() -> None:
    """Hours above 80 % vary from replay to replay: the answer is the more careful one."""
    search = SizeSearch(10)
    for removed, good_enough in ((3, True), (5, False), (6, True)):
        search.learn(removed, good_enough=good_enough)
    assert (search.enough, search.too_few) == (3, 5)
