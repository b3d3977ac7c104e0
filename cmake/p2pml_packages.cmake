# Outside libraries. Each is linked PRIVATE by the one folder that may use it, so that a call from
# anywhere else does not build. test/lint holds the same table for includes.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)

# Some .pc files name directories relative to their prefix (Debian 13: `includedir=include` of msgpack-c), which CMake refuses.
# A relative directory is taken as below the prefix, or left out if it does not exist.
function(p2pml_absolute_includes name)
  get_target_property(directories PkgConfig::${name} INTERFACE_INCLUDE_DIRECTORIES)
  if(NOT directories)
    return()
  endif()
  set(absolute "")
  foreach(directory IN LISTS directories)
    if(NOT IS_ABSOLUTE ${directory})
      set(directory ${${name}_PREFIX}/${directory})
      if(NOT IS_ABSOLUTE ${directory} OR NOT IS_DIRECTORY ${directory})
        continue()
      endif()
    endif()
    list(APPEND absolute ${directory})
  endforeach()
  list(REMOVE_ITEM absolute /usr/include) # the compiler's own; naming it again can hide its headers
  set_target_properties(PkgConfig::${name} PROPERTIES INTERFACE_INCLUDE_DIRECTORIES "${absolute}")
endfunction()

function(p2pml_package name module debian)
  pkg_check_modules(${name} IMPORTED_TARGET GLOBAL ${module})
  if(NOT ${name}_FOUND)
    message(FATAL_ERROR "${module} was not found by pkg-config. On Debian and Ubuntu: apt-get install ${debian} "
                        "(or run ./setup.sh, which installs all that is missing)")
  endif()
  p2pml_absolute_includes(${name})
endfunction()

p2pml_package(SODIUM   libsodium         libsodium-dev)
p2pml_package(EVENT    libevent          libevent-dev)
p2pml_package(YAML     yaml-0.1          libyaml-dev)
p2pml_package(JANSSON  jansson           libjansson-dev)
p2pml_package(PNG      libpng            libpng-dev)
p2pml_package(JPEG     libjpeg           libjpeg-dev)
p2pml_package(OPENBLAS openblas          libopenblas-dev)

# msgpack-c changed both its module and its package name in version 6.
pkg_search_module(MSGPACK IMPORTED_TARGET GLOBAL msgpack-c msgpack)
if(NOT MSGPACK_FOUND)
  message(FATAL_ERROR "msgpack-c was not found by pkg-config. On Debian and Ubuntu: apt-get install libmsgpack-dev "
                      "(libmsgpack-c-dev from Debian 13 on), or run ./setup.sh")
endif()
p2pml_absolute_includes(MSGPACK)

# Faster AEADs for gossip/session/aead.c; their ciphertexts are the same as libsodium's.
if(NOT P2PML_OPENSSL STREQUAL "off")
  pkg_check_modules(OPENSSL IMPORTED_TARGET GLOBAL libcrypto)
  if(OPENSSL_FOUND)
    p2pml_absolute_includes(OPENSSL)
    set(P2PML_OPENSSL_LIBRARY PkgConfig::OPENSSL)
  elseif(P2PML_OPENSSL STREQUAL "on")
    message(FATAL_ERROR "P2PML_OPENSSL=on, but pkg-config did not find libcrypto. On Debian and Ubuntu: apt-get install libssl-dev")
  endif()
endif()
message(STATUS "libcrypto of OpenSSL for sealing: ${OPENSSL_FOUND}")

if(NOT P2PML_CURL STREQUAL "off")
  pkg_check_modules(CURL IMPORTED_TARGET GLOBAL libcurl)
  if(CURL_FOUND)
    p2pml_absolute_includes(CURL)
    set(P2PML_CURL_LIBRARY PkgConfig::CURL)
  elseif(P2PML_CURL STREQUAL "on")
    message(FATAL_ERROR "P2PML_CURL=on, but pkg-config did not find libcurl. On Debian and Ubuntu: apt-get install libcurl4-openssl-dev")
  endif()
endif()
message(STATUS "libcurl for p2pml data fetch: ${CURL_FOUND}")

# A port of the router (node/net/router.h): both or none. Debian's libnatpmp-dev has no .pc file.
set(P2PML_PORT_MAPPING_LIBRARIES "")
if(NOT P2PML_PORT_MAPPING STREQUAL "off")
  find_file(P2PML_MINIUPNPC_HEADER miniupnpc/miniupnpc.h)
  find_library(P2PML_MINIUPNPC miniupnpc)
  find_file(P2PML_NATPMP_HEADER natpmp.h)
  find_library(P2PML_NATPMP natpmp)
  mark_as_advanced(P2PML_MINIUPNPC_HEADER P2PML_MINIUPNPC P2PML_NATPMP_HEADER P2PML_NATPMP)
  if(P2PML_MINIUPNPC_HEADER AND P2PML_MINIUPNPC AND P2PML_NATPMP_HEADER AND P2PML_NATPMP)
    set(P2PML_PORT_MAPPING_LIBRARIES ${P2PML_MINIUPNPC} ${P2PML_NATPMP})
  elseif(P2PML_PORT_MAPPING STREQUAL "on")
    message(FATAL_ERROR "P2PML_PORT_MAPPING=on, but libminiupnpc or libnatpmp was not found. On Debian and Ubuntu: "
                        "apt-get install libminiupnpc-dev libnatpmp-dev")
  endif()
endif()
message(STATUS "libminiupnpc and libnatpmp for ports of the router: ${P2PML_PORT_MAPPING_LIBRARIES}")

# The libraries of a node without a built-in trainer: libp2pml links them with the rooms that use them.
set(P2PML_NODE_PACKAGES ZLIB::ZLIB PkgConfig::EVENT PkgConfig::SODIUM PkgConfig::MSGPACK PkgConfig::YAML PkgConfig::JANSSON
    ${P2PML_OPENSSL_LIBRARY} ${P2PML_PORT_MAPPING_LIBRARIES})

if(NOT P2PML_CUDA STREQUAL "off")
  include(CheckLanguage)
  check_language(CUDA)
endif()
if(P2PML_CUDA STREQUAL "on" AND NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "P2PML_CUDA=on, but no nvcc was found. Install the CUDA toolkit or use P2PML_CUDA=auto.")
endif()
if(CMAKE_CUDA_COMPILER AND NOT P2PML_CUDA STREQUAL "off")
  set(P2PML_HAVE_CUDA TRUE)
else()
  set(P2PML_HAVE_CUDA FALSE)
endif()
message(STATUS "CUDA backend: ${P2PML_HAVE_CUDA}")
