#!/bin/sh
# Finds a Python of at least 3.11 and lets it set up everything else (bootstrap.py).
# $PYTHON chooses one; otherwise 3.11 comes first, because it is what the workbook is tested with.
set -eu
cd "$(dirname "$0")/.."

if [ -n "${PYTHON:-}" ]; then
    candidates=$PYTHON
else
    candidates="python3.11 python3 python3.12 python3.13 python3.14"
fi
for python in $candidates; do
    if "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        exec "$python" scripts/bootstrap.py "$@"
    fi
done
echo "no Python 3.11 or newer (looked for: $candidates)" >&2
echo "  fix: Debian 12: apt-get install python3 python3-venv; or name one: make PYTHON=/path/to/python3.12" >&2
exit 2
