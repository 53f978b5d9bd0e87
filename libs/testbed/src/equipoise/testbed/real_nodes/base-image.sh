#!/bin/sh
# Called by mmdebstrap with the tree of a Debian: moves its Python to /usr/local, with pip, as in the official image of Python.
set -eu
chroot "$1" sh -eu <<'IN'
rm -r /usr/local/lib/python3.13
mv /usr/lib/python3.13 /usr/local/lib/
mv /usr/bin/python3.13 /usr/local/bin/
rm -f /usr/bin/python3 /usr/local/lib/python3.13/EXTERNALLY-MANAGED
ln -s python3.13 /usr/local/bin/python3
ln -s python3.13 /usr/local/bin/python
wheel=$(echo /usr/share/python-wheels/pip-*.whl)
export DEB_PYTHON_INSTALL_LAYOUT=deb_system
PYTHONPATH=$wheel python3 -m pip install --quiet --no-index --root-user-action=ignore "$wheel"
IN
