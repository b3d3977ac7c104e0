# Compiler rules that hold for every file of the project.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Debug or Release" FORCE)
endif()

set(P2PML_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined or thread; empty for none")
option(P2PML_FUZZ "Build the libFuzzer targets of test/fuzz (needs clang)" OFF)
set(P2PML_CUDA "auto" CACHE STRING "CUDA backend: auto (where nvcc is found), on (or fail), off")
set_property(CACHE P2PML_CUDA PROPERTY STRINGS auto on off)
set(P2PML_OPENSSL "auto" CACHE STRING "OpenSSL's libcrypto for sealing streams: auto (where pkg-config finds it), on (or fail), off")
set_property(CACHE P2PML_OPENSSL PROPERTY STRINGS auto on off)
set(P2PML_CURL "auto" CACHE STRING "libcurl for p2pml data fetch: auto (where pkg-config finds it), on (or fail), off")
set_property(CACHE P2PML_CURL PROPERTY STRINGS auto on off)
set(P2PML_PORT_MAPPING "auto" CACHE STRING "libminiupnpc and libnatpmp for ports of the router: auto (where they are found), on (or fail), off")
set_property(CACHE P2PML_PORT_MAPPING PROPERTY STRINGS auto on off)

add_compile_definitions(_GNU_SOURCE)
# The language filter excludes nvcc, which takes other flags.
add_compile_options(
  "$<$<COMPILE_LANGUAGE:C>:-Wall;-Wextra;-Wshadow;-Wconversion;-Wstrict-prototypes;-Wvla;-Werror>"
  # Constants are enumerators here; clang 17 and later would require a cast wherever one is used with a float.
  "$<$<COMPILE_LANGUAGE:C>:-Wno-enum-float-conversion>"
  # Both ends of an edge must compute the same bits: no fast-math, and no fused
  # multiply-add except in convolutions and matrix products (kernels/CMakeLists.txt).
  "$<$<COMPILE_LANGUAGE:C>:-ffp-contract=off;-fno-math-errno>")
set(CMAKE_C_FLAGS_RELEASE "-O3 -g")
set(CMAKE_C_FLAGS_DEBUG "-O1 -g -fno-omit-frame-pointer")

if(P2PML_SANITIZE)
  add_compile_options("$<$<COMPILE_LANGUAGE:C>:-fsanitize=${P2PML_SANITIZE};-fno-sanitize-recover=all>")
  add_link_options(-fsanitize=${P2PML_SANITIZE})
  find_program(P2PML_LLD ld.lld)
  if(P2PML_LLD) # 0.1 s of a processor for a test with clang's runtime, 0.4 s with GNU ld; there are 300 of them
    add_link_options(-fuse-ld=lld)
  endif()
endif()
if(P2PML_FUZZ)
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "P2PML_FUZZ needs clang, found ${CMAKE_C_COMPILER_ID}: use the preset 'fuzz'")
  endif()
  add_compile_options("$<$<COMPILE_LANGUAGE:C>:-fsanitize=fuzzer-no-link>")
endif()
