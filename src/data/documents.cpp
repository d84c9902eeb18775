#include "data/documents.h"

#include <algorithm>

#include "fmt/format.h"

namespace titan::data {
namespace {

void add_note(const Corpus& corpus, const Note& note, int64_t file, DataReport& report) {
  const auto& name = corpus.files()[static_cast<size_t>(note.file < 0 ? file : note.file)].name;
  report.add(note.what, note.count, fmt::format("{}:{}", name, note.line));
}

}  // namespace

void add_notes(const Corpus& corpus, const FoundRecord& found, DataReport& report) {
  const auto& notes = found.block->notes;
  const auto index = static_cast<int32_t>(found.index);
  auto note = std::ranges::lower_bound(notes, index, {}, &Note::record);
  for (; note != notes.end() && note->record == index; ++note)
    add_note(corpus, *note, found.start.file, report);
}

void add_loose_notes(const Corpus& corpus, DataReport& report) {
  for (const auto& note : corpus.loose_notes()) add_note(corpus, note, 0, report);
}

DocumentReader::DocumentReader(Dataset dataset)
    : dataset_(std::move(dataset)),
      corpus_(dataset_.files, dataset_.options, 16 << 20),
      extractor_(dataset_.options.text_key) {
  for (const auto& file : dataset_.skipped) {
    report_.add(Irregularity::kSkippedFile, 1, fmt::format("{}: {}", file.name, file.reason));
  }
}

std::optional<DocumentReader::Document> DocumentReader::next() {
  while (!ended_) {
    found_ = corpus_.find(record_);
    if (!found_) {
      ended_ = true;
      add_loose_notes(corpus_, report_);
      break;
    }
    ++record_;
    add_notes(corpus_, *found_, report_);
    const std::string_view file = corpus_.files()[static_cast<size_t>(found_->start.file)].name;
    const auto text = extractor_.text(found_->record(), file, &report_);
    if (!text) continue;
    ++report_.documents;
    report_.text_bytes += static_cast<int64_t>(text->size());
    return Document{.text = *text, .file = file, .line = found_->record().line};
  }
  return std::nullopt;
}

}  // namespace titan::data
