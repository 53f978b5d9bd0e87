"""An index of the groups of pods that a label selector may select, and of the groups with terms that may select a pod.

The index uses only the requirements of a term that name values of a label, so the caller still has to check the whole
selector. A snapshot and its clones, which add and remove groups, share the index. So it may contain groups that do not
exist in one of them, but it never lacks one.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

import msgspec

from equipoise.contracts.kubernetes.labels import selects
from equipoise.contracts.kubernetes.objects.metadata import LabelSelector
from equipoise.scheduling.model.pod_info import AffinityTerm, GroupKey, PodInfo

Label = tuple[str, str]
"""The key and value of a label."""

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
        """The groups by the namespace and label that one of their terms requires of other pods; None if it requires no
        label."""

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
            for required in self._required_by(term):
                self._by_term.setdefault(required, {})[key] = None

    @property
    def namespaces(self) -> Iterable[str]:
        return self._by_namespace.keys()

    def selected(self, namespace: str, selector: LabelSelector) -> Iterable[GroupKey]:
        """Groups of this namespace that the selector selects."""
        key = (namespace, msgspec.json.encode(selector))
        selection = self._selections.get(key)
        if selection is None:
            if len(self._selections) >= _MOST_SELECTIONS:
                self._selections.clear()
            selection = self._selections[key] = _Selection(selector, self._candidates(namespace, selector))
        return selection.groups()

    def _candidates(self, namespace: str, selector: LabelSelector) -> Sequence[_Groups]:
        """Collections that together contain every group, present or future, that the selector may select."""
        smallest: Sequence[_Groups] | None = None
        for labels in _required(selector):
            groups = [self._by_label.setdefault((namespace, label), {}) for label in dict.fromkeys(labels)]
            size = _size(groups)
            if smallest is None or size < _size(smallest):
                smallest = groups
            if size < 2:
                break  # another requirement would save nothing
        return (self._by_namespace.setdefault(namespace, {}),) if smallest is None else smallest

    def selecting(self, pod: PodInfo) -> Iterable[GroupKey]:
        """Groups with a term that may select the pod."""
        if not self._by_term:
            return ()
        labels: list[Label | None] = [*pod.labels.items(), None]
        keys = [(namespace, label) for namespace in (pod.namespace, ANY_NAMESPACE) for label in labels]
        return _union([self._by_term[key] for key in keys if key in self._by_term])

    def _required_by(self, term: AffinityTerm) -> Iterator[tuple[str, Label | None]]:
        """The namespaces in which a term selects, with the labels of one requirement; None if it requires no label."""
        if term.selector is None:
            return
        namespaces = term.namespaces if term.namespace_selector is None else (ANY_NAMESPACE,)
        for namespace in namespaces:
            rarest: Sequence[Label | None] | None = None
            fewest = 0
            for labels in _required(term.selector):
                # The requirement that the fewest groups share so far distinguishes groups best.
                count = sum(len(self._by_term.get((namespace, label), ())) for label in labels)
                if rarest is None or count < fewest:
                    rarest, fewest = labels, count
            for label in (None,) if rarest is None else rarest:
                yield namespace, label


class _Selection:
    """The candidate groups that a selector selects. Candidates are only ever added, so each is compared once."""

    def __init__(self, selector: LabelSelector, candidates: Sequence[_Groups]) -> None:
        self._selector = selector
        self._candidates = candidates
        self._compared = [0] * len(candidates)
        self._selected: _Groups = {}

    def groups(self) -> Iterable[GroupKey]:
        for index, candidates in enumerate(self._candidates):
            for key in islice(candidates, self._compared[index], None):
                _, labels, _, _ = key
                if selects(self._selector, dict(labels)):
                    self._selected[key] = None
            self._compared[index] = len(candidates)
        return self._selected


_MOST_SELECTIONS = 1_000
"""The maximum number of selectors whose results are kept."""


def _required(selector: LabelSelector) -> Iterator[Sequence[Label]]:
    """The labels that meet a requirement, for each requirement that names values."""
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
    for group in groups:
        union |= group
    return union
