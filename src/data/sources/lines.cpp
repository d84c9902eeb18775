#include "data/sources/lines.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "base/text.h"

namespace titan::data {
namespace {

constexpr size_t kLongestRecord = 1ull << 30;  // beyond it the file is not what its name says
constexpr std::string_view kUtf8Mark = "\xEF\xBB\xBF";

bool is_blank(std::string_view line) {
  return std::ranges::all_of(line, [](char c) { return c == ' ' || (c >= '\t' && c <= '\r'); });
}

// Cuts the bytes of a block into records. `size` bytes count; `ends` says that nothing follows them
// in the file.
class Cutter {
 public:
  Cutter(std::string_view data, int64_t first_line, RecordState state, TextDocument unit)
      : data_(data), line_(first_line), state_(state), unit_(unit) {}

  void skip_byte_order_mark() {
    note(Irregularity::kByteOrderMark);
    at_ = kUtf8Mark.size();
    kept_notes_ = notes_.size();
  }

  // Returns the number of bytes that whole records (and the blank lines around them) take.
  size_t cut(bool ends, bool damaged, Block& block) {
    size_t used = 0;
    int64_t used_line = line_;
    size_t open = std::string_view::npos;  // start of the paragraph that is being read
    int64_t open_line = 0;
    while (at_ < data_.size()) {
      const void* found = std::memchr(data_.data() + at_, '\n', data_.size() - at_);
      if (!found && (!ends || damaged))
        break;  // an unfinished line: read on, or lost to the damage
      const size_t end = found ? static_cast<size_t>(static_cast<const char*>(found) - data_.data())
                               : data_.size();
      std::string_view line = data_.substr(at_, end - at_);
      const size_t begin = at_;
      at_ = found ? end + 1 : end;
      if (found && !line.empty() && line.back() == '\r') {
        line.remove_suffix(1);
        note(Irregularity::kCrlf);
      }
      const bool blank = is_blank(line);
      if (blank && (found || !line.empty())) note(Irregularity::kBlankLine);
      if (!blank && !found) note(Irregularity::kNoFinalNewline);
      if (unit_ == TextDocument::kLine) {
        if (!blank) add(line, line_);
        open = std::string_view::npos;
      } else if (!blank && open == std::string_view::npos) {
        open = begin;
        open_line = line_;
      } else if (blank && open != std::string_view::npos) {
        add(trim_line_end(data_.substr(open, begin - open)), open_line);
        open = std::string_view::npos;
      }
      ++line_;
      if (open == std::string_view::npos) {
        used = at_;
        used_line = line_;
        kept_notes_ = notes_.size();
      }
    }
    if (ends && open != std::string_view::npos) {
      add(trim_line_end(data_.substr(open, at_ - open)), open_line);
      used = at_;
      used_line = line_;
      kept_notes_ = notes_.size();
    }
    if (ends && damaged) used = data_.size();
    line_ = used_line;
    notes_.resize(std::min(notes_.size(), kept_notes_));
    block.records = std::move(records_);
    block.notes = std::move(notes_);
    return used;
  }
  int64_t line() const { return line_; }

 private:
  static std::string_view trim_line_end(std::string_view text) {
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
    return text;
  }
  void add(std::string_view bytes, int64_t line) {
    records_.push_back({.bytes = bytes, .line = line, .state = state_});
  }
  // Belongs to the record that comes next.
  void note(Irregularity what) {
    const auto record = static_cast<int32_t>(records_.size());
    if (!notes_.empty() && notes_.back().what == what && notes_.back().record == record) {
      ++notes_.back().count;
    } else {
      notes_.push_back({.record = record, .what = what, .count = 1, .line = line_});
    }
  }

  std::string_view data_;
  size_t at_ = 0;
  int64_t line_;
  RecordState state_;
  TextDocument unit_;
  std::vector<Record> records_;
  std::vector<Note> notes_;
  size_t kept_notes_ = 0;
};

Note empty_file_note() {
  return {.record = 0, .what = Irregularity::kEmptyFile, .count = 1, .line = 0};
}

// Notes behind the last record of a block belong to that record.
void settle_notes(Block& block) {
  if (block.records.empty()) return;
  const auto last = static_cast<int32_t>(block.records.size()) - 1;
  for (auto& note : block.notes) note.record = std::min(note.record, last);
}

}  // namespace

LineSource::LineSource(const DataFile& file, const SourceOptions& options)
    : file_(file),
      unit_(file.format == Format::kJsonLines ? TextDocument::kLine : options.text_document),
      block_bytes_(static_cast<size_t>(options.block_bytes)),
      bytes_(open_bytes(file.path, file.compression)) {}

std::string LineSource::content(int64_t offset, size_t size) {
  std::string data;
  if (tail_offset_ >= 0 && tail_offset_ == offset) {
    if (tail_.size() > size) tail_.resize(size);
    data = std::move(tail_);
  }
  tail_offset_ = -1;
  size_t have = data.size();
  data.resize(size);
  if (have < size) {
    have += bytes_->read(offset + static_cast<int64_t>(have), {data.data() + have, size - have});
  }
  data.resize(have);
  return data;
}

void LineSource::check_start(std::string_view begin) const {
  if (begin.starts_with("\xFF\xFE") || begin.starts_with("\xFE\xFF")) {
    throw Error(
        "[data] {} is UTF-16 text, UTF-8 is needed — convert it: iconv -f UTF-16 -t UTF-8 '{}' > "
        "utf8.txt",
        file_.path.string(), file_.path.string());
  }
  if (file_.format == Format::kJsonLines) {
    if (begin.starts_with(kUtf8Mark)) begin.remove_prefix(kUtf8Mark.size());
    if (text::trim(begin.substr(0, 4096)).starts_with('[')) {
      throw Error(
          "[data] {} is one JSON array, JSON lines (an object per line) are needed — convert it: "
          "jq -c '.[]' '{}' > documents.jsonl",
          file_.path.string(), file_.path.string());
    }
  }
}

void LineSource::refuse_long_record(int64_t line) const {
  throw Error(
      "[data] {}:{}: a document of more than 1 GiB — split the file, or choose another "
      "data.text_document "
      "(line, paragraph, file)",
      file_.path.string(), line);
}

Block LineSource::read_whole_file() {
  auto data = std::make_shared<std::string>(content(0, block_bytes_));
  for (size_t size = block_bytes_; data->size() == size; size *= 2) {
    if (size >= kLongestRecord) refuse_long_record(1);
    std::string more = content(static_cast<int64_t>(size), size);
    data->resize(size);
    *data += more;
  }
  Block block;
  std::string_view text(*data);
  check_start(text);
  if (text.empty() && bytes_->damage().empty()) {
    block.notes.push_back(empty_file_note());
    return block;
  }
  if (text.starts_with(kUtf8Mark)) {
    block.notes.push_back(
        {.record = 0, .what = Irregularity::kByteOrderMark, .count = 1, .line = 1});
    text.remove_prefix(kUtf8Mark.size());
  }
  int64_t line = 1, crlf = 0, crlf_line = 0;
  for (size_t at = text.find('\n'); at != std::string_view::npos;
       at = text.find('\n', at + 1), ++line) {
    if (at > 0 && text[at - 1] == '\r' && crlf++ == 0) crlf_line = line;
  }
  if (crlf > 0) {
    block.notes.push_back(
        {.record = 0, .what = Irregularity::kCrlf, .count = crlf, .line = crlf_line});
  }
  if (!bytes_->damage().empty()) {
    block.notes.push_back(
        {.record = 0, .what = Irregularity::kTruncatedFile, .count = 1, .line = line});
  }
  block.records.push_back({.bytes = text, .line = 1, .state = RecordState::kText});
  block.bytes = static_cast<int64_t>(data->size());
  block.storage = std::move(data);
  return block;
}

Block LineSource::read(const Place& place) {
  if (unit_ == TextDocument::kFile) return read_whole_file();
  const auto state = file_.format == Format::kJsonLines ? RecordState::kJson : RecordState::kText;
  for (size_t size = block_bytes_;; size *= 2) {
    auto data = std::make_shared<std::string>(content(place.position, size));
    const std::string_view bytes(*data);
    const bool ends = bytes.size() < size;
    const bool damaged = ends && !bytes_->damage().empty();
    if (place.position == 0) check_start(bytes);

    Block block;
    Cutter cutter(bytes, place.line, state, unit_);
    if (place.position == 0 && bytes.starts_with(kUtf8Mark)) cutter.skip_byte_order_mark();
    const size_t used = cutter.cut(ends, damaged, block);
    if (used == 0 && !ends) {  // no record is whole yet
      if (size >= kLongestRecord) refuse_long_record(place.line);
      data->resize(size);
      tail_ = std::move(*data);
      tail_offset_ = place.position;
      continue;
    }
    if (place.position == 0 && bytes.empty() && !damaged) block.notes.push_back(empty_file_note());
    if (damaged) {
      block.notes.push_back({.record = static_cast<int32_t>(block.records.size()),
                             .what = Irregularity::kTruncatedFile,
                             .count = 1,
                             .line = cutter.line()});
    }
    settle_notes(block);
    if (!ends) {
      block.next =
          Place{.position = place.position + static_cast<int64_t>(used), .line = cutter.line()};
      tail_ = data->substr(used, bytes.size() - used);
      tail_offset_ = block.next->position;
    }
    block.bytes = static_cast<int64_t>(data->size() + block.records.size() * sizeof(Record));
    block.storage = std::move(data);
    return block;
  }
}

}  // namespace titan::data
