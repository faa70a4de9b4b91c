# Rules of `cmake --install` and of `cpack`: the program, its man pages, and completions for bash, zsh and fish.
include(GNUInstallDirs)
find_package(Python3 COMPONENTS Interpreter)

install(TARGETS moec RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
# The program prints the help from which the files are made, so they are made when it exists. Building needs no Python.
if(Python3_FOUND)
  install(CODE "execute_process(
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/scripts/make_shell_files.py
      --moec $<TARGET_FILE:moec> --out ${CMAKE_BINARY_DIR}/share
    COMMAND_ERROR_IS_FATAL ANY)")
  install(DIRECTORY ${CMAKE_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR})
endif()

set(CPACK_PACKAGE_NAME moec)
set(CPACK_PACKAGE_VENDOR moec)
set(CPACK_PACKAGE_CONTACT "moec authors <moec@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Compiler from Mixture-of-Experts checkpoints to static graph shards")
set(CPACK_GENERATOR DEB)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# The libraries of the distribution, with the versions whose symbols the program uses.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
include(CPack)
