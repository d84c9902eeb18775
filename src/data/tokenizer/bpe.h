// Byte-pair encoding of one piece of text: start from single symbols, then join the neighbours
// whose merge has the lowest rank (the leftmost of equals) until none is left. Short pieces are
// cached; long ones take O(n log n).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/vocabulary.h"

namespace titan::data {

// Which ids two neighbours form and how early: a hash table of (left, right).
class PairTable {
 public:
  struct Entry {
    int32_t left, right;
    int32_t rank, result;
  };
  // Later entries of the same pair win. At most 2^30 entries.
  explicit PairTable(std::span<const Entry> entries);
  PairTable() : PairTable(std::span<const Entry>()) {}

  const Entry* find(int32_t left, int32_t right) const {
    for (size_t slot = slot_of(left, right);; slot = (slot + 1) & last_) {
      const Entry& entry = slots_[slot];
      if (entry.left == left && entry.right == right) return &entry;
      if (entry.left < 0) return nullptr;
    }
  }

 private:
  size_t slot_of(int32_t left, int32_t right) const {
    const uint64_t key =
        static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32 | static_cast<uint32_t>(right);
    return static_cast<size_t>(key * 0x9E3779B97F4A7C15u >> shift_);
  }
  std::vector<Entry> slots_;  // left < 0 is free
  size_t last_;               // slots_.size() - 1
  int shift_;
};

// Ids of recent short pieces: one slot per hash value, so a look-up touches one or two cache lines.
class PieceCache {
 public:
  static constexpr size_t kLongestPiece = 24;
  static constexpr size_t kMostIds = 9;

  struct Slot {
    uint8_t length = 0;  // of the piece in bytes; 0: empty
    uint8_t num_ids = 0;
    char piece[kLongestPiece + 2];
    int32_t ids[kMostIds];
  };

  PieceCache() : slots_(kSlots) {}
  // The slot of a piece (REQUIRES 1 to kLongestPiece bytes), which may hold another one.
  Slot& slot(std::string_view piece);

 private:
  static constexpr size_t kSlots = 1 << 15;
  std::vector<Slot> slots_;
};

class Bpe {
 public:
  enum class Alphabet {
    kBytes,       // pieces are raw bytes, each an initial symbol
    kCharacters,  // pieces are UTF-8, each character an initial symbol
  };
  struct Options {
    Alphabet alphabet = Alphabet::kBytes;
    bool ignore_merges = false;  // a piece that is a token is that token, whatever the merges say
    bool byte_fallback =
        false;  // kCharacters: an unknown character becomes its bytes' tokens <0x00> … <0xFF>
    bool fuse_unk = false;          // unknown characters in a row become one unk
    std::optional<int32_t> unk;     // without it an unknown character is dropped
    std::string continuing_prefix;  // kCharacters: before every symbol of a piece but the first
    std::string end_suffix;         // kCharacters: after the last symbol of a piece
  };

  // `vocabulary` holds bytes for kBytes and text for kCharacters, and must outlive this.
  Bpe(const Vocabulary& vocabulary, PairTable pairs, Options options);

  // Appends the ids of a piece. `cache` belongs to the calling thread for the time of the call.
  void encode(std::string_view piece, std::vector<int32_t>& ids, PieceCache& cache) const;

 private:
  void encode_uncached(std::string_view piece, std::vector<int32_t>& ids) const;
  void initial_symbols(std::string_view piece, std::vector<int32_t>& symbols) const;
  bool add_bytes(std::string_view character,
                 std::vector<int32_t>& symbols) const;  // false: not all are tokens

  const Vocabulary& vocabulary_;
  PairTable pairs_;
  Options options_;
  std::array<int32_t, 256>
      byte_ids_;  // kBytes: token of each byte; kCharacters: token <0xXX>; -1: none
};

// Joins `symbols` in place by the pairs' ranks. Exposed for tests: both ways give equal results for
// any input.
void merge_short(const PairTable& pairs,
                 std::vector<int32_t>& symbols);  // O(n²), no allocation to speak of
void merge_long(const PairTable& pairs, std::vector<int32_t>& symbols);  // O(n log n)

// Caches handed to one call at a time, so that concurrent calls never share one.
class CachePool {
 public:
  class Lease {
   public:
    explicit Lease(const CachePool& pool);
    ~Lease();
    Lease(const Lease&) = delete;
    Lease& operator=(const Lease&) = delete;
    PieceCache& cache() { return *cache_; }

   private:
    const CachePool& pool_;
    std::unique_ptr<PieceCache> cache_;
  };

 private:
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<PieceCache>> free_;
};

}  // namespace titan::data
