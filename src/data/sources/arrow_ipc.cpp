#include "data/sources/arrow_ipc.h"

#include <arrow/io/file.h>
#include <arrow/ipc/api.h>

#include "base/error.h"
#include "base/log.h"
#include "data/sources/columns.h"

namespace titan::data {
namespace {

std::shared_ptr<arrow::io::ReadableFile> open_readable(const DataFile& file) {
  auto input = arrow::io::ReadableFile::Open(file.path.string());
  if (!input.ok()) {
    throw Error("[data] cannot open {}: {} — check training.dataset_path", file.path.string(),
                input.status().message());
  }
  return *input;
}

[[noreturn]] void refuse_arrow(const DataFile& file, const arrow::Status& status) {
  throw Error(
      "[data] {} cannot be read as Arrow IPC: {} — get or write the file again, or remove it",
      file.path.string(), status.message());
}

arrow::ipc::IpcReadOptions only_column(int column) {
  auto options = arrow::ipc::IpcReadOptions::Defaults();
  options.use_threads = false;
  options.included_fields = {column};
  return options;
}

class ArrowFileSource : public Source {
 public:
  ArrowFileSource(const DataFile& file, const SourceOptions& options)
      : file_(file), input_(open_readable(file)) {
    auto described = arrow::ipc::RecordBatchFileReader::Open(input_);
    if (!described.ok()) refuse_arrow(file_, described.status());
    const int column = text_column(*(*described)->schema(), file_, options.text_key);
    auto reader = arrow::ipc::RecordBatchFileReader::Open(input_, only_column(column));
    if (!reader.ok()) refuse_arrow(file_, reader.status());
    reader_ = *reader;
  }

  Block read(const Place& place) override {
    Block block;
    const auto count = static_cast<int64_t>(reader_->num_record_batches());
    if (place.position >= count) return block;
    auto batch = reader_->ReadRecordBatch(static_cast<int>(place.position));
    if (batch.ok()) {
      block = block_of_column((*batch)->column(0), place.line);
    } else {
      log::warning("[data] {}: record batch {} cannot be read: {}", file_.path.string(),
                   place.position, batch.status().message());
      block.notes.push_back(
          {.record = 0, .what = Irregularity::kTruncatedFile, .count = 1, .line = place.line});
    }
    if (place.position + 1 < count) {
      block.next = Place{.position = place.position + 1,
                         .line = place.line + static_cast<int64_t>(block.records.size())};
    }
    return block;
  }

 private:
  DataFile file_;
  std::shared_ptr<arrow::io::ReadableFile> input_;
  std::shared_ptr<arrow::ipc::RecordBatchFileReader> reader_;
};

class ArrowStreamSource : public Source {
 public:
  ArrowStreamSource(const DataFile& file, const SourceOptions& options)
      : file_(file), input_(open_readable(file)) {
    auto schema = arrow::ipc::ReadSchema(input_.get(), &dictionaries_);
    if (!schema.ok()) refuse_arrow(file_, schema.status());
    schema_ = *schema;
    const int column = text_column(*schema_, file_, options.text_key);
    if (schema_->field(column)->type()->id() == arrow::Type::DICTIONARY) {
      throw Error(
          "[data] {}: column '{}' is dictionary-encoded in an Arrow stream — write it as plain "
          "strings, or as "
          "an Arrow file or Parquet",
          file_.path.string(), options.text_key);
    }
    read_options_ = only_column(column);
    first_batch_ = input_->Tell().ValueOr(0);
  }

  Block read(const Place& place) override {
    Block block;
    const int64_t begin = place.position == 0 ? first_batch_ : place.position;
    const auto failed = [&](const arrow::Status& status) {
      log::warning("[data] {}: the stream is damaged at byte {}: {}", file_.path.string(), begin,
                   status.message());
      block.notes.push_back(
          {.record = 0, .what = Irregularity::kTruncatedFile, .count = 1, .line = place.line});
    };
    if (const auto status = input_->Seek(begin); !status.ok()) {
      failed(status);
      return block;
    }
    auto message = arrow::ipc::ReadMessage(input_.get());
    if (!message.ok()) {
      failed(message.status());
      return block;
    }
    if (!*message) return block;  // the end
    const Place next{.position = input_->Tell().ValueOr(begin), .line = place.line};
    block.next = next;
    if ((*message)->type() != arrow::ipc::MessageType::RECORD_BATCH)
      return block;  // dictionaries of other columns
    auto batch = arrow::ipc::ReadRecordBatch(**message, schema_, &dictionaries_, read_options_);
    if (!batch.ok()) {
      failed(batch.status());
      return block;
    }
    block = block_of_column((*batch)->column(0), place.line);
    block.next = Place{.position = next.position, .line = place.line + (*batch)->num_rows()};
    return block;
  }

 private:
  DataFile file_;
  std::shared_ptr<arrow::io::ReadableFile> input_;
  arrow::ipc::DictionaryMemo dictionaries_;
  std::shared_ptr<arrow::Schema> schema_;
  arrow::ipc::IpcReadOptions read_options_;
  int64_t first_batch_ = 0;
};

}  // namespace

std::unique_ptr<Source> open_arrow_file(const DataFile& file, const SourceOptions& options) {
  return std::make_unique<ArrowFileSource>(file, options);
}

std::unique_ptr<Source> open_arrow_stream(const DataFile& file, const SourceOptions& options) {
  return std::make_unique<ArrowStreamSource>(file, options);
}

}  // namespace titan::data
