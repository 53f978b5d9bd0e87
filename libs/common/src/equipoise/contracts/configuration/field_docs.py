"""The sentences that stand under the fields of a class: what settings and messages are explained with."""

import ast
import inspect
import textwrap


def field_docstrings(kind: type) -> dict[str, str]:
    """By name of the field, as written in this class; what it inherits is not looked at."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0]
    assert isinstance(tree, ast.ClassDef)
    texts = {}
    for field, after in zip(tree.body, tree.body[1:], strict=False):
        match (field, after):
            case (ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text)))):
                texts[name] = inspect.cleandoc(text)
    return texts
