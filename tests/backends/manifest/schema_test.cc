// Compares the field lists of the structs with the schema.
#include "backends/manifest/schema.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "backends/manifest/fields.h"

namespace moec::manifest {
namespace {

using Names = std::vector<std::string>;

template <class Struct>
Names listed_fields() {
  Names names;
  Struct object;
  each_field(object, [&](const char* name, auto&) { names.emplace_back(name); });
  return names;
}

Names schema_fields(const std::string& table) {
  Names names;
  const flatbuffers::StructDef* def = schema().structs_.Lookup("moec.wire." + table);
  if (!def) return {"no such table"};
  for (const flatbuffers::FieldDef* field : def->fields.vec) names.push_back(field->name);
  return names;
}

TEST(ManifestSchema, MatchesStructFields) {
  EXPECT_EQ(listed_fields<Tool>(), schema_fields("Tool"));
  EXPECT_EQ(listed_fields<Model>(), schema_fields("Model"));
  EXPECT_EQ(listed_fields<Budget>(), schema_fields("Budget"));
  EXPECT_EQ(listed_fields<Build>(), schema_fields("Build"));
  EXPECT_EQ(listed_fields<FileRef>(), schema_fields("FileRef"));
  EXPECT_EQ(listed_fields<TableFile>(), schema_fields("TableFile"));
  EXPECT_EQ(listed_fields<RopeTable>(), schema_fields("RopeTable"));
  EXPECT_EQ(listed_fields<Cache>(), schema_fields("Cache"));
  EXPECT_EQ(listed_fields<Port>(), schema_fields("Port"));
  EXPECT_EQ(listed_fields<Width>(), schema_fields("Width"));
  EXPECT_EQ(listed_fields<OpCount>(), schema_fields("OpCount"));
  EXPECT_EQ(listed_fields<Cost>(), schema_fields("Cost"));
  EXPECT_EQ(listed_fields<RuleCount>(), schema_fields("RuleCount"));
  EXPECT_EQ(listed_fields<Placement>(), schema_fields("Placement"));
  EXPECT_EQ(listed_fields<Routing>(), schema_fields("Routing"));
  EXPECT_EQ(listed_fields<WeightRange>(), schema_fields("WeightRange"));
  EXPECT_EQ(listed_fields<WeightRecord>(), schema_fields("WeightRecord"));
  EXPECT_EQ(listed_fields<Shard>(), schema_fields("Shard"));
  EXPECT_EQ(listed_fields<InputBinding>(), schema_fields("InputBinding"));
  EXPECT_EQ(listed_fields<OutputBinding>(), schema_fields("OutputBinding"));
  EXPECT_EQ(listed_fields<Step>(), schema_fields("Step"));
  EXPECT_EQ(listed_fields<LogitSlice>(), schema_fields("LogitSlice"));
  EXPECT_EQ(listed_fields<Logits>(), schema_fields("Logits"));
  EXPECT_EQ(listed_fields<Label>(), schema_fields("Label"));
  EXPECT_EQ(listed_fields<Tagging>(), schema_fields("Tagging"));
  EXPECT_EQ(listed_fields<IgnoredWeight>(), schema_fields("IgnoredWeight"));
  EXPECT_EQ(listed_fields<Golden>(), schema_fields("Golden"));
  EXPECT_EQ(listed_fields<Node>(), schema_fields("Node"));
  EXPECT_EQ(listed_fields<Manifest>(), schema_fields("Manifest"));
}

TEST(ManifestSchema, MakesEveryScalarOptional) {
  for (const flatbuffers::StructDef* table : schema().structs_.vec)
    for (const flatbuffers::FieldDef* field : table->fields.vec)
      EXPECT_EQ(flatbuffers::IsScalar(field->value.type.base_type), field->IsScalarOptional())
          << table->name << "." << field->name;
}

Names schema_values(const std::string& name) {
  Names names;
  const flatbuffers::EnumDef* def = schema().enums_.Lookup("moec.wire." + name);
  if (!def) return {"no such enum"};
  for (const flatbuffers::EnumVal* value : def->Vals()) names.push_back(value->name);
  return names;
}

template <class E>
Names our_values() {
  Names names;
  for (std::string_view name : enum_names(E{})) names.emplace_back(name);
  return names;
}

TEST(ManifestSchema, MatchesEnumNames) {
  EXPECT_EQ(our_values<DType>(), schema_values("DType"));
  EXPECT_EQ(our_values<Layout>(), schema_values("Layout"));
  EXPECT_EQ(our_values<CacheForm>(), schema_values("CacheForm"));
  EXPECT_EQ(our_values<Task>(), schema_values("Task"));
  EXPECT_EQ(our_values<RopeStyle>(), schema_values("RopeStyle"));
  EXPECT_EQ(our_values<TokenizerKind>(), schema_values("TokenizerKind"));
  EXPECT_EQ(our_values<ShardKind>(), schema_values("ShardKind"));
  EXPECT_EQ(our_values<Score>(), schema_values("Score"));
  EXPECT_EQ(our_values<Renorm>(), schema_values("Renorm"));
  EXPECT_EQ(our_values<GroupScore>(), schema_values("GroupScore"));
  EXPECT_EQ(our_values<SourceKind>(), schema_values("SourceKind"));
  EXPECT_EQ(our_values<SinkKind>(), schema_values("SinkKind"));
}

}  // namespace
}  // namespace moec::manifest
