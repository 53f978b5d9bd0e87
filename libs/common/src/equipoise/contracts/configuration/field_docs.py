"""The docstrings under the fields of a class: the documentation of settings and messages."""

import ast
import inspect
import textwrap


def field_docstrings(kind: type) -> dict[str, str]:
    """The docstrings of the fields that this class itself defines, by field name. Inherited fields are left out."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(tree, ast.ClassDef)
    texts = {}
    for statement, next_statement in zip(tree.body, tree.body[1:], strict=False):
        match (statement, next_statement):
            case (ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text)))):
                texts[name] = inspect.cleandoc(text)
    return texts
