# p2pml_folder(NAME SOURCES ... BELOW folder... PRIVATE library...)
#
# Declares the library p2pml_NAME of one folder. BELOW names the folders whose headers it includes; each
# must stand on a lower floor, or configuration fails. PRIVATE names outside libraries.
set(P2PML_FLOOR_base 0)
set(P2PML_FLOOR_kernels 1)
set(P2PML_FLOOR_topology 1)
set(P2PML_FLOOR_compress 2)
set(P2PML_FLOOR_gossip 3)
set(P2PML_FLOOR_train 3)
set(P2PML_FLOOR_node 4)
set(P2PML_FLOOR_lab 5)

function(p2pml_folder name)
  cmake_parse_arguments(ARG "" "" "SOURCES;BELOW;PRIVATE" ${ARGN})
  add_library(p2pml_${name} STATIC ${ARG_SOURCES})
  target_include_directories(p2pml_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  foreach(lower IN LISTS ARG_BELOW)
    if(NOT P2PML_FLOOR_${lower} LESS P2PML_FLOOR_${name})
      message(FATAL_ERROR "${name}/ (floor ${P2PML_FLOOR_${name}}) may not link ${lower}/ "
                          "(floor ${P2PML_FLOOR_${lower}}): only folders below it")
    endif()
    target_link_libraries(p2pml_${name} PUBLIC p2pml_${lower})
  endforeach()
  target_link_libraries(p2pml_${name} PRIVATE ${ARG_PRIVATE})
endfunction()
