# Of lab/CMakeLists.txt: the report, and the page that is built into the program.
set(page ${CMAKE_CURRENT_LIST_DIR}/page)
set(page_c ${CMAKE_CURRENT_BINARY_DIR}/page_bytes.c)
file(GLOB page_parts CONFIGURE_DEPENDS ${page}/*)
add_custom_command(OUTPUT ${page_c}
  COMMAND ${CMAKE_COMMAND} -DPAGE=${page} -DOUT=${page_c} -P ${CMAKE_CURRENT_LIST_DIR}/embed.cmake
  DEPENDS ${page_parts} ${CMAKE_CURRENT_LIST_DIR}/embed.cmake
  COMMENT "Putting the page of reports together")
target_sources(p2pml_lab PRIVATE
  report/answer.c report/answer_group.c report/answer_load.c report/answer_share.c report/curve.c
  report/page.c report/page_json.c report/plot.c report/plot_data.c report/plot_script.c report/record.c ${page_c})
