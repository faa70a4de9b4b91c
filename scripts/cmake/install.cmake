# Rules of `cmake --install` and of `cpack`. The component `program` has the program, its man pages, completions for bash,
# zsh and fish, and the schemas of its reports; the component `development` has the libraries, for find_package(moec).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
find_package(Python3 COMPONENTS Interpreter)

install(TARGETS moec RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT program)
# The program prints the help from which the files are made, so they are made when it exists. Building needs no Python.
if(Python3_FOUND)
  install(CODE "execute_process(
    COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/scripts/make_shell_files.py
      --moec $<TARGET_FILE:moec> --out ${CMAKE_BINARY_DIR}/share
    COMMAND_ERROR_IS_FATAL ANY)" COMPONENT program)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/share/ DESTINATION ${CMAKE_INSTALL_DATADIR} COMPONENT program)
endif()

# The schemas of the JSON reports, in their folders, because they refer to one another by relative paths.
# A DIRECTORY with a pattern would also install all folders without schemas, empty.
file(GLOB_RECURSE schemas RELATIVE ${CMAKE_SOURCE_DIR} CONFIGURE_DEPENDS
  ir/*.schema.json backends/*.schema.json frontends/*.schema.json)
foreach(schema ${schemas})
  cmake_path(GET schema PARENT_PATH folder)
  install(FILES ${CMAKE_SOURCE_DIR}/${schema} COMPONENT program
    DESTINATION ${CMAKE_INSTALL_DATADIR}/moec/schemas/${folder})
endforeach()

get_property(libraries GLOBAL PROPERTY MOEC_EXPORTED)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/moec)
install(TARGETS ${libraries} EXPORT moec ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/moec COMPONENT development)
install(EXPORT moec NAMESPACE moec:: FILE moec-targets.cmake DESTINATION ${package} COMPONENT development)
install(DIRECTORY ir passes models backends frontends DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/moec COMPONENT development
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
write_basic_package_version_file(${CMAKE_BINARY_DIR}/moec-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_SOURCE_DIR}/scripts/cmake/moec-config.cmake ${CMAKE_BINARY_DIR}/moec-config-version.cmake
  DESTINATION ${package} COMPONENT development)

set(CPACK_PACKAGE_NAME moec)
set(CPACK_PACKAGE_VENDOR moec)
set(CPACK_PACKAGE_CONTACT "moec authors <moec@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "Compiler from Mixture-of-Experts checkpoints to static graph shards")
set(CPACK_GENERATOR DEB)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL program)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME moec)
set(CPACK_STRIP_FILES ON)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
# The libraries of the distribution, with the versions whose symbols the program uses.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
include(CPack)
