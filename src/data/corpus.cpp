#include "data/corpus.h"

#include <algorithm>

#include "base/error.h"
#include "base/hash.h"

namespace titan::data {
namespace {

constexpr size_t kOpenFiles = 8;
// Starts kept in memory; beyond it every second one is forgotten (a find then walks a little
// further).
constexpr size_t kMostStarts = 1 << 16;

uint64_t fingerprint_of(const std::vector<DataFile>& files, const SourceOptions& options) {
  hash::Xxh3 hash;
  hash.update(fmt::format("{}\n{}\n", options.text_key, static_cast<int>(options.text_document)));
  for (const auto& file : files) hash.update(fmt::format("{}\n{}\n", file.name, file.bytes));
  return hash.digest();
}

}  // namespace

Corpus::Corpus(std::vector<DataFile> files, SourceOptions options, int64_t cache_bytes)
    : files_(std::move(files)),
      options_(std::move(options)),
      cache_limit_(cache_bytes),
      fingerprint_(fingerprint_of(files_, options_)) {
  TITAN_CHECK(!files_.empty(), "a corpus has files");
  starts_.emplace(0, Start{});
}

std::optional<int64_t> Corpus::size() const {
  const std::lock_guard lock(mutex_);
  return size_;
}

std::vector<Note> Corpus::loose_notes() const {
  const std::lock_guard lock(mutex_);
  return loose_notes_;
}

void Corpus::add_start(const BlockStart& start) {
  const std::lock_guard lock(mutex_);
  if (start.file < 0 || start.file >= static_cast<int64_t>(files_.size()) || start.record < 0)
    return;
  starts_.try_emplace(start.record, Start{.file = start.file, .place = start.place, .carried = {}});
}

Source& Corpus::source(int64_t file) {
  if (const auto found = sources_.find(file); found != sources_.end()) {
    open_order_.remove(file);
    open_order_.push_front(file);
    return *found->second;
  }
  if (sources_.size() >= kOpenFiles) {
    sources_.erase(open_order_.back());
    open_order_.pop_back();
  }
  auto& opened = sources_[file];
  open_order_.push_front(file);
  opened = open_source(files_[static_cast<size_t>(file)], options_);
  return *opened;
}

void Corpus::remember(int64_t record, Start start) {
  starts_.insert_or_assign(record, std::move(start));
  if (starts_.size() <= kMostStarts) return;
  bool odd = false;
  std::erase_if(starts_, [&](const auto& entry) {
    odd = !odd;
    return !odd && entry.first != 0;  // the first entry, record 0, stays
  });
}

std::shared_ptr<const Block> Corpus::load(int64_t record, const Start& start) {
  for (auto cached = cache_.begin(); cached != cache_.end(); ++cached) {
    const auto& known = cached->start;
    if (known.record == record && known.file == start.file &&
        known.place.position == start.place.position) {
      cache_.splice(cache_.begin(), cache_, cached);
      return cache_.front().block;
    }
  }
  auto block = std::make_shared<Block>(source(start.file).read(start.place));
  block->notes.insert(block->notes.begin(), start.carried.begin(), start.carried.end());
  cached_bytes_ += block->bytes;
  cache_.push_front({{.record = record, .file = start.file, .place = start.place}, block});
  while (cached_bytes_ > cache_limit_ && cache_.size() > 1) {
    cached_bytes_ -= cache_.back().block->bytes;
    cache_.pop_back();
  }
  return block;
}

std::optional<FoundRecord> Corpus::find(int64_t number) {
  const std::lock_guard lock(mutex_);
  if (size_ && number >= *size_) return std::nullopt;
  auto at = std::prev(starts_.upper_bound(number));
  int64_t record = at->first;
  Start start = at->second;
  while (true) {
    auto block = load(record, start);
    const auto count = static_cast<int64_t>(block->records.size());
    if (number < record + count) {
      return FoundRecord{.block = std::move(block),
                         .index = number - record,
                         .start = {.record = record, .file = start.file, .place = start.place}};
    }
    Start next;
    next.file = block->next ? start.file : start.file + 1;
    next.place = block->next.value_or(Place{});
    if (count == 0) {
      next.carried = block->notes;
      for (auto& note : next.carried) {
        if (note.file < 0) note.file = start.file;
      }
    }
    if (next.file == static_cast<int64_t>(files_.size())) {
      size_ = record + count;
      loose_notes_ = std::move(next.carried);
      return std::nullopt;
    }
    record += count;
    remember(record, next);
    start = std::move(next);
  }
}

}  // namespace titan::data
