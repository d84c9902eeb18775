// Runs a CUDA kernel on a CPU: the threads of a block as fibers, one after another, which meet at
// __syncthreads() and in what a warp does as one. Wrong indices, a missing barrier, a copy that is
// not waited for show in the results without a GPU; speed does not.
#pragma once

#include <ucontext.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

namespace titan::lockstep {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

// Of the fiber that runs.
inline Index thread_index, block_index, grid_size;

// A meeting point of a fixed number of fibers.
struct Meeting {
  int expected = 0, arrived = 0;
  int64_t generation = 0;
  void (*what)(void**) = nullptr;
  std::vector<void*> lanes;
};

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
  bool real;
};

class Block {
 public:
  Block(int threads, std::function<void()> kernel) : kernel_(std::move(kernel)) {
    all_.expected = threads;
    all_.lanes.resize(static_cast<size_t>(threads));
    warps_.resize(static_cast<size_t>(threads) / 32);
    for (auto& warp : warps_) {
      warp.expected = 32;
      warp.lanes.resize(32);
    }
    fibers_.resize(static_cast<size_t>(threads));
  }

  void run() {
    running_block = this;
    for (auto& fiber : fibers_) {
      fiber.stack = std::make_unique<char[]>(kStack);
      getcontext(&fiber.context);
      fiber.context.uc_stack.ss_sp = fiber.stack.get();
      fiber.context.uc_stack.ss_size = kStack;
      fiber.context.uc_link = &scheduler_;
      makecontext(&fiber.context, &Block::begin, 0);
    }
    for (size_t left = fibers_.size(); left > 0;) {
      const int64_t before = progress_;
      for (size_t warp = 0; warp < warps_.size(); ++warp) left -= run_warp(warp);
      if (left > 0 && progress_ == before) throw std::runtime_error("threads wait for each other");
    }
    running_block = nullptr;
  }

  // All lanes of the warp: compute(lanes) runs once, when the last arrives.
  void in_warp(void* mine, void (*compute)(void**)) {
    meet(warps_[current_ / 32], current_ % 32, mine, compute);
  }
  void in_block() {
    meet(all_, current_, nullptr, [](void**) {});
  }

  // Done when it is waited for; until then the place holds what no kernel should read.
  void copy(const Copy& copy) {
    std::memset(copy.to, 0xff, copy.bytes);
    fibers_[current_].open.push_back(copy);
  }
  void end_group() {
    auto& fiber = fibers_[current_];
    fiber.groups.push_back(std::exchange(fiber.open, {}));
  }
  void wait(size_t groups_left) {
    auto& groups = fibers_[current_].groups;
    while (groups.size() > groups_left) {
      for (const auto& c : groups.front()) {
        if (c.real) std::memcpy(c.to, c.from, c.bytes);
        if (!c.real) std::memset(c.to, 0, c.bytes);
      }
      groups.erase(groups.begin());
    }
  }

  static inline Block* running_block = nullptr;

 private:
  static constexpr size_t kStack = 256 * 1024;
  struct Fiber {
    ucontext_t context;
    std::unique_ptr<char[]> stack;
    bool done = false;
    std::vector<Copy> open;
    std::vector<std::vector<Copy>> groups;
  };

  // As far as it gets: warps are as far apart as barriers allow. Returns how many threads ended.
  size_t run_warp(size_t warp) {
    size_t ended = 0;
    for (int64_t before = -1; before != progress_;) {
      before = progress_;
      for (size_t i = warp * 32; i < (warp + 1) * 32; ++i) {
        if (fibers_[i].done) continue;
        current_ = i;
        thread_index = {static_cast<unsigned>(i), 0, 0};
        swapcontext(&scheduler_, &fibers_[i].context);
        if (fibers_[i].done) ++ended;
      }
    }
    return ended;
  }

  static void begin() {
    Block& block = *running_block;
    block.kernel_();
    block.fibers_[block.current_].done = true;
    ++block.progress_;
  }

  void meet(Meeting& at, size_t place, void* mine, void (*compute)(void**)) {
    const size_t self = current_;
    if (at.arrived > 0 && at.what != compute)
      throw std::runtime_error("threads meet in two places");
    at.what = compute;
    at.lanes[place] = mine;
    if (++at.arrived == at.expected) {
      compute(at.lanes.data());
      at.arrived = 0;
      ++at.generation;
      ++progress_;
      return;
    }
    for (const int64_t generation = at.generation; at.generation == generation;) {
      swapcontext(&fibers_[self].context, &scheduler_);
    }
  }

  std::function<void()> kernel_;
  std::vector<Fiber> fibers_;
  std::vector<Meeting> warps_;
  Meeting all_;
  ucontext_t scheduler_;
  size_t current_ = 0;
  int64_t progress_ = 0;
};

// kernel() for every block of the grid.
inline void launch(const Index& grid, int threads, const std::function<void()>& kernel) {
  grid_size = grid;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        block_index = {x, y, z};
        Block(threads, kernel).run();
      }
    }
  }
}

}  // namespace titan::lockstep
