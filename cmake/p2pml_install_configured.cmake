# p2pml_install_configured(TEMPLATE PATH [COMPONENT]): installs a file that names @CMAKE_INSTALL_PREFIX@. The prefix is known
# only at installation: cmake --install --prefix and packages may use another than the build folder was configured with.
function(p2pml_install_configured template path)
  set(component Unspecified ${ARGN})
  list(GET component -1 component)
  get_filename_component(name ${path} NAME)
  set(half ${CMAKE_CURRENT_BINARY_DIR}/${name}.in)
  set(CMAKE_INSTALL_PREFIX @CMAKE_INSTALL_PREFIX@) # stays as it is until the installation
  configure_file(${template} ${half} @ONLY)
  install(CODE "
    get_filename_component(CMAKE_INSTALL_PREFIX \"\${CMAKE_INSTALL_PREFIX}\" ABSOLUTE)
    message(STATUS \"Installing: \$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${path}\")
    configure_file(\"${half}\" \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${path}\" @ONLY NO_SOURCE_PERMISSIONS)
    list(APPEND CMAKE_INSTALL_MANIFEST_FILES \"\${CMAKE_INSTALL_PREFIX}/${path}\")" COMPONENT ${component})
endfunction()
