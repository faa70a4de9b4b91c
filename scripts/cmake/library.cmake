# moec_library(NAME FOLDER): a static library of all FOLDER/*.cc. Ours links PRIVATE except moec_ir, whose
# types stand in every public header.
function(moec_library name folder)
  file(GLOB sources CONFIGURE_DEPENDS ${folder}/*.cc)
  add_library(${name} STATIC ${sources})
  target_link_libraries(${name} PUBLIC moec_ir)
  target_compile_options(${name} PRIVATE $<TARGET_PROPERTY:moec_options,INTERFACE_COMPILE_OPTIONS>)
endfunction()
