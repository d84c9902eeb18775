// One step of a rank's pipeline list. A list is data: it is made by name (schedule.h) or read from
// CSV (csv.h), completed with communication (lower.h), checked (simulate.h), drawn (picture.h) and
// then executed as it stands.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace titan::parallel::pipeline {

enum class ActionKind {
  kForward,
  kBackward,  // gradients of input and weights together
  kBackwardInput,
  kBackwardWeight,
  kSendForward,      // the stage's output to the rank of stage + 1
  kReceiveForward,   // the stage's input from the rank of stage - 1
  kSendBackward,     // the gradient of the stage's input to the rank of stage - 1
  kReceiveBackward,  // the gradient of the stage's output from the rank of stage + 1
  kUnshard,          // gather the stage's parameters over its data-parallel ranks
  kReshard,          // free what kUnshard gathered
  kReduce,           // reduce the stage's weight gradients over its data-parallel ranks
};
constexpr int64_t kNumActionKinds = 11;

// The microbatch of actions that concern a whole stage (kUnshard, kReshard, kReduce).
constexpr int64_t kWholeStage = -1;

struct Action {
  ActionKind kind;
  int64_t stage;       // the stage the action belongs to: a receive is named by its receiver
  int64_t microbatch;  // kWholeStage for kUnshard, kReshard, kReduce

  bool operator==(const Action&) const = default;
};

bool is_compute(ActionKind kind);
bool is_send(ActionKind kind);
bool is_receive(ActionKind kind);
// kBackward or kBackwardInput: makes the gradient of the stage's input.
bool makes_input_gradient(ActionKind kind);
// kBackward or kBackwardWeight: completes the weight gradient of one micro-batch.
bool makes_weight_gradient(ActionKind kind);

// "F", "B", "I", "W", "SEND_F", "RECV_F", "SEND_B", "RECV_B", "UNSHARD", "RESHARD", "REDUCE_GRAD".
std::string_view name_of(ActionKind kind);
// "3F0", "2SEND_B7", "1UNSHARD".
std::string to_text(const Action& action);

}  // namespace titan::parallel::pipeline
