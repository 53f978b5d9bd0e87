"""Which groups of pods a label selector may select, and which have terms that may select a pod.

The index looks up only those requirements of a term that name values of a label, so the caller still has to check the
whole selector. It contains at least the groups that exist. It is shared by a snapshot and its clones, which create and
remove groups of their own.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from equipoise.contracts.kubernetes.labels import selects
from equipoise.contracts.kubernetes.objects.metadata import LabelSelector
from equipoise.scheduling.model.pod_info import AffinityTerm, GroupKey, PodInfo

Label = tuple[str, str]
"""Key and value."""

_Groups = dict[GroupKey, None]
"""Groups in the order in which they were added, so that results do not depend on hashes."""

ANY_NAMESPACE = ""
"""The namespace of terms with a selector of namespaces."""


class GroupIndex:
    def __init__(self) -> None:
        self._known: set[GroupKey] = set()
        self._by_namespace: dict[str, _Groups] = {}
        self._by_label: dict[tuple[str, Label], _Groups] = {}
        """The groups by namespace and label of their pods."""

        self._by_term: dict[tuple[str, Label | None], _Groups] = {}
        """The groups by namespace and label that a term of theirs requires of other pods; None: it requires none."""

        self._selections: dict[tuple[str, bytes], _Selection] = {}
        """The selections by namespace and selector."""

    def __len__(self) -> int:
        return len(self._known)

    def add(self, pod: PodInfo) -> None:
        """Adds the group of this pod."""
        key = pod.group_key
        if key in self._known:
            return
        self._known.add(key)
        self._by_namespace.setdefault(pod.namespace, {})[key] = None
        for label in pod.labels.items():
            self._by_label.setdefault((pod.namespace, label), {})[key] = None
        for term in pod.terms:
            for place in self._places(term):
                self._by_term.setdefault(place, {})[key] = None

    @property
    def namespaces(self) -> Iterable[str]:
        return self._by_namespace.keys()

    def selected(self, namespace: str, selector: LabelSelector) -> Iterable[GroupKey]:
        """Groups of this namespace that the selector selects."""
        key = (namespace, msgspec.json.encode(selector))
        found = self._selections.get(key)
        if found is None:
            if len(self._selections) >= _MOST_SELECTIONS:
                self._selections.clear()
            found = self._selections[key] = _Selection(selector, self._candidates(namespace, selector))
        return found.groups()

    def _candidates(self, namespace: str, selector: LabelSelector) -> Sequence[_Groups]:
        """Collections that together contain every group, present or future, that the selector may select."""
        found: Sequence[_Groups] | None = None
        for labels in _required(selector):
            groups = [self._by_label.setdefault((namespace, label), {}) for label in dict.fromkeys(labels)]
            size = _size(groups)
            if found is None or size < _size(found):
                found = groups
            if size < 2:
                break  # another requirement would save nothing
        return (self._by_namespace.setdefault(namespace, {}),) if found is None else found

    def selecting(self, pod: PodInfo) -> Iterable[GroupKey]:
        """Groups with a term that may select the pod."""
        if not self._by_term:
            return ()
        labels: list[Label | None] = [*pod.labels.items(), None]
        places = [(namespace, label) for namespace in (pod.namespace, ANY_NAMESPACE) for label in labels]
        return _union([self._by_term[place] for place in places if place in self._by_term])

    def _places(self, term: AffinityTerm) -> Iterator[tuple[str, Label | None]]:
        if term.selector is None:
            return
        namespaces = term.namespaces if term.namespace_selector is None else (ANY_NAMESPACE,)
        for namespace in namespaces:
            found: Sequence[Label | None] | None = None
            size = 0
            for labels in _required(term.selector):
                # The label with the fewest groups so far distinguishes them best.
                others = sum(len(self._by_term.get((namespace, label), ())) for label in labels)
                if found is None or others < size:
                    found, size = labels, others
            for label in (None,) if found is None else found:
                yield namespace, label


class _Selection:
    """The groups among some that a selector selects. Groups are only ever added: none is compared twice."""

    def __init__(self, selector: LabelSelector, candidates: Sequence[_Groups]) -> None:
        self._selector = selector
        self._candidates = candidates
        self._compared = [0] * len(candidates)
        self._selected: _Groups = {}

    def groups(self) -> Iterable[GroupKey]:
        for index, candidates in enumerate(self._candidates):
            for key in islice(candidates, self._compared[index], None):
                if selects(self._selector, dict(key[1])):
                    self._selected[key] = None
            self._compared[index] = len(candidates)
        return self._selected


_MOST_SELECTIONS = 1_000
"""Selectors that are remembered."""


def _required(selector: LabelSelector) -> Iterator[Sequence[Label]]:
    """The labels that meet each requirement of a value."""
    for label in selector.match_labels.items():
        yield (label,)
    for rule in selector.match_expressions:
        if rule.operator == "In":
            yield [(rule.key, value) for value in rule.values]


def _size(groups: Iterable[_Groups]) -> int:
    return sum(map(len, groups))


def _union(groups: Sequence[_Groups]) -> Iterable[GroupKey]:
    if len(groups) == 1:
        return list(groups[0])
    union: _Groups = {}
    for each in groups:
        union |= each
    return union
