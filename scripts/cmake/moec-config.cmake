# find_package(moec): the libraries moec::ROOM of the rooms, with / replaced by _ (moec::ir_text, moec::passes), and the
# include root of their headers. A library brings the libraries that it uses.
include(CMakeFindDependencyMacro)
foreach(library fmt tl-expected nlohmann_json Eigen3 FlatBuffers Protobuf CLI11 OpenSSL ZLIB Threads PkgConfig)
  find_dependency(${library})
endforeach()
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(HWY REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(HTTPLIB REQUIRED IMPORTED_TARGET cpp-httplib)
include(${CMAKE_CURRENT_LIST_DIR}/moec-targets.cmake)
