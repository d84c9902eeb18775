#include "data/tokenizer/vocabulary.h"

#include "base/hash.h"

namespace titan::data {

size_t Vocabulary::slot_of(std::string_view token) const {
  const size_t last = slots_.size() - 1;
  for (size_t slot = hash::xxh3(token) & last;; slot = (slot + 1) & last) {
    if (slots_[slot] < 0 || this->token(slots_[slot]) == token) return slot;
  }
}

void Vocabulary::grow() {
  slots_.assign(slots_.empty() ? 1024 : slots_.size() * 2, -1);
  for (int32_t id = 0; id < size(); ++id) {
    if (contains(id)) slots_[slot_of(token(id))] = id;
  }
}

bool Vocabulary::add(std::string_view token, int32_t id) {
  if (static_cast<size_t>(count_) * 2 >= slots_.size()) grow();
  const size_t slot = slot_of(token);
  if (slots_[slot] >= 0 || contains(id)) return false;
  if (id >= size()) spans_.resize(static_cast<size_t>(id) + 1);
  spans_[id] = {static_cast<int64_t>(block_.size()), static_cast<int32_t>(token.size())};
  block_.append(token);
  slots_[slot] = id;
  ++count_;
  return true;
}

std::optional<int32_t> Vocabulary::find(std::string_view token) const {
  if (slots_.empty()) return std::nullopt;
  const int32_t id = slots_[slot_of(token)];
  return id < 0 ? std::nullopt : std::optional(id);
}

}  // namespace titan::data
