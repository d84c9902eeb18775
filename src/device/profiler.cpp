#include "device/profiler.h"

#include <torch/csrc/autograd/profiler_kineto.h>

#include <set>
#include <system_error>

#include "base/error.h"

namespace titan::device {
namespace {

namespace kineto = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;
using torch::profiler::impl::ProfilerConfig;
using torch::profiler::impl::ProfilerState;

std::set<ActivityType> activities(c10::DeviceType device) {
  std::set<ActivityType> kinds{ActivityType::CPU};
  if (device == c10::DeviceType::CUDA) kinds.insert(ActivityType::CUDA);
  if (device == c10::DeviceType::PrivateUse1) kinds.insert(ActivityType::PrivateUse1);
  return kinds;
}

ProfilerConfig profiler_config() { return ProfilerConfig(ProfilerState::KINETO, true); }

}  // namespace

Profiler::~Profiler() {
  if (running_) kineto::disableProfiler();
}

void Profiler::warm_up() {
  if (warm_ || running_) return;
  kineto::prepareProfiler(profiler_config(), activities(device_));
  warm_ = true;
}

void Profiler::start() {
  TITAN_CHECK(!running_, "a trace is running already");
  warm_up();
  kineto::enableProfiler(
      profiler_config(), activities(device_),
      {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE});
  running_ = true;
}

void Profiler::stop_and_write(const std::filesystem::path& file) {
  TITAN_CHECK(running_, "no trace is running");
  running_ = warm_ = false;
  const auto result = kineto::disableProfiler();
  std::error_code failure;
  std::filesystem::create_directories(file.parent_path(), failure);
  auto unfinished = file;
  unfinished += ".part";
  if (!failure) {
    result->save(unfinished.string());
    std::filesystem::rename(unfinished, file, failure);
  }
  if (failure) {
    throw EnvironmentError("[profiling] cannot write {}: {}", file.string(), failure.message());
  }
}

}  // namespace titan::device
