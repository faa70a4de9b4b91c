#include "backends/formats/litertlm/emit_litertlm.h"

#include <llm_metadata.pb.h>
#include <zlib.h>

#include "backends/emit/message_bytes.h"
#include "backends/emit/write_weights.h"
#include "backends/files/output_file.h"
#include "backends/formats/litertlm/litertlm_header.h"

namespace moec {
namespace {

uint64_t round_up(uint64_t position, uint64_t alignment) {
  return (position + alignment - 1) / alignment * alignment;
}

std::string metadata_of(const LitertlmText& text) {
  litertlm::LlmMetadata metadata;
  if (text.start_token)
    metadata.mutable_start_token()->mutable_token_ids()->add_ids(
        static_cast<int32_t>(*text.start_token));
  for (const int64_t token : text.end_tokens)
    metadata.add_stop_tokens()->mutable_token_ids()->add_ids(static_cast<int32_t>(token));
  if (text.sampling) {
    auto& sampler = *metadata.mutable_sampler_params();
    sampler.set_type(litertlm::SamplerParameters::top_p);
    sampler.set_k(static_cast<int32_t>(text.sampling->k));
    sampler.set_p(static_cast<float>(text.sampling->p));
    sampler.set_temperature(static_cast<float>(text.sampling->temperature));
  }
  metadata.set_max_num_tokens(static_cast<int32_t>(text.max_tokens));
  metadata.mutable_llm_model_type()->mutable_generic_model();
  metadata.set_jinja_prompt_template(text.chat_template);
  return message_bytes(metadata);
}

// The size of the text as a u64, then the text compressed by zlib.
Result<std::string> compressed(const std::string& text) {
  uLongf size = compressBound(text.size());
  constexpr size_t kSize = 8;
  std::string bytes(kSize + size, '\0');
  for (size_t i = 0; i < kSize; ++i) bytes[i] = static_cast<char>(uint64_t{text.size()} >> (8 * i));
  if (compress(reinterpret_cast<Bytef*>(bytes.data()) + kSize, &size,
               reinterpret_cast<const Bytef*>(text.data()), text.size()) != Z_OK)
    return fail("litertlm.compress", "zlib cannot compress the tokenizer", "free some memory");
  bytes.resize(kSize + size);
  return bytes;
}

// Writes the bytes at a position after the file's end.
Status put(const std::string& bytes, uint64_t position, OutputFile& file) {
  MOEC_TRY(file.pad_to(position));
  return file.write(std::as_bytes(std::span(bytes)));
}

}  // namespace

Result<EmittedFile> emit_litertlm(const DecoderModel& model, const LitertlmText& text,
                                  const WeightReader& weights, const EmitOptions& options) {
  std::vector<std::pair<LitertlmContent, std::string>> parts = {
      {LitertlmContent::metadata, metadata_of(text)}};
  if (!text.tokenizer.empty()) {
    MOEC_ASSIGN(std::string tokenizer, compressed(text.tokenizer));
    parts.emplace_back(LitertlmContent::tokenizer, std::move(tokenizer));
  }
  std::vector<LitertlmSection> sections;
  uint64_t end = kLitertlmBlock;
  for (const auto& [content, bytes] : parts) {
    const uint64_t begin = round_up(end, kLitertlmBlock);
    end = begin + bytes.size();
    sections.push_back({content, begin, end});
  }
  const TfliteSource source = decoder_source(model);
  MOEC_TRY(check_constant_bytes(source.shards, options.limits, options.stem));
  const TfliteContents contents = lay_out_contents(source, round_up(end, kTfliteDataAlignment));
  sections.push_back({LitertlmContent::model, contents.begin, contents.end()});
  MOEC_TRY(check_layout(contents.weights, weights, options.tile_bytes));

  const OutputPath path{options.folder, options.stem};
  MOEC_ASSIGN(OutputFile file, OutputFile::create(path, contents.end(), options.sha256));
  const std::string header = litertlm_header(sections);
  MOEC_TRY(put(header, 0, file));
  for (size_t i = 0; i < parts.size(); ++i) MOEC_TRY(put(parts[i].second, sections[i].begin, file));
  MOEC_TRY(file.pad_to(contents.begin));
  EmitReport report;
  MOEC_TRY(write_contents(contents, weights, options, file, report));
  MOEC_TRY(file.sync());
  MOEC_TRY(file.remove_older());
  MOEC_TRY(file.publish());
  return EmittedFile{options.stem, file.bytes(), file.digest(), file.sha256()};
}

}  // namespace moec
