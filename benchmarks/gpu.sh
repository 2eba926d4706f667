#!/usr/bin/env bash
# One run, at most 10 minutes, on a machine with one NVIDIA GPU and no network: gpu tests, roofline
# shares, graphs, backends, transformers. Prints one JSON object; see benchmarks/gpu.py --help.
#
#     bash benchmarks/gpu.sh > gpu.json
#     bash benchmarks/gpu.sh --tiny --device cpu      # a dry run without a GPU
#
# Needs torch (with CUDA), transformers, pytest and hypothesis; PYTHON names the interpreter,
# .venv's is taken if there is one.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
python=${PYTHON:-.venv/bin/python}
[ -x "$python" ] || python=$(command -v "${PYTHON:-python3}")
export HF_HUB_OFFLINE=1 TRANSFORMERS_OFFLINE=1 TOKENIZERS_PARALLELISM=false
exec "$python" -m benchmarks.gpu "$@"
