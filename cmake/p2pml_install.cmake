# For cmake --install, and for packages: cpack -G DEB in the build folder. Included last, when the programs are known.
include(GNUInstallDirs)
include(p2pml_install_configured)
set(P2PML_DEPLOY ${CMAKE_CURRENT_SOURCE_DIR}/deploy)

install(TARGETS p2pml-node p2pml RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
if(TARGET p2pml_cuda) # loaded from the folder of the programs
  install(TARGETS p2pml_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

# The manual pages are made from the help of the programs, so they are built after them.
set(pages ${CMAKE_BINARY_DIR}/man)
file(GLOB page_sources CONFIGURE_DEPENDS ${P2PML_DEPLOY}/man/*)
string(REPLACE ";" " " emulator "${CMAKE_CROSSCOMPILING_EMULATOR}") # as a shell splits it
add_custom_command(OUTPUT ${pages}/p2pml.1 ${pages}/p2pml-node.1 ${pages}/p2pml-node.yaml.5
  COMMAND ${CMAKE_COMMAND} -E env "EMULATOR=${emulator}" sh ${P2PML_DEPLOY}/man/make.sh
    $<TARGET_FILE:p2pml-node> $<TARGET_FILE:p2pml> ${PROJECT_VERSION} ${pages}
  DEPENDS p2pml-node p2pml ${page_sources}
  COMMENT "Making the manual pages" VERBATIM)
add_custom_target(man ALL DEPENDS ${pages}/p2pml.1)
install(FILES ${pages}/p2pml.1 ${pages}/p2pml-node.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${pages}/p2pml-node.yaml.5 DESTINATION ${CMAKE_INSTALL_MANDIR}/man5)

# Shells load a completion by the name of its command.
foreach(command p2pml p2pml-node)
  install(FILES ${P2PML_DEPLOY}/completion/p2pml.bash RENAME ${command}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
endforeach()
install(FILES ${P2PML_DEPLOY}/completion/p2pml.zsh RENAME _p2pml DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions)

install(DIRECTORY configs deploy/kubernetes deploy/slurm DESTINATION ${CMAKE_INSTALL_DATADIR}/p2pml USE_SOURCE_PERMISSIONS)
install(FILES LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME copyright)
install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} OPTIONAL)

p2pml_install_configured(${P2PML_DEPLOY}/systemd/p2pml-node@.service lib/systemd/system/p2pml-node@.service)

# dpkg-shlibdeps finds the libraries and their versions in the programs.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME p2pml)
set(CPACK_PACKAGE_CONTACT "The p2pml authors <p2pml@invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "trains one model on many hosts, without a server")
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_INSTALL_PREFIX /usr)
set(CPACK_SET_DESTDIR ON) # the prefix of the files that name it is /usr, not the folder in which the package is made
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "gnuplot-nox")
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA ${P2PML_DEPLOY}/debian/postinst ${P2PML_DEPLOY}/debian/prerm ${P2PML_DEPLOY}/debian/postrm)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
include(CPack)
