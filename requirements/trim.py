"""`python -m requirements.trim`, with the Python of an environment, removes from it what the image never uses.

Then it imports all of our modules, and whatever these import in functions. It fails if something is missing, or if more
than `MOST_MEGABYTES` remain.
"""

import ast
import importlib
import importlib.util
import shutil
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

MOST_MEGABYTES = 100
OURS = "equipoise"
NEVER_IMPORTED = ("dateparser", "pytz", "regex", "tzlocal")
"""Packages that prometheus-api-client requires for a function that nothing here calls, and what they require."""

UNUSED = (
    *(path for name in NEVER_IMPORTED for path in (name, f"{name}-*.dist-info")),
    "kubernetes_asyncio/client/api",  # clients of all resources: only credentials are read
    "kubernetes_asyncio/client/models",
    "numpy/_core/_simd.*",  # for tests
    "numpy/f2py",
    "numpy/random",
    "*/**/tests",
    "*/**/*.a",  # for compilers and type checkers
    "*/**/*.h",
    "*/**/*.pxd",
    "*/**/*.pyi",
    "*.md",
    "*/*.md",
    "*.dist-info/RECORD",  # the files that an installer may remove
)
"""Patterns of paths in the folder of packages. Each matches something."""


def main() -> None:
    packages, scripts = Path(sysconfig.get_path("purelib")), Path(sysconfig.get_path("scripts"))
    for path in [*unused(packages), *foreign_scripts(scripts)]:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)  # its folder may have been removed
    import_all(packages)
    remove_bytecode_of_others(packages)
    megabytes = sum(path.lstat().st_size for path in Path(sys.prefix).rglob("*") if not path.is_dir()) / 1e6
    print(f"{sys.prefix} has {megabytes:.1f} MB")
    if megabytes > MOST_MEGABYTES:
        raise SystemExit(f"more than {MOST_MEGABYTES} MB: name what is not used in requirements/trim.py")


def unused(packages: Path) -> Iterator[Path]:
    """The paths that match. Raises SystemExit for a pattern without a match: a package has changed."""
    for pattern in UNUSED:
        found = list(packages.glob(pattern))
        if not found:
            raise SystemExit(f"{packages / pattern} does not exist: correct UNUSED in requirements/trim.py")
        yield from found


def foreign_scripts(scripts: Path) -> Iterator[Path]:
    """The programs of other packages, such as numpy's compiler of Fortran."""
    for path in scripts.iterdir():
        if path.is_file() and not path.name.startswith("python") and f"from {OURS}." not in path.read_text():
            yield path


def import_all(packages: Path) -> None:
    """Imports all of our modules, and what these import. Packages that only other extras require may be absent."""
    # Imported as the services do: without the clients of all resources.
    importlib.import_module(f"{OURS}.runtime.kubernetes.credential_loaders").import_credential_loaders()
    for name in sorted(imported_names(packages)):
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            package = str(error.name).partition(".")[0]
            if package != OURS and importlib.util.find_spec(package):
                raise


def imported_names(packages: Path) -> set[str]:
    """The names of our modules, and of all modules that they import, also in functions."""
    names = set()
    for file in (packages / OURS).rglob("*.py"):
        if file.stem != "__main__":
            names.add(".".join(file.relative_to(packages).with_suffix("").parts).removesuffix(".__init__"))
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import):
                names.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names.add(node.module)
    return names


def remove_bytecode_of_others(packages: Path) -> None:
    """Removes the bytecode of modules that are not imported now. If one is imported after all, Python compiles it."""
    imported = {spec.cached for each in sys.modules.values() if (spec := getattr(each, "__spec__", None))}
    for file in packages.rglob("*.pyc"):
        if str(file) not in imported:
            file.unlink()


if __name__ == "__main__":
    main()
