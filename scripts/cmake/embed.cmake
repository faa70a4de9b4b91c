# moec_embed(TARGET SYMBOL FILES…): compiles text files into TARGET as
#   namespace moec { extern const std::span<const EmbeddedFile> SYMBOL; }
# declared by the generated header "embedded/SYMBOL.h". Names are file names without folder.
function(moec_embed target symbol)
  set(dir ${CMAKE_BINARY_DIR}/generated/embedded)
  add_custom_command(
    OUTPUT ${dir}/${symbol}.h ${dir}/${symbol}.cc
    COMMAND ${CMAKE_COMMAND} -DSYMBOL=${symbol} -DOUT_DIR=${dir} "-DFILES=${ARGN}"
            -P ${CMAKE_SOURCE_DIR}/scripts/cmake/embed_files.cmake
    DEPENDS ${ARGN} ${CMAKE_SOURCE_DIR}/scripts/cmake/embed_files.cmake
    COMMENT "Embedding ${symbol}"
    VERBATIM)
  target_sources(${target} PRIVATE ${dir}/${symbol}.cc ${dir}/${symbol}.h)
  target_include_directories(${target} PRIVATE ${CMAKE_BINARY_DIR}/generated)
endfunction()
