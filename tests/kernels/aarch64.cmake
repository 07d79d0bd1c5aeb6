# Toolchain file: the kernels and their tests for 64-bit Arm from another machine, run under qemu (preset aarch64).
# Debian: dpkg --add-architecture arm64; apt-get install g++-aarch64-linux-gnu qemu-user libhwy-dev:arm64
# libabsl-dev:arm64 libgtest-dev:arm64 libgmock-dev:arm64
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
