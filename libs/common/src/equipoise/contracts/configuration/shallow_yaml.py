"""A YAML loader that refuses documents that are nested deeply.

No valid configuration is nested deeply. PyYAML needs time that grows with the square of the depth: hours for a megabyte
of brackets. It also exceeds Python's recursion limit.
"""

import yaml

MAX_DEPTH = 100


class ShallowLoader(yaml.SafeLoader):
    """The SafeLoader, which raises yaml.MarkedYAMLError if the document is nested too deeply."""

    _depth = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            problem = f"the document is nested too deeply: more than {MAX_DEPTH} levels"
            raise yaml.composer.ComposerError(None, None, problem, mark)
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node
