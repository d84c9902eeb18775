// Bytes that libtorch's CPU tensors hold at the moment: what "saves memory" is measured with.
#pragma once

#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstdint>
#include <memory>

namespace titan::ops {

// Counts what is allocated while it exists. One at a time; tensors may outlive it.
class LiveBytes final : public c10::Allocator {
 public:
  LiveBytes() : inner_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, kPriority); }
  ~LiveBytes() override { c10::SetCPUAllocator(inner_, kPriority); }

  int64_t now() const { return *bytes_; }

  c10::DataPtr allocate(size_t size) override {
    auto* block = new Block{inner_->allocate(size), static_cast<int64_t>(size), bytes_};
    *bytes_ += block->size;
    return {block->data.get(), block, &release, c10::Device(c10::DeviceType::CPU)};
  }
  void copy_data(void* to, const void* from, size_t count) const override {
    default_copy_data(to, from, count);
  }

 private:
  static constexpr uint8_t kPriority = 100;
  struct Block {
    c10::DataPtr data;
    int64_t size;
    std::shared_ptr<std::atomic<int64_t>> bytes;
  };
  static void release(void* context) {
    auto* block = static_cast<Block*>(context);
    *block->bytes -= block->size;
    delete block;
  }

  c10::Allocator* inner_;
  std::shared_ptr<std::atomic<int64_t>> bytes_ = std::make_shared<std::atomic<int64_t>>(0);
};

}  // namespace titan::ops
