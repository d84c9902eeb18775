// Whether the ranks of a Gloo group bring tensors of one size to a collective. Gloo would end the
// process when they do not: the exception arises on its own thread. So before a group's first
// collective of each kind and size its ranks show each other what they bring; sizes that were shown
// once are not shown again, and a training step costs nothing more.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace c10d {
class Backend;
class Work;
}  // namespace c10d

namespace titan::comm {

// Used by one thread at a time, as its group.
class ShapeCheck {
 public:
  explicit ShapeCheck(c10d::Backend& backend) : backend_(backend) {}

  // What differs, by rank of the group: "rank 1 brings an all-gather of 12 Float, this rank …".
  // Collective where (collective, elements, dtype) is new. Shows travel as gather and scatter,
  // which no collective of Group uses: a rank that shows nothing is a timeout, never a mixed-up
  // message.
  std::optional<std::string> compare(const char* collective, const at::Tensor& x);

  // The first message to each rank of the group is announced, and the first from each one awaited.
  // A message under way, to be kept with its tensor; null when there is none.
  struct Announcement {
    at::Tensor show;
    c10::intrusive_ptr<c10d::Work> work;
  };
  Announcement announce(const at::Tensor& x, int64_t to);
  std::optional<std::string> expect(const at::Tensor& x, int64_t from);

 private:
  c10d::Backend& backend_;
  std::set<std::string> seen_;
  std::set<int64_t> announced_to_, heard_from_;
};

// Null for back ends that are not Gloo: a device's own libraries wait for each other instead, until
// the timeout.
std::unique_ptr<ShapeCheck> make_shape_check(c10d::Backend& backend);

}  // namespace titan::comm
