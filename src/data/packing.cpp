#include "data/packing.h"

#include <algorithm>

#include "base/error.h"
#include "data/documents.h"

namespace titan::data {

PackedStream::PackedStream(int64_t stream, const PackingOptions& options, Corpus& corpus,
                           const Tokenizer& tokenizer)
    : stream_(stream), options_(options), corpus_(corpus), tokenizer_(tokenizer) {
  next_.record = first_record(0);
  exhausted_ = options_.num_epochs && *options_.num_epochs <= 0;
}

int64_t PackedStream::first_record(int64_t epoch) const {
  const int64_t v = options_.num_streams;
  return ((stream_ - epoch) % v + v) % v;
}

void PackedStream::seek(const StreamPosition& position) {
  buffer_.clear();
  starts_.clear();
  head_ = 0;
  next_ = position;
  last_ = {};
  last_tokens_ = 0;
  tokens_in_epoch_ = 0;
  empty_epochs_ = 0;
  exhausted_ = options_.num_epochs && position.epoch >= *options_.num_epochs;
  corpus_.add_start(position.start);
}

StreamPosition PackedStream::position() const {
  if (pending() == 0) return next_;
  StreamPosition position = last_;
  position.used = last_tokens_ - pending();
  return position;
}

void PackedStream::tokenize(TextExtractor& extractor, const FoundRecord& found,
                            DataReport* report) {
  const bool count = report && options_.count_irregularities && next_.epoch == 0;
  if (count) add_notes(corpus_, found, *report);
  const auto& file = corpus_.files()[static_cast<size_t>(found.start.file)];
  const auto text = extractor.text(found.record(), file.name, count ? report : nullptr);
  if (!text) return;
  for (const int32_t id : tokenizer_.document_prefix()) buffer_.push_back(id);
  tokenizer_.encode(*text, buffer_);
  for (const int32_t id : tokenizer_.document_suffix()) buffer_.push_back(id);
  if (report) {
    ++report->documents;
    report->text_bytes += static_cast<int64_t>(text->size());
  }
}

void PackedStream::begin_epoch(DataReport& report) {
  if (stream_ == 0 && next_.epoch == 0 && options_.count_irregularities) {
    add_loose_notes(corpus_, report);
  }
  empty_epochs_ = tokens_in_epoch_ == 0 ? empty_epochs_ + 1 : 0;
  tokens_in_epoch_ = 0;
  ++next_.epoch;
  next_.record = first_record(next_.epoch);
  next_.used = 0;
  exhausted_ = options_.num_epochs && next_.epoch >= *options_.num_epochs;
  if (!options_.num_epochs && empty_epochs_ > options_.num_streams) {
    throw Error(
        "[data] no document with text in {} ({} records, {} files) — check training.dataset_path "
        "and "
        "data.text_key; titan data info says what is there",
        corpus_.files()[0].path.string(), corpus_.size().value_or(0), corpus_.files().size());
  }
}

bool PackedStream::append_document(TextExtractor& extractor, DataReport& report) {
  while (!exhausted_) {
    const auto found = corpus_.find(next_.record);
    if (!found) {
      begin_epoch(report);
      continue;
    }
    report.epoch = std::max(report.epoch, next_.epoch);
    const size_t before = buffer_.size();
    // A document of which tokens are used was counted when it was read first.
    tokenize(extractor, *found, next_.used > 0 ? nullptr : &report);
    const auto made = static_cast<int64_t>(buffer_.size() - before);
    if (next_.used > made) {
      throw Error(
          "[data] {}:{} has {} tokens, the checkpoint used {} of it: the data or the tokenizer "
          "changed — "
          "restore them, or start the data anew with checkpoint.exclude_from_loading = "
          "[\"dataloader\"]",
          corpus_.files()[static_cast<size_t>(found->start.file)].path.string(),
          found->record().line, made, next_.used);
    }
    if (next_.used == 0) report.tokens += made;
    tokens_in_epoch_ += made;
    last_ = next_;
    last_.start = found->start;
    last_tokens_ = made;
    buffer_.erase(buffer_.begin() + static_cast<std::ptrdiff_t>(before),
                  buffer_.begin() + static_cast<std::ptrdiff_t>(before) +
                      static_cast<std::ptrdiff_t>(next_.used));
    next_.record += options_.num_streams;
    next_.used = 0;
    next_.start = found->start;
    if (buffer_.size() > before) {
      starts_.push_back(before);
      return true;
    }
  }
  return false;
}

// Forgets the tokens before head_.
void PackedStream::drop_used() {
  buffer_.erase(buffer_.begin(), buffer_.begin() + static_cast<std::ptrdiff_t>(head_));
  std::erase_if(starts_, [&](size_t start) { return start < head_; });
  for (size_t& start : starts_) start -= head_;
  head_ = 0;
}

int64_t PackedStream::next(TextExtractor& extractor, int32_t* out, int32_t* documents,
                           DataReport& report) {
  const int64_t wanted = options_.seq_len + 1;
  if (head_ > 0 && pending() < wanted) drop_used();
  while (pending() < wanted && append_document(extractor, report)) {
  }
  const int64_t given = std::min(pending(), wanted);
  std::copy_n(buffer_.begin() + static_cast<std::ptrdiff_t>(head_), given, out);
  auto start = std::ranges::upper_bound(starts_, head_);
  int32_t document = 0;
  for (int64_t i = 0; i < given; ++i) {
    if (start != starts_.end() && *start == head_ + static_cast<size_t>(i)) {
      ++document;
      ++start;
    }
    documents[i] = document;
  }
  head_ += static_cast<size_t>(given);
  if (pending() == 0) {
    if (buffer_.capacity() > (1u << 22)) buffer_.shrink_to_fit();
    drop_used();
  }
  if (given == 1) {
    ++report.unlabelled_tokens;
    return 0;
  }
  return given;
}

}  // namespace titan::data
