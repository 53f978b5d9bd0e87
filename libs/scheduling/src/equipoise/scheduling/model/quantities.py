"""Quantities as kube-scheduler computes with them, overflow included.

A number of at most 18 digits is an integer with a decimal scale. Every other number, and a sum that overflowed, is a
decimal of any size. Both are converted to 64-bit integers, in different ways: `1e308` cores become 0 millicores, and
2^63 - 1 cores become -1000. Source: apimachinery 0.36.3, pkg/api/resource (quantity.go, amount.go, scale_int.go), as
compiled for amd64.
"""

import re
from functools import lru_cache
from itertools import zip_longest

import msgspec

NANO = -9
MILLI = -3

_DECIMAL_SUFFIXES = {"": 0, "n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIXES = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

_TEXT = re.compile(r"([+-]?)0*+([0-9]*+)(\.([0-9]*+))?+([numkMGTPE]?|[KMGTPE]i|[eE][+-]?[0-9]+)")

_DIGITS = 4_000
"""The maximum number of digits that are converted at once. int() refuses slightly longer texts."""

_LONG = 100
"""Characters above which a text counts as long. Only a few results for long texts are cached: they do not occur in
practice, and each takes up to a second to compute."""

_FARTHEST = 1_000
"""The largest exponent. Larger exponents are read as this one."""

_WRAPPING = (1, 2, 3, 6, 9)
"""The powers of ten by which an overflowing product of integers wraps. With any other power it becomes 0."""

_HIGHEST = 2**63 - 1
_HIGHEST_DIGITS = 19
_LOWEST = -(2**63)


class Quantity(msgspec.Struct, frozen=True):
    """A quantity with the value `number` · 10^`scale`."""

    number: int
    scale: int
    decimal: bool = False
    """Whether the number may have any size. Otherwise it is an integer of 64 bits."""

    def __add__(self, other: "Quantity") -> "Quantity":
        if not self.decimal and not other.decimal:
            if not other.number:
                return self
            if not self.number:
                return other
            scale, left, right = _aligned(self, other)
            if all(map(_is_int64, (left, right, left + right))) and _LOWEST not in (self.number, other.number):
                return Quantity(left + right, scale)
        scale, left, right = _aligned(self, other)
        return Quantity(left + right, scale, decimal=True)

    def __lt__(self, other: "Quantity") -> bool:
        _, left, right = _aligned(self, other)
        return left < right

    def __gt__(self, other: "Quantity") -> bool:
        return other < self

    def __ge__(self, other: "Quantity") -> bool:
        return not self < other

    def value(self, scale: int = 0) -> int:
        """The value in units of 10^`scale`, rounded up, as an integer of 64 bits. Source: ScaledValue."""
        steps = self.scale - scale
        if self.decimal:
            return self._decimal_value(steps)
        if steps < 0:
            whole, fraction = divmod(abs(self.number), _power(-steps))
            return (whole + (fraction > 0)) * (1 if self.number >= 0 else -1)
        product = self.number * _power(steps)
        if not steps or (_is_int64(product) and self.number != _LOWEST):
            return product
        return wrapped(product) if steps in _WRAPPING and self.number != _LOWEST else 0

    def _decimal_value(self, steps: int) -> int:
        if steps > 0:
            power = _power(steps) if steps <= 18 else _LOWEST  # a larger float is the lowest integer on amd64
            return wrapped(_low_bits(self.number) * power)
        divisor = _power(-steps)
        if -steps < 19 and self.number < _HIGHEST:
            low = _low_bits(self.number)
            quotient = abs(low) // divisor * (1 if low >= 0 else -1)
            return quotient + (low % divisor != 0)
        quotient, remainder = divmod(self.number, divisor)
        return wrapped(_low_bits(quotient) + (remainder != 0))


ZERO = Quantity(0, 0)


def higher(left: Quantity, right: Quantity) -> Quantity:
    """The higher quantity, or `left` if they are equal. The comparison with a decimal converts `right` to a decimal."""
    if not right > left:
        return left
    return Quantity(right.number, right.scale, decimal=True) if left.decimal or right.decimal else right


def read_quantity(text: str) -> Quantity:
    """Reads a quantity as ParseQuantity of apimachinery. Raises ValueError for a text that the API server refuses."""
    return (_short if len(text) <= _LONG else _long)(text)


def _read(text: str) -> Quantity:
    match = _TEXT.fullmatch(text) if text else None
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a Kubernetes quantity (examples: 250m, 2, 512Mi, 1e3)")
    sign, digits, _, fraction, suffix = match.groups(default="")
    digits = digits or "0"
    negative = -1 if sign == "-" else 1
    binary = _BINARY_SUFFIXES.get(suffix)
    exponent = 0 if binary is not None else _exponent(suffix)
    # The number of decimal digits that an integer has to spare; n binary digits count as about 0.3 n decimal ones.
    if binary is None:
        precision = 18 - len(digits) - len(fraction)
    else:
        precision = -1 if fraction else 15 - len(digits) - binary * 3 // 10 - 1
    scale = exponent - len(fraction)
    if precision >= 0 and scale >= NANO:
        number = int(digits + fraction) << (binary or 0)
        if _is_int64(number):
            return Quantity(negative * number, min(scale, _FARTHEST))
    if match[2] == "" and not fraction and "0" not in text[: match.start(5)]:
        raise ValueError(f"{text[:40]!r} is not a Kubernetes quantity: it has no digits")
    return _decimal(negative, digits + fraction, scale, binary)


_short = lru_cache(maxsize=16_384)(_read)
_long = lru_cache(maxsize=16)(_read)


def _decimal(sign: int, digits: str, scale: int, binary: int | None) -> Quantity:
    """A decimal quantity, rounded up to a billionth. With a binary suffix, it is limited to 2^63 - 1."""
    if not digits.strip("0"):
        return Quantity(0, scale if abs(scale) < _FARTHEST else 0, decimal=True)
    if binary is not None and len(digits) + scale > _HIGHEST_DIGITS:
        return Quantity(sign * _HIGHEST, 0, decimal=True)
    if scale >= NANO:
        number = _integer(digits) * _power(min(scale, _FARTHEST) - NANO) << (binary or 0)
    elif binary is None:
        cut = max(0, len(digits) + scale - NANO)
        number = _integer(digits[:cut] or "0") + (digits[cut:].strip("0") != "")
    else:
        number = -(-(_integer(digits) << binary) // _power(NANO - scale))  # rounded up
    if binary is not None and number > _HIGHEST * _power(-NANO):
        return Quantity(sign * _HIGHEST, 0, decimal=True)
    return Quantity(sign * number, NANO, decimal=True)


def _integer(digits: str) -> int:
    """The number with these digits. Parts that int() accepts are joined in pairs until one remains."""
    parts = [int(digits[max(0, end - _DIGITS) : end]) for end in range(len(digits), 0, -_DIGITS)]
    base = _power(_DIGITS)
    while len(parts) > 2:
        parts = [low + high * base for low, high in zip_longest(parts[::2], parts[1::2], fillvalue=0)]
        base *= base
    return parts[0] if len(parts) == 1 else parts[0] + parts[1] * base


def _exponent(suffix: str) -> int:
    """The exponent of a suffix: the lowest 32 bits of its number. Raises ValueError for more than 64 bits."""
    if suffix in _DECIMAL_SUFFIXES:
        return _DECIMAL_SUFFIXES[suffix]
    digits = suffix[1:].lstrip("+-").lstrip("0") or "0"
    exponent = int(digits[: _HIGHEST_DIGITS + 1]) * (-1 if suffix[1] == "-" else 1)
    if not _is_int64(exponent):
        raise ValueError(f"{suffix[:40]!r} is not the exponent of a Kubernetes quantity")
    return (exponent + 2**31) % 2**32 - 2**31


def _is_int64(number: int) -> bool:
    return _LOWEST <= number <= _HIGHEST


def wrapped(number: int) -> int:
    """The lowest 64 bits of a number, as a signed integer."""
    return (number + 2**63) % 2**64 - 2**63


def _low_bits(number: int) -> int:
    """The lowest 64 bits of the magnitude, with the sign. Source: Int64 of math/big."""
    return wrapped(number) if number >= 0 else wrapped(-wrapped(-number))


def _power(exponent: int) -> int:
    """A power of ten."""
    return int(10**exponent)


def _aligned(left: Quantity, right: Quantity) -> tuple[int, int, int]:
    """The lower of both scales, and both numbers in this scale."""
    scale = min(left.scale, right.scale)
    return scale, left.number * _power(left.scale - scale), right.number * _power(right.scale - scale)
