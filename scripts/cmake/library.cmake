# moec_order(LIST): sources that include the same large headers stand together, so that few objects of a
# unity build compile these.
function(moec_order list)
  set(keyed "")
  foreach(source IN LISTS ${list})
    file(STRINGS ${source} large REGEX "^#include <(CLI|nlohmann)/")
    string(REPLACE ";" " " large "${large}")
    list(APPEND keyed "${large}|${source}")
  endforeach()
  list(SORT keyed)
  list(TRANSFORM keyed REPLACE "^[^|]*[|]" "")
  set(${list} ${keyed} PARENT_SCOPE)
endfunction()

# moec_library(NAME FOLDER LIBRARY…): a static library of all FOLDER/*.cc in the current directory, which
# uses the given libraries. scripts/check_includes.py says which folder may include which.
function(moec_library name folder)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${folder}/*.cc)
  moec_order(sources)
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PUBLIC moec_vocabulary PRIVATE ${ARGN})
  target_compile_options(${name} PRIVATE $<TARGET_PROPERTY:moec_options,INTERFACE_COMPILE_OPTIONS>)
endfunction()

# moec_without_gcc_warning(WARNING LIBRARY…): leaves out a warning that GCC gives wrongly.
function(moec_without_gcc_warning warning)
  foreach(library IN LISTS ARGN)
    target_compile_options(${library} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-${warning}>)
  endforeach()
endfunction()
