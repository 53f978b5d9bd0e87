"""`python -m release` builds a release, or only its image, and verifies and installs one."""

import argparse
import json
import os
import shutil
import sys
from dataclasses import asdict
from pathlib import Path

from equipoise.testbed.real_nodes.addresses import MAXIMUM_NODES
from release import ReleaseError
from release.build import build
from release.image_build import build_image
from release.installation import install_release
from release.signature import KEY_VARIABLE
from release.verification import REHEARSAL_KEY, verify_release

ROOT = Path(__file__).resolve().parents[1]


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="python -m release", description="Build a release, or verify one.")
    commands = found.add_subparsers(dest="command", required=True)
    building = commands.add_parser(
        "build",
        help="write all files of a release",
        description=f"Write all files of a release. {KEY_VARIABLE} has the private key for the signature, in the "
        "format of OpenSSH and without a passphrase; without it, one is made for this build, and "
        f"{REHEARSAL_KEY} is its public key.",
    )
    building.add_argument(
        "--out", type=Path, default=ROOT / "dist", help="folder; an earlier build in it is deleted (default: dist)"
    )
    building.add_argument("--tag", help="fail unless this is v and the version of every package and of the chart")
    images = building.add_mutually_exclusive_group()
    images.add_argument(
        "--image-archive",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="OCI archive with the image of one architecture, for each of them; default: that of this machine is built",
    )
    images.add_argument("--without-image", action="store_true", help="the chart then installs the image of its version")
    building.add_argument("--repository", help="REGISTRY/REPOSITORY from which the chart will install the image")
    image = commands.add_parser("image", help="build the image for the architecture of this machine, as an OCI archive")
    image.add_argument("--base-image", help="REGISTRY/REPOSITORY@sha256:…; default: one that is made here from Debian")
    image.add_argument("--out", type=Path, required=True, help="file")
    verifying = commands.add_parser("verify", help="check the signature and the checksums of the files of a release")
    _add_signed_folder(verifying)
    installing = commands.add_parser(
        "install",
        help="verify a release, and install it from its files alone on a throwaway cluster with real nodes, as root",
    )
    _add_signed_folder(installing)
    installing.add_argument("--nodes", type=int, default=2, choices=range(1, MAXIMUM_NODES + 1), help="default: 2")
    return found


def _add_signed_folder(command: argparse.ArgumentParser) -> None:
    command.add_argument("folder", type=Path, nargs="?", default=ROOT / "dist", help="default: dist")
    command.add_argument(
        "--key", type=Path, required=True, help="file with the public key of who makes releases, from another source"
    )


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    # No program that is started for the build sees the key.
    private_key = os.environ.pop(KEY_VARIABLE, "")
    try:
        if options.command == "build":
            _build(options, private_key)
        elif options.command == "image":
            shutil.copy(build_image(ROOT, options.base_image), options.out)
        elif options.command == "install":
            print(json.dumps(asdict(install_release(options.folder, options.key, options.nodes))))
        else:
            files = verify_release(options.folder, options.key)
            print(f"{len(files)} files are those that the owner of {options.key} has signed")
            if options.key.resolve().parent == options.folder.resolve():
                print("the key is from the same folder: this shows only that the files belong together")
    except (ReleaseError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _build(options: argparse.Namespace, private_key: str) -> None:
    given = options.image_archive or options.without_image
    built = build(
        ROOT,
        options.out,
        tag=options.tag,
        archives=(lambda: options.image_archive) if given else lambda: [build_image(ROOT)],
        repository=options.repository,
        private_key=private_key,
    )
    for path in built:
        print(f"{path.stat().st_size:>11,}  {path.name}")


if __name__ == "__main__":
    sys.exit(main())
