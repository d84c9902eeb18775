// Writers of compressed and columnar test files.
#pragma once

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/ipc/api.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>
#include <zlib.h>
#include <zstd.h>

#include <optional>
#include <string>
#include <vector>

namespace titan::data::testing {

inline std::string gzip(const std::string& content) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, content.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

inline std::string zstd(const std::string& content) {
  std::string out(ZSTD_compressBound(content.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), content.data(), content.size(), 3));
  return out;
}

using Texts = std::vector<std::optional<std::string>>;

// Columns: id (int64), `key` (string).
inline std::shared_ptr<arrow::RecordBatch> record_batch(const Texts& texts,
                                                        const std::string& key = "text") {
  arrow::StringBuilder strings;
  arrow::Int64Builder ids;
  for (size_t i = 0; i < texts.size(); ++i) {
    EXPECT_TRUE((texts[i] ? strings.Append(*texts[i]) : strings.AppendNull()).ok());
    EXPECT_TRUE(ids.Append(static_cast<int64_t>(i)).ok());
  }
  const auto schema =
      arrow::schema({arrow::field("id", arrow::int64()), arrow::field(key, arrow::utf8())});
  return arrow::RecordBatch::Make(schema, static_cast<int64_t>(texts.size()),
                                  {*ids.Finish(), *strings.Finish()});
}

// Every element of `groups` becomes a row group.
inline void write_parquet(const std::string& path, const std::vector<Texts>& groups,
                          parquet::Compression::type compression = parquet::Compression::SNAPPY,
                          const std::string& key = "text") {
  auto out = *arrow::io::FileOutputStream::Open(path);
  parquet::WriterProperties::Builder properties;
  properties.compression(compression)
      ->enable_page_checksum()
      ->data_pagesize(1024)
      ->disable_dictionary();
  auto writer = *parquet::arrow::FileWriter::Open(
      *record_batch({}, key)->schema(), arrow::default_memory_pool(), out, properties.build());
  for (const auto& group : groups) {
    const auto table = *arrow::Table::FromRecordBatches({record_batch(group, key)});
    ASSERT_TRUE(writer->NewRowGroup().ok());
    for (const auto& column : table->columns()) ASSERT_TRUE(writer->WriteColumnChunk(column).ok());
  }
  ASSERT_TRUE(writer->Close().ok());
  ASSERT_TRUE(out->Close().ok());
}

inline void write_arrow(const std::string& path, const std::vector<Texts>& batches, bool stream) {
  auto out = *arrow::io::FileOutputStream::Open(path);
  const auto schema = record_batch({})->schema();
  auto writer = stream ? *arrow::ipc::MakeStreamWriter(out, schema)
                       : *arrow::ipc::MakeFileWriter(out, schema);
  for (const auto& batch : batches)
    ASSERT_TRUE(writer->WriteRecordBatch(*record_batch(batch)).ok());
  ASSERT_TRUE(writer->Close().ok());
  ASSERT_TRUE(out->Close().ok());
}

}  // namespace titan::data::testing
