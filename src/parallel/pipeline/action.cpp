#include "parallel/pipeline/action.h"

#include <fmt/format.h>

namespace titan::parallel::pipeline {

bool is_compute(ActionKind kind) {
  return kind == ActionKind::kForward || kind == ActionKind::kBackward ||
         kind == ActionKind::kBackwardInput || kind == ActionKind::kBackwardWeight;
}

bool is_send(ActionKind kind) {
  return kind == ActionKind::kSendForward || kind == ActionKind::kSendBackward;
}

bool is_receive(ActionKind kind) {
  return kind == ActionKind::kReceiveForward || kind == ActionKind::kReceiveBackward;
}

bool makes_input_gradient(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardInput;
}

bool makes_weight_gradient(ActionKind kind) {
  return kind == ActionKind::kBackward || kind == ActionKind::kBackwardWeight;
}

std::string_view name_of(ActionKind kind) {
  constexpr std::string_view kNames[kNumActionKinds] = {
      "F",      "B",      "I",       "W",       "SEND_F",     "RECV_F",
      "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD"};
  return kNames[static_cast<size_t>(kind)];
}

std::string to_text(const Action& action) {
  if (action.microbatch == kWholeStage)
    return fmt::format("{}{}", action.stage, name_of(action.kind));
  return fmt::format("{}{}{}", action.stage, name_of(action.kind), action.microbatch);
}

}  // namespace titan::parallel::pipeline
