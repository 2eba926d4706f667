#!/bin/sh
# Run a script with a Python that fits (3.11 to 3.13, able to make virtual environments).
# PYTHON=/path/to/python names one; else the first that fits on the PATH is taken. Each candidate
# is really started: a version manager's shim can be on the PATH and still not work.
set -eu

fits='import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))'
version='import sys; print(sys.version.split()[0])'

seen=""
for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python}; do
    if found=$("$candidate" -c "$version" 2>/dev/null); then
        if "$candidate" -c "$fits" 2>/dev/null; then
            exec "$candidate" "$@"
        fi
        case $found in
        3.11.* | 3.12.* | 3.13.*) found="$found without venv: apt install python3-venv" ;;
        esac
        seen="${seen:+$seen, }$candidate is $found"
    elif [ -n "${PYTHON:-}" ]; then
        seen="$candidate does not start"
    fi
done

echo "minillm needs Python 3.11, 3.12 or 3.13 and found none (${seen:-no python on the PATH})." \
    "Install one and run this again, or name one: PYTHON=/path/to/python" >&2
exit 1
