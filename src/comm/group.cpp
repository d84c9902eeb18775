#include "comm/group.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "base/error.h"
#include "comm/shape_check.h"
#include "device/npu/error_codes.h"

namespace titan::comm {

using at::Tensor;

struct Group::State {
  c10::intrusive_ptr<c10d::Backend> backend;
  std::shared_ptr<RankContext> context;
  std::unique_ptr<ShapeCheck> shapes;  // null: not needed
};

struct Pending::State {
  std::vector<c10::intrusive_ptr<c10d::Work>> works;
  std::string what;
  std::shared_ptr<RankContext> context;
  std::vector<Tensor> tensors;
  int64_t ticket = 0;  // in the recorder
  ShapeCheck::Announcement announcement = {};
};

namespace {

// libtorch's messages carry C++ frames and addresses; the first line says it all.
// Codes of HCCL, which may stand further below, are put into words.
std::string reason_in_words(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  const auto meaning = device::npu::explain_error(text);
  return meaning ? fmt::format("{} ({})", *meaning, line) : line;
}

constexpr const char* kGone =
    "another rank ended, hangs or took part with other shapes; its own message says why "
    "(comm.train_timeout_seconds bounds the wait)";
constexpr const char* kOtherShapes =
    "the ranks do not run the same thing; start all with one configuration and one version";

[[noreturn]] void fail(const RankContext& context, const std::string& what,
                       const std::string& reason, const char* hint = kGone) {
  throw EnvironmentError("[comm] rank {}, step {}, {}: {} failed: {} — {}", context.rank,
                         context.progress.step.load(), context.progress.phase.load(), what,
                         reason_in_words(reason), hint);
}

c10d::ReduceOp op_of(Reduce reduce) {
  return reduce == Reduce::kMax ? c10d::ReduceOp::MAX : c10d::ReduceOp::SUM;
}

int64_t bytes_of(const Tensor& x) { return static_cast<int64_t>(x.nbytes()); }

// Blocks behind each other along dimension 0 from and to blocks along `dim`.
Tensor to_front(const Tensor& x, int64_t dim) { return x.transpose(0, dim).contiguous(); }

}  // namespace

Pending::Pending() = default;
Pending::Pending(std::unique_ptr<State> state) : state_(std::move(state)) {}
Pending::Pending(Pending&&) noexcept = default;
Pending& Pending::operator=(Pending&&) noexcept = default;
Pending::~Pending() = default;

bool Pending::is_done() const {
  if (!state_) return true;
  const auto& announced = state_->announcement.work;
  return (!announced || announced->isCompleted()) &&
         std::ranges::all_of(state_->works, [](const auto& work) { return work->isCompleted(); });
}

void Pending::wait() {
  if (!state_) return;
  const auto state = std::move(state_);
  state->context->recorder.waits_for(state->ticket);
  try {
    if (state->announcement.work) state->announcement.work->wait();
    for (const auto& work : state->works) {
      if (!work->wait()) fail(*state->context, state->what, "it was aborted");
    }
    state->context->recorder.waited_for(state->ticket);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail(*state->context, state->what, error.what());
  }
}

Group::Group(std::string axis, c10::intrusive_ptr<c10d::Backend> backend,
             std::shared_ptr<RankContext> context)
    : axis_(std::move(axis)), size_(backend->getSize()), rank_(backend->getRank()) {
  auto shapes = make_shape_check(*backend);
  state_ = std::make_shared<const State>(
      State{std::move(backend), std::move(context), std::move(shapes)});
}

template <typename Body>
Pending Group::guarded(const char* collective, int64_t bytes, const Body& body) const {
  const at::NoGradGuard no_grad;
  RankContext& context = *state_->context;
  context.traffic.add(axis_, collective, bytes);
  const int64_t ticket = context.recorder.issued(axis_, collective, bytes, context.progress.step,
                                                 context.progress.phase);
  const std::string what = fmt::format("{} over axis {} ({} ranks)", collective, axis_, size_);
  try {
    return body(what, ticket);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    fail(context, what, error.what());
  }
}

Pending Group::issue(const char* collective, int64_t bytes, const Tensor& in,
                     std::vector<Tensor> tensors, const Call& call) const {
  return guarded(collective, bytes, [&](const std::string& what, int64_t ticket) {
    if (state_->shapes) {
      const auto problem = state_->shapes->compare(collective, in);
      if (problem) fail(*state_->context, what, *problem, kOtherShapes);
    }
    return Pending(std::make_unique<Pending::State>(Pending::State{
        {call(*state_->backend)}, what, state_->context, std::move(tensors), ticket}));
  });
}

Pending Group::start_all_reduce(Tensor& x, Reduce reduce) const {
  if (!state_) return {};
  TITAN_CHECK(x.is_contiguous(), "all-reduce of a tensor with gaps");
  const int64_t bytes = 2 * (size_ - 1) * bytes_of(x) / size_;
  return issue("all-reduce", bytes, x, {x}, [&](c10d::Backend& backend) {
    std::vector<Tensor> tensors{x};
    c10d::AllreduceOptions options;
    options.reduceOp = op_of(reduce);
    return backend.allreduce(tensors, options);
  });
}

Pending Group::start_all_gather(Tensor& out, const Tensor& in) const {
  TITAN_CHECK(out.is_contiguous() && in.is_contiguous() && out.numel() == size_ * in.numel(),
              "all-gather of {} into {} elements on {} ranks", in.numel(), out.numel(), size_);
  if (!state_) {
    const at::NoGradGuard no_grad;
    out.view(in.sizes()).copy_(in);
    return {};
  }
  return issue("all-gather", (size_ - 1) * bytes_of(in), in, {out, in},
               [&](c10d::Backend& backend) {
                 // Gloo compares shapes, not sizes.
                 Tensor output = out.view({-1}), input = in.view({-1});
                 return backend._allgather_base(output, input);
               });
}

Pending Group::start_reduce_scatter(Tensor& out, const Tensor& in) const {
  TITAN_CHECK(out.is_contiguous() && in.is_contiguous() && in.numel() == size_ * out.numel(),
              "reduce-scatter of {} into {} elements on {} ranks", in.numel(), out.numel(), size_);
  if (!state_) {
    const at::NoGradGuard no_grad;
    out.view(in.sizes()).copy_(in);
    return {};
  }
  return issue("reduce-scatter", (size_ - 1) * bytes_of(out), in, {out, in},
               [&](c10d::Backend& backend) {
                 Tensor output = out.view({-1}), input = in.view({-1});
                 return backend._reduce_scatter_base(output, input);
               });
}

Tensor Group::all_reduce(const Tensor& x, Reduce reduce) const {
  if (!state_) return x;
  const at::NoGradGuard no_grad;
  // A copy: gradients that come in are shared with other nodes of the graph.
  Tensor result = x.clone(at::MemoryFormat::Contiguous);
  start_all_reduce(result, reduce).wait();
  return result;
}

Tensor Group::all_gather(const Tensor& x, int64_t dim) const {
  if (!state_) return x;
  const at::NoGradGuard no_grad;
  const Tensor in = to_front(x, dim);
  auto shape = in.sizes().vec();
  shape[0] *= size_;
  Tensor out = at::empty(shape, in.options());
  start_all_gather(out, in).wait();
  return out.transpose(0, dim).contiguous();
}

Tensor Group::reduce_scatter(const Tensor& x, int64_t dim) const {
  if (!state_) return x;
  const at::NoGradGuard no_grad;
  TITAN_CHECK(x.size(dim) % size_ == 0, "reduce-scatter of {} rows over {} ranks", x.size(dim),
              size_);
  const Tensor in = to_front(x, dim);
  auto shape = in.sizes().vec();
  shape[0] /= size_;
  Tensor out = at::empty(shape, in.options());
  start_reduce_scatter(out, in).wait();
  return out.transpose(0, dim).contiguous();
}

Tensor Group::all_to_all(const Tensor& x, int64_t split_dim, int64_t concat_dim) const {
  if (!state_) return x;
  const at::NoGradGuard no_grad;
  TITAN_CHECK(x.size(split_dim) % size_ == 0, "all-to-all of {} blocks over {} ranks",
              x.size(split_dim), size_);
  const Tensor in = at::stack(x.tensor_split(size_, split_dim)).contiguous();
  Tensor out = at::empty_like(in);
  issue("all-to-all", (size_ - 1) * bytes_of(in) / size_, in, {out, in},
        [&](c10d::Backend& backend) {
          Tensor input = in;
          std::vector<int64_t> even;
          return backend.alltoall_base(out, input, even, even);
        })
      .wait();
  return at::cat(out.unbind(0), concat_dim);
}

Pending Group::start_send(const Tensor& x, int64_t to, int64_t tag) const {
  TITAN_CHECK(state_ && to != rank_ && x.is_contiguous(), "send to rank {} of axis {}", to, axis_);
  return guarded("send", bytes_of(x), [&](const std::string& what, int64_t ticket) {
    ShapeCheck::Announcement announcement;
    if (state_->shapes) announcement = state_->shapes->announce(x, to);
    std::vector<Tensor> tensors{x};
    auto work = state_->backend->send(tensors, static_cast<int>(to), static_cast<int>(tag));
    return Pending(std::make_unique<Pending::State>(Pending::State{
        {std::move(work)}, what, state_->context, {x}, ticket, std::move(announcement)}));
  });
}

Pending Group::start_receive(Tensor& out, int64_t from, int64_t tag) const {
  TITAN_CHECK(state_ && from != rank_ && out.is_contiguous(), "receive from rank {} of axis {}",
              from, axis_);
  return guarded("receive", 0, [&](const std::string& what, int64_t ticket) {
    if (state_->shapes) {
      const auto problem = state_->shapes->expect(out, from);
      if (problem) fail(*state_->context, what, *problem, kOtherShapes);
    }
    std::vector<Tensor> tensors{out};
    auto work = state_->backend->recv(tensors, static_cast<int>(from), static_cast<int>(tag));
    return Pending(std::make_unique<Pending::State>(
        Pending::State{{std::move(work)}, what, state_->context, {out}, ticket}));
  });
}

Pending Group::start_turn(const Tensor& out, Tensor& in, int64_t tag) const {
  TITAN_CHECK(state_ && size_ > 1 && out.is_contiguous() && in.is_contiguous(),
              "a turn of the ring over axis {}", axis_);
  const int next = static_cast<int>((rank_ + 1) % size_);
  const int previous = static_cast<int>((rank_ + size_ - 1) % size_);
  return guarded("send", bytes_of(out), [&](const std::string& what, int64_t ticket) {
    ShapeCheck::Announcement announcement;
    if (state_->shapes) {
      announcement = state_->shapes->announce(out, next);
      const auto problem = state_->shapes->expect(in, previous);
      if (problem) fail(*state_->context, what, *problem, kOtherShapes);
    }
    c10d::Backend& backend = *state_->backend;
    std::vector<Tensor> outgoing{out}, incoming{in};
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    const auto send = [&] { works.push_back(backend.send(outgoing, next, static_cast<int>(tag))); };
    const bool joined = backend.supportsCoalescing();
    if (joined) backend.startCoalescing();
    // Two ranks are each other's next: a library that runs the messages of a pair one by one needs
    // them in the same order on both sides.
    if (rank_ % 2 == 0) send();
    works.push_back(backend.recv(incoming, previous, static_cast<int>(tag)));
    if (rank_ % 2 == 1) send();
    if (joined) works = {backend.endCoalescing()};
    return Pending(std::make_unique<Pending::State>(Pending::State{
        std::move(works), what, state_->context, {out, in}, ticket, std::move(announcement)}));
  });
}

void Group::broadcast(Tensor& x, int64_t from) const {
  if (!state_) return;
  TITAN_CHECK(x.is_contiguous(), "broadcast of a tensor with gaps");
  issue("broadcast", rank_ == from ? bytes_of(x) : 0, x, {x}, [&](c10d::Backend& backend) {
    std::vector<Tensor> tensors{x};
    c10d::BroadcastOptions options;
    options.rootRank = from;
    return backend.broadcast(tensors, options);
  }).wait();
}

std::vector<std::string> gather_text(const std::string& mine, const Group& group) {
  if (group.size() == 1) return {mine};
  const auto length = static_cast<int64_t>(mine.size());
  const Tensor lengths = group.all_gather(at::tensor({length}, at::kLong), 0);
  const int64_t longest = lengths.max().item<int64_t>();
  if (longest == 0) return std::vector<std::string>(static_cast<size_t>(group.size()));
  Tensor padded = at::zeros({longest}, at::kByte);
  std::copy(mine.begin(), mine.end(), padded.mutable_data_ptr<uint8_t>());
  const Tensor all = group.all_gather(padded, 0).view({group.size(), longest});
  std::vector<std::string> texts;
  for (int64_t rank = 0; rank < group.size(); ++rank) {
    const auto* begin = reinterpret_cast<const char*>(all[rank].const_data_ptr<uint8_t>());
    texts.emplace_back(begin, begin + lengths[rank].item<int64_t>());
  }
  return texts;
}

void Group::set_timeout(double seconds) const {
  if (state_) {
    state_->backend->setTimeout(std::chrono::milliseconds(static_cast<int64_t>(seconds * 1000)));
  }
}

void Group::barrier() const {
  if (!state_) return;
  // Of a host group: an all-reduce of nothing much.
  Tensor one = at::ones({1});
  start_all_reduce(one).wait();
}

}  // namespace titan::comm
