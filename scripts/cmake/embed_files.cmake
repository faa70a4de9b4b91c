# Run by moec_embed: writes OUT_DIR/SYMBOL.{h,cc} with FILES as raw string literals, in pieces below the compiler's
# limit per literal.
set(piece_size 8000)
file(WRITE ${OUT_DIR}/${SYMBOL}.h.new "#pragma once
#include <span>
#include <string_view>
namespace moec {
#ifndef MOEC_EMBEDDED_FILE
#define MOEC_EMBEDDED_FILE
struct EmbeddedFile {
  std::string_view name, text;
};
#endif
extern const std::span<const EmbeddedFile> ${SYMBOL};
}  // namespace moec
")
set(body "")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  file(READ ${file} text)
  string(LENGTH "${text}" length)
  string(APPEND body "    {\"${name}\",\n")
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${text}" ${at} ${piece_size} piece)
    string(APPEND body "     R\"moec_raw(${piece})moec_raw\"\n")
    math(EXPR at "${at} + ${piece_size}")
  endwhile()
  if(length EQUAL 0)
    string(APPEND body "     \"\"\n")
  endif()
  string(APPEND body "    },\n")
endforeach()
file(WRITE ${OUT_DIR}/${SYMBOL}.cc.new "#include \"embedded/${SYMBOL}.h\"
namespace moec {
static constexpr EmbeddedFile k_${SYMBOL}[] = {
${body}};
const std::span<const EmbeddedFile> ${SYMBOL}{k_${SYMBOL}};
}  // namespace moec
")
foreach(ext h cc)
  file(RENAME ${OUT_DIR}/${SYMBOL}.${ext}.new ${OUT_DIR}/${SYMBOL}.${ext})
endforeach()
