# cmake -DPAGE=folder -DOUT=file.c -P embed.cmake: the files of the page as strings of C.
set(code "// Made by embed.cmake.\n#include \"node/http/page.h\"\n")
foreach(part html css js)
  file(READ ${PAGE}/page.${part} bytes HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
  string(APPEND code "const char node_page_${part}[] = {\n${bytes}0};\n")
endforeach()
file(WRITE ${OUT} "${code}")
