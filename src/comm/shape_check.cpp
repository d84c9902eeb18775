#include "comm/shape_check.h"

#include <ATen/core/grad_mode.h>
#include <c10/core/ScalarType.h>

#include <algorithm>
#include <array>
#include <string_view>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "base/error.h"

namespace titan::comm {
namespace {

using at::Tensor;

// Collectives travel by their place here.
constexpr std::array<std::string_view, 6> kCollectives = {
    "all-reduce", "all-gather", "reduce-scatter", "all-to-all", "broadcast", "message"};
constexpr int kAnnouncementTag = 1 << 30;  // above every message's

// [3] int64: collective, elements, dtype.
Tensor show_of(std::string_view collective, const Tensor& x) {
  const auto* const at = std::ranges::find(kCollectives, collective);
  TITAN_CHECK(at != kCollectives.end(), "a collective called {}", collective);
  return at::tensor({static_cast<int64_t>(at - kCollectives.begin()), x.numel(),
                     static_cast<int64_t>(x.scalar_type())},
                    at::kLong);
}

std::string text_of_show(const Tensor& show) {
  const auto* const values = show.const_data_ptr<int64_t>();
  return fmt::format("{} of {} {}", kCollectives.at(static_cast<size_t>(values[0])), values[1],
                     c10::toString(static_cast<c10::ScalarType>(values[2])));
}

std::string difference(int64_t rank, const Tensor& theirs, const Tensor& mine) {
  return fmt::format("rank {} of the axis brings {}, this rank {}", rank, text_of_show(theirs),
                     text_of_show(mine));
}

}  // namespace

std::optional<std::string> ShapeCheck::compare(const char* collective, const Tensor& x) {
  const Tensor mine = show_of(collective, x);
  if (!seen_.insert(text_of_show(mine)).second) return std::nullopt;
  const int size = backend_.getSize();
  std::vector<std::vector<Tensor>> gathered, dealt;
  std::vector<Tensor> in{mine}, all{at::empty({size, 3}, at::kLong)};
  if (backend_.getRank() == 0) {
    gathered.emplace_back();
    for (int rank = 0; rank < size; ++rank) gathered[0].push_back(at::empty_like(mine));
  }
  backend_.gather(gathered, in, {})->wait();
  if (backend_.getRank() == 0) {
    dealt.emplace_back(static_cast<size_t>(size), at::stack(gathered[0]));
  }
  backend_.scatter(all, dealt, {})->wait();
  for (int rank = 0; rank < size; ++rank) {
    const Tensor theirs = all[0][rank];
    if (!theirs.equal(mine)) return difference(rank, theirs, mine);
  }
  return std::nullopt;
}

ShapeCheck::Announcement ShapeCheck::announce(const Tensor& x, int64_t to) {
  if (!announced_to_.insert(to).second) return {};
  Announcement announcement{show_of("message", x), {}};
  std::vector<Tensor> message{announcement.show};
  announcement.work = backend_.send(message, static_cast<int>(to), kAnnouncementTag);
  return announcement;
}

std::optional<std::string> ShapeCheck::expect(const Tensor& x, int64_t from) {
  if (!heard_from_.insert(from).second) return std::nullopt;
  const Tensor mine = show_of("message", x);
  std::vector<Tensor> message{at::empty_like(mine)};
  backend_.recv(message, static_cast<int>(from), kAnnouncementTag)->wait();
  if (message[0].equal(mine)) return std::nullopt;
  return difference(from, message[0], mine);
}

std::unique_ptr<ShapeCheck> make_shape_check(c10d::Backend& backend) {
  if (backend.getBackendName() != "gloo") return nullptr;
  return std::make_unique<ShapeCheck>(backend);
}

}  // namespace titan::comm
