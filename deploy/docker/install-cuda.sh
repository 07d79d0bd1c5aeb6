#!/usr/bin/env bash
# Installs the parts of the CUDA Toolkit that Baton is built with, from NVIDIA's packages on PyPI, to a folder that looks as
# the toolkit's own installer leaves it.
#   install-cuda.sh [FOLDER]     default: /usr/local/cuda
# Needs python3-pip. A program needs lib/libcublasLt.so.* and lib/libnccl.so.* of it to run, and the machine's driver.
set -euo pipefail

folder=${1:-/usr/local/cuda}
packages=(
  nvidia-cuda-nvcc==13.0.88 nvidia-nvvm==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-cuda-runtime==13.0.96
  nvidia-cuda-cccl==13.0.85 nvidia-cublas==13.1.0.3 nvidia-nccl-cu13==2.28.9
)
staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT
python3 -m pip install --quiet --no-deps --only-binary :all: --no-cache-dir --target "$staging" "${packages[@]}"
mkdir -p "$folder"
cp -a "$staging"/nvidia/cu13/. "$staging"/nvidia/nccl/. "$folder/"
[ -e "$folder/lib64" ] || ln -s lib "$folder/lib64"
# Linkers and CMake look for names without a version.
for library in "$folder"/lib/lib*.so.*; do
  [ -e "${library%%.so.*}.so" ] || ln -s "$(basename "$library")" "${library%%.so.*}.so"
done
chmod +x "$folder"/bin/*
