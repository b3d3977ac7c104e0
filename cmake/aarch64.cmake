# Toolchain of the preset aarch64: Debian's cross compiler, and Debian's libraries for arm64 in build/aarch64-root, which
# test/aarch64.sh fills. Programs and tests run under qemu's user mode.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
get_filename_component(P2PML_ROOT ${CMAKE_CURRENT_LIST_DIR}/../build/aarch64-root ABSOLUTE)

set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_SYSROOT ${P2PML_ROOT})
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static;-L;${P2PML_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)

set(ENV{PKG_CONFIG_SYSROOT_DIR} ${P2PML_ROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${P2PML_ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${P2PML_ROOT}/usr/share/pkgconfig)
