# moec_library(NAME FOLDER): a static library of all FOLDER/*.cc; without sources yet, an interface library.
# Ours links PRIVATE except moec_ir, whose types stand in every public header.
function(moec_library name folder)
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cc)
  if(sources)
    add_library(${name} STATIC ${sources})
    target_link_libraries(${name} PUBLIC moec_ir)
    target_compile_options(${name} PRIVATE $<TARGET_PROPERTY:moec_options,INTERFACE_COMPILE_OPTIONS>)
  else()
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE moec_ir)
  endif()
endfunction()

# target_link_libraries(PRIVATE) for a library made by moec_library, whether it has sources yet or not.
function(moec_links target)
  get_target_property(kind ${target} TYPE)
  if(kind STREQUAL "STATIC_LIBRARY")
    target_link_libraries(${target} PRIVATE ${ARGN})
  endif()
endfunction()
