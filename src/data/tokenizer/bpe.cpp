#include "data/tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/hash.h"
#include "data/tokenizer/unicode.h"

namespace titan::data {
namespace {

// From this many symbols on the heap is faster than looking for the minimum each time.
constexpr size_t kLongPiece = 48;

constexpr int32_t kNoRank = std::numeric_limits<int32_t>::max();

std::string byte_token(int byte) { return fmt::format("<0x{:02X}>", byte); }

}  // namespace

PairTable::PairTable(std::span<const Entry> entries) {
  const size_t wanted = std::bit_ceil(std::max<size_t>(entries.size() * 2, 16));
  slots_.assign(wanted, Entry{-1, -1, 0, 0});
  last_ = wanted - 1;
  shift_ = 64 - std::countr_zero(wanted);
  for (const Entry& entry : entries) {
    size_t slot = slot_of(entry.left, entry.right);
    while (slots_[slot].left >= 0 &&
           !(slots_[slot].left == entry.left && slots_[slot].right == entry.right)) {
      slot = (slot + 1) & last_;
    }
    slots_[slot] = entry;
  }
}

PieceCache::Slot& PieceCache::slot(std::string_view piece) {
  return slots_[hash::xxh3(piece) & (kSlots - 1)];
}

void merge_short(const PairTable& pairs, std::vector<int32_t>& symbols) {
  size_t n = symbols.size();
  if (n < 2) return;
  std::vector<int32_t> ranks(n - 1);  // ranks[i]: of the pair (i, i + 1)
  const auto rank_at = [&](size_t i) {
    const auto* entry = pairs.find(symbols[i], symbols[i + 1]);
    return entry ? entry->rank : kNoRank;
  };
  for (size_t i = 0; i + 1 < n; ++i) ranks[i] = rank_at(i);
  while (n > 1) {
    const size_t best = static_cast<size_t>(
        std::min_element(ranks.begin(), ranks.begin() + (n - 1)) - ranks.begin());
    if (ranks[best] == kNoRank) break;
    symbols[best] = pairs.find(symbols[best], symbols[best + 1])->result;
    std::copy(symbols.begin() + best + 2, symbols.begin() + n, symbols.begin() + best + 1);
    std::copy(ranks.begin() + best + 1, ranks.begin() + (n - 1), ranks.begin() + best);
    --n;
    if (best + 1 < n) ranks[best] = rank_at(best);
    if (best > 0) ranks[best - 1] = rank_at(best - 1);
  }
  symbols.resize(n);
}

void merge_long(const PairTable& pairs, std::vector<int32_t>& symbols) {
  struct Candidate {
    int32_t rank;
    uint32_t position;
    bool operator<(const Candidate& other) const {  // std heaps keep the largest on top
      return rank != other.rank ? rank > other.rank : position > other.position;
    }
  };
  const size_t n = symbols.size();
  TITAN_CHECK(n < std::numeric_limits<uint32_t>::max(), "a piece of {} symbols", n);
  const auto end = static_cast<uint32_t>(n);
  std::vector<uint32_t> next(n), previous(n);
  std::vector<Candidate> heap;
  const auto consider = [&](uint32_t left) {
    if (left == end || next[left] == end) return false;
    const auto* entry = pairs.find(symbols[left], symbols[next[left]]);
    if (entry) heap.push_back({entry->rank, left});
    return entry != nullptr;
  };
  for (uint32_t i = 0; i < end; ++i) {
    next[i] = i + 1;
    previous[i] = i == 0 ? end : i - 1;
  }
  for (uint32_t i = 0; i + 1 < end; ++i) consider(i);
  std::make_heap(heap.begin(), heap.end());
  while (!heap.empty()) {
    const Candidate top = heap.front();
    std::pop_heap(heap.begin(), heap.end());
    heap.pop_back();
    const uint32_t left = top.position;
    if (symbols[left] < 0 || next[left] == end) continue;
    const uint32_t right = next[left];
    const auto* entry = pairs.find(symbols[left], symbols[right]);
    if (!entry || entry->rank != top.rank) continue;  // the neighbours have changed since
    symbols[left] = entry->result;
    symbols[right] = -1;
    next[left] = next[right];
    if (next[left] != end) previous[next[left]] = left;
    if (consider(left)) std::push_heap(heap.begin(), heap.end());
    if (consider(previous[left])) std::push_heap(heap.begin(), heap.end());
  }
  symbols.erase(std::remove(symbols.begin(), symbols.end(), -1), symbols.end());
}

Bpe::Bpe(const Vocabulary& vocabulary, PairTable pairs, Options options)
    : vocabulary_(vocabulary), pairs_(std::move(pairs)), options_(std::move(options)) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string token = options_.alphabet == Alphabet::kBytes
                                  ? std::string(1, static_cast<char>(byte))
                                  : byte_token(byte);
    byte_ids_[byte] = vocabulary_.find(token).value_or(-1);
  }
}

void Bpe::encode(std::string_view piece, std::vector<int32_t>& ids, PieceCache& cache) const {
  if (piece.empty()) return;
  if (piece.size() > PieceCache::kLongestPiece) return encode_uncached(piece, ids);
  PieceCache::Slot& slot = cache.slot(piece);
  if (slot.length == piece.size() && std::memcmp(slot.piece, piece.data(), piece.size()) == 0) {
    ids.insert(ids.end(), slot.ids, slot.ids + slot.num_ids);
    return;
  }
  const size_t before = ids.size();
  encode_uncached(piece, ids);
  const size_t added = ids.size() - before;
  if (added > PieceCache::kMostIds) return;
  slot.length = static_cast<uint8_t>(piece.size());
  slot.num_ids = static_cast<uint8_t>(added);
  std::memcpy(slot.piece, piece.data(), piece.size());
  std::copy(ids.begin() + static_cast<std::ptrdiff_t>(before), ids.end(), slot.ids);
}

void Bpe::encode_uncached(std::string_view piece, std::vector<int32_t>& ids) const {
  if (options_.ignore_merges) {
    if (const auto id = vocabulary_.find(piece)) {
      ids.push_back(*id);
      return;
    }
  }
  std::vector<int32_t> symbols;
  symbols.reserve(piece.size());
  initial_symbols(piece, symbols);
  if (symbols.size() < kLongPiece) {
    merge_short(pairs_, symbols);
  } else {
    merge_long(pairs_, symbols);
  }
  ids.insert(ids.end(), symbols.begin(), symbols.end());
}

// The order of unknown characters and byte tokens is the reference's: an unk is held back until the
// next known symbol.
void Bpe::initial_symbols(std::string_view piece, std::vector<int32_t>& symbols) const {
  bool pending_unk = false;
  const auto add = [&](int32_t id) {
    if (pending_unk) symbols.push_back(*options_.unk);
    pending_unk = false;
    symbols.push_back(id);
  };
  const auto add_unknown = [&](std::string_view character) {
    if (options_.byte_fallback && add_bytes(character, symbols)) return;
    if (!options_.unk) return;
    if (pending_unk && !options_.fuse_unk) symbols.push_back(*options_.unk);
    pending_unk = true;
  };
  const bool decorated = !options_.continuing_prefix.empty() || !options_.end_suffix.empty();
  std::string spelled;
  for (size_t i = 0; i < piece.size();) {
    if (options_.alphabet == Alphabet::kBytes) {
      const int32_t id = byte_ids_[static_cast<unsigned char>(piece[i])];
      id >= 0 ? add(id) : add_unknown(piece.substr(i, 1));
      ++i;
      continue;
    }
    std::string_view character = piece.substr(i, unicode::length(piece[i]));
    i += character.size();
    if (decorated) {
      spelled = i > character.size() ? options_.continuing_prefix : "";
      spelled.append(character);
      if (i == piece.size()) spelled.append(options_.end_suffix);
      character = spelled;
    }
    const auto id = vocabulary_.find(character);
    id ? add(*id) : add_unknown(character);
  }
  if (pending_unk) symbols.push_back(*options_.unk);
}

bool Bpe::add_bytes(std::string_view character, std::vector<int32_t>& symbols) const {
  if (options_.alphabet == Alphabet::kBytes) return false;
  const auto id_of = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
  if (std::any_of(character.begin(), character.end(), [&](char byte) { return id_of(byte) < 0; }))
    return false;
  for (const char byte : character) symbols.push_back(id_of(byte));
  return true;
}

CachePool::Lease::Lease(const CachePool& pool) : pool_(pool) {
  {
    const std::lock_guard lock(pool_.mutex_);
    if (!pool_.free_.empty()) {
      cache_ = std::move(pool_.free_.back());
      pool_.free_.pop_back();
    }
  }
  if (!cache_) cache_ = std::make_unique<PieceCache>();
}

CachePool::Lease::~Lease() {
  const std::lock_guard lock(pool_.mutex_);
  pool_.free_.push_back(std::move(cache_));
}

}  // namespace titan::data
