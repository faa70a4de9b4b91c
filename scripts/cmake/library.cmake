# moec_order(LIST): groups sources that include the same large headers, so that few objects of a unity build compile
# them.
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

# moec_row(OUT FOLDER): our libraries that FOLDER may use, by its row in scripts/arrows.json; ["*"]: all libraries
# defined so far.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/scripts/arrows.json)
file(READ ${CMAKE_SOURCE_DIR}/scripts/arrows.json MOEC_ARROWS)
function(moec_row out folder)
  set(libraries "")
  string(JSON count ERROR_VARIABLE missing LENGTH ${MOEC_ARROWS} folders ${folder})
  if(missing)
    message(FATAL_ERROR "${folder} has no row in scripts/arrows.json")
  endif()
  while(count GREATER 0)
    math(EXPR count "${count} - 1")
    string(JSON used GET ${MOEC_ARROWS} folders ${folder} ${count})
    if(used STREQUAL "*")
      get_property(libraries GLOBAL PROPERTY MOEC_LIBRARIES)
      break()
    endif()
    string(REPLACE "/" "_" used moec_${used})
    list(APPEND libraries ${used})
  endwhile()
  set(${out} ${libraries} PARENT_SCOPE)
endfunction()

# moec_exported(LIBRARY): adds a library to the package that install.cmake installs, as moec::NAME for moec_NAME.
function(moec_exported library)
  string(REGEX REPLACE "^moec_" "" name ${library})
  set_target_properties(${library} PROPERTIES EXPORT_NAME ${name})
  set_property(GLOBAL APPEND PROPERTY MOEC_EXPORTED ${library})
endfunction()

# moec_library(FOLDER LIBRARY…): makes a static library of all *.cc of a folder, named by its path: moec_ir_base for
# ir/base. Links the folders of its row and the given libraries.
function(moec_library folder)
  string(REPLACE "/" "_" name moec_${folder})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${folder}/*.cc)
  moec_order(sources)
  add_library(${name} STATIC ${sources})
  moec_row(used ${folder})
  target_link_libraries(${name} PUBLIC moec_vocabulary PRIVATE ${used} ${ARGN})
  target_compile_options(${name} PRIVATE $<TARGET_PROPERTY:moec_options,INTERFACE_COMPILE_OPTIONS>)
  set_property(GLOBAL APPEND PROPERTY MOEC_LIBRARIES ${name})
  moec_exported(${name})
endfunction()

# moec_without_gcc_warning(WARNING LIBRARY…): disables a false positive of GCC.
function(moec_without_gcc_warning warning)
  foreach(library IN LISTS ARGN)
    target_compile_options(${library} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-${warning}>)
  endforeach()
endfunction()
