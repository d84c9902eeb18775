#include "device/profiler.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <set>
#include <system_error>

#include "base/error.h"
#include "device/tracing.h"

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

// A scope that is open, as the device's profiler knows it.
struct OpenRange final : at::ObserverContext {
  const Tracing* tracing;
  uint64_t range;
  OpenRange(const Tracing* tracing, uint64_t range) : tracing(tracing), range(range) {}
};

at::CallbackHandle hand_scopes_on() {
  return at::addGlobalCallback(
      at::RecordFunctionCallback(
          [](const at::RecordFunction& scope) -> std::unique_ptr<at::ObserverContext> {
            const Tracing* tracing = tracing_of(c10::DeviceType::PrivateUse1);
            if (tracing == nullptr) return nullptr;
            return std::make_unique<OpenRange>(tracing, tracing->open_range(scope.name()));
          },
          [](const at::RecordFunction&, at::ObserverContext* context) {
            const auto* open = static_cast<OpenRange*>(context);
            if (open != nullptr) open->tracing->close_range(open->range);
          })
          .scopes({at::RecordScope::USER_SCOPE}));
}

}  // namespace

Profiler::~Profiler() {
  if (running_) kineto::disableProfiler();
  try {
    stop_device();
  } catch (const std::exception&) {
    // The trace is dropped anyway.
  }
}

std::string Profiler::device_reader() const {
  const Tracing* tracing = tracing_of(device_);
  return tracing ? tracing->reader : "";
}

void Profiler::stop_device() {
  if (device_folder_.empty()) return;
  device_folder_.clear();
  at::removeCallback(scopes_);
  tracing_of(device_)->stop();
}

void Profiler::warm_up() {
  if (warm_ || running_) return;
  kineto::prepareProfiler(profiler_config(), activities(device_));
  warm_ = true;
}

void Profiler::start(const std::filesystem::path& device_folder) {
  TITAN_CHECK(!running_, "a trace is running already");
  warm_up();
  const Tracing* tracing = device_folder.empty() ? nullptr : tracing_of(device_);
  if (tracing != nullptr) {
    std::error_code failure;
    std::filesystem::create_directories(device_folder, failure);
    if (failure) {
      throw EnvironmentError("[profiling] cannot make {}: {}", device_folder.string(),
                             failure.message());
    }
    tracing->start(device_folder.string());
    device_folder_ = device_folder;
    scopes_ = hand_scopes_on();
  }
  kineto::enableProfiler(
      profiler_config(), activities(device_),
      {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION, at::RecordScope::USER_SCOPE});
  running_ = true;
}

void Profiler::stop_and_write(const std::filesystem::path& file) {
  TITAN_CHECK(running_, "no trace is running");
  running_ = warm_ = false;
  const auto result = kineto::disableProfiler();
  const auto written = device_folder_;
  stop_device();
  std::error_code failure;
  std::filesystem::create_directories(file.parent_path(), failure);
  auto unfinished = file;
  unfinished += ".part";
  if (!failure) {
    result->save(unfinished.string());
    std::filesystem::rename(unfinished, file, failure);
  }
  if (!failure && !written.empty()) {
    auto beside = file;
    beside.replace_extension();
    std::filesystem::remove_all(beside, failure);  // of an earlier run
    std::filesystem::rename(written, beside, failure);
  }
  if (failure) {
    throw EnvironmentError("[profiling] cannot write {}: {}", file.string(), failure.message());
  }
}

}  // namespace titan::device
