#include "data/sources/parquet.h"

#include <arrow/io/file.h>
#include <parquet/arrow/reader.h>
#include <parquet/exception.h>
#include <parquet/metadata.h>
#include <parquet/properties.h>

#include <algorithm>

#include "base/error.h"
#include "base/log.h"
#include "data/sources/columns.h"

namespace titan::data {
namespace {

constexpr int64_t kFewestRows = 16, kMostRows = 1 << 16;

class ParquetSource : public Source {
 public:
  ParquetSource(const DataFile& file, const SourceOptions& options) : file_(file) {
    try {
      open(options);
    } catch (const parquet::ParquetException& error) {
      refuse(error.what());
    }
  }

  Block read(const Place& place) override {
    const int64_t row = place.position;
    Block block;
    if (row < num_rows_) {
      block = read_rows(row);
      // Nothing but an empty row group lies between the rows of a file.
      add_empty_groups(row, 0, block);
    }
    const int64_t end = row + static_cast<int64_t>(block.records.size());
    if (end < num_rows_) {
      block.next = Place{.position = end, .line = end + 1};
    } else {
      add_empty_groups(num_rows_,
                       static_cast<int32_t>(std::max<size_t>(block.records.size(), 1) - 1), block);
    }
    std::ranges::stable_sort(block.notes, {}, &Note::record);
    return block;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw Error(
        "[data] {} cannot be read as Parquet: {} — get or write the file again, or remove it",
        file_.path.string(), why);
  }

  void open(const SourceOptions& options) {
    auto input = arrow::io::ReadableFile::Open(file_.path.string());
    if (!input.ok()) refuse(input.status().message());
    parquet::ReaderProperties properties;
    properties
        .enable_buffered_stream();  // pages are read as they are needed, not a whole column chunk
    properties.set_buffer_size(1 << 20);
    properties.set_page_checksum_verification(true);
    parquet::arrow::FileReaderBuilder builder;
    if (const auto status = builder.Open(*input, properties); !status.ok())
      refuse(status.message());
    const auto metadata = builder.raw_reader()->metadata();
    num_rows_ = metadata->num_rows();
    for (int group = 0; group < metadata->num_row_groups(); ++group) {
      group_begins_.push_back(group == 0 ? 0 : group_begins_.back() + group_rows_.back());
      group_rows_.push_back(metadata->RowGroup(group)->num_rows());
    }
    parquet::ArrowReaderProperties arrow_properties;
    arrow_properties.set_use_threads(false);
    arrow_properties.set_pre_buffer(false);
    find_leaf(*metadata, options);
    arrow_properties.set_batch_size(rows_of_block(*metadata, options));
    auto reader = builder.properties(arrow_properties)->Build();
    if (!reader.ok()) refuse(reader.status().message());
    reader_ = std::move(*reader);
    std::shared_ptr<arrow::Schema> schema;
    if (const auto status = reader_->GetSchema(&schema); !status.ok()) refuse(status.message());
    text_column(*schema, file_, options.text_key);
    if (leaf_ < 0) refuse(fmt::format("column '{}' is nested", options.text_key));
  }

  void find_leaf(const parquet::FileMetaData& metadata, const SourceOptions& options) {
    for (int i = 0; i < metadata.num_columns(); ++i) {
      if (metadata.schema()->Column(i)->path()->ToDotString() == options.text_key) leaf_ = i;
    }
  }

  // As many rows as make about a block, by the sizes that the file states.
  int64_t rows_of_block(const parquet::FileMetaData& metadata, const SourceOptions& options) const {
    if (leaf_ < 0 || num_rows_ == 0) return kFewestRows;
    int64_t bytes = 0;
    for (int group = 0; group < metadata.num_row_groups(); ++group) {
      bytes += metadata.RowGroup(group)->ColumnChunk(leaf_)->total_uncompressed_size();
    }
    const int64_t row_bytes = std::max<int64_t>(1, bytes / num_rows_);
    return std::clamp(options.block_bytes / row_bytes, kFewestRows, kMostRows);
  }

  // Row groups without rows before row `row`, once for each row that begins a group.
  void add_empty_groups(int64_t row, int32_t record, Block& block) const {
    for (size_t group = 0; group < group_rows_.size(); ++group) {
      if (group_rows_[group] == 0 && group_begins_[group] == row) {
        block.notes.push_back(
            {.record = record, .what = Irregularity::kEmptyRowGroup, .count = 1, .line = row + 1});
      }
    }
  }

  Block read_rows(int64_t row) {
    // The last group that begins at or before the row: groups without rows come before it.
    const auto group =
        static_cast<int>(std::ranges::upper_bound(group_begins_, row) - group_begins_.begin()) - 1;
    const int64_t group_end =
        group_begins_[static_cast<size_t>(group)] + group_rows_[static_cast<size_t>(group)];
    std::shared_ptr<arrow::RecordBatch> batch;
    std::string damage;
    try {
      batch = batch_at(group, row, damage);
    } catch (const parquet::ParquetException& error) {
      damage = error.what();
    }
    if (batch) {
      next_row_ = row + batch->num_rows();
      return block_of_column(batch->column(0), row + 1);
    }
    batches_.reset();
    log::warning("[data] {}: rows {} to {} cannot be read: {}", file_.path.string(), row + 1,
                 group_end, damage);
    return block_of_unreadable_rows(group_end - row, row + 1);
  }

  // The batch that begins at `row` of row group `group`; null with the reason in `damage`.
  std::shared_ptr<arrow::RecordBatch> batch_at(int group, int64_t row, std::string& damage) {
    int64_t at = next_row_;
    if (!batches_ || group != open_group_ || at > row) {
      auto opened = reader_->GetRecordBatchReader({group}, {leaf_});
      if (!opened.ok()) {
        damage = opened.status().message();
        return nullptr;
      }
      batches_ = std::move(*opened);
      open_group_ = group;
      at = group_begins_[static_cast<size_t>(group)];
    }
    while (true) {
      std::shared_ptr<arrow::RecordBatch> batch;
      if (const auto status = batches_->ReadNext(&batch); !status.ok()) {
        damage = status.message();
        return nullptr;
      }
      if (!batch || batch->num_rows() == 0) {
        damage = "the row group has fewer rows than it states";
        return nullptr;
      }
      if (at == row) return batch;
      if (at + batch->num_rows() > row) return batch->Slice(row - at);
      at += batch->num_rows();
    }
  }

  DataFile file_;
  int leaf_ = -1;
  int64_t num_rows_ = 0;
  std::vector<int64_t> group_begins_, group_rows_;
  std::unique_ptr<parquet::arrow::FileReader> reader_;
  std::unique_ptr<arrow::RecordBatchReader>
      batches_;  // of row group open_group_, next row next_row_
  int open_group_ = -1;
  int64_t next_row_ = 0;
};

}  // namespace

std::unique_ptr<Source> open_parquet(const DataFile& file, const SourceOptions& options) {
  return std::make_unique<ParquetSource>(file, options);
}

}  // namespace titan::data
