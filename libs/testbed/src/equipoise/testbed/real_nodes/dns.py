"""CoreDNS for the Services of a cluster. Other names are refused: there is no other network."""

from pathlib import Path

DOMAIN = "cluster.local"


def command_line(program: Path, corefile: Path, *, address: str, kubeconfig: Path) -> list[str | Path]:
    """How to start it at port 53 of an address. Writes the Corefile."""
    plugins = (
        f"bind {address}",
        "errors",
        f"kubernetes {DOMAIN} {{\n    kubeconfig {kubeconfig}\n  }}",
    )
    corefile.write_text(".:53 {\n" + "".join(f"  {plugin}\n" for plugin in plugins) + "}\n")
    return [program, "-conf", corefile]
