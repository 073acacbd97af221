#!/usr/bin/env bash
# The Matrix homeserver for the tests, in a virtual environment of its own: .counterparts/venv-synapse.
# Needs Python 3.11 with venv, and pip. Does nothing when it is there already.
set -euo pipefail
cd "$(dirname "$0")/../.."

WANTED=1.163.2
VENV=.counterparts/venv-synapse
PYTHON="${PYTHON:-$(command -v python3.11 || command -v python3)}"

if [ -x "$VENV/bin/python" ] && "$VENV/bin/python" -c "
import sys; from importlib.metadata import version
sys.exit(version('matrix-synapse') != '$WANTED')" 2>/dev/null; then
  exit 0
fi
echo "counterparts: installing matrix-synapse $WANTED"
"$PYTHON" -m venv --clear "$VENV" 2>/dev/null || {
  rm -rf "$VENV"
  "$PYTHON" -m pip install --quiet virtualenv && "$PYTHON" -m virtualenv --quiet "$VENV"
}
"$VENV/bin/python" -m pip --disable-pip-version-check --quiet install "matrix-synapse==$WANTED"
