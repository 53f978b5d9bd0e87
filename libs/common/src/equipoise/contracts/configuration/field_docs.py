"""The docstrings under the fields of a class: the documentation of settings and messages."""

import ast
import inspect
import textwrap


def field_docstrings(kind: type) -> dict[str, str]:
    """The docstrings, by field name; only of the fields in this class, not of inherited ones."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(tree, ast.ClassDef)
    texts = {}
    for field, after in zip(tree.body, tree.body[1:], strict=False):
        match (field, after):
            case (ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text)))):
                texts[name] = inspect.cleandoc(text)
    return texts
