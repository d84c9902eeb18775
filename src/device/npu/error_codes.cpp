#include "device/npu/error_codes.h"

#include <fmt/format.h>

namespace titan::device::npu {
namespace {

struct Row {
  const char* code;
  const char* meaning;
  const char* advice;
};

// Letters: CANN's own reports (E<part><number>). Digits: what an acl call returned, 107xxx a wrong
// call, 207xxx a missing resource, 507xxx a failure inside the runtime or on the device, 561xxx an
// operator that refuses its arguments.
constexpr Row kRows[] = {
    {"EI0001", "an environment variable of HCCL has a value that it does not take",
     "compare the HCCL_* variables that titan doctor prints with HCCL's documentation"},
    {"EI0002", "a collective did not end in time: some rank did not take part in it",
     "look for the rank that failed or hangs; [npu] hccl_exec_timeout_seconds bounds the wait"},
    {"EI0003", "a collective was called with arguments that HCCL does not take",
     "the ranks disagree about shapes, dtypes or the reduction"},
    {"EI0004", "the rank table is wrong", "check RANK_TABLE_FILE, or unset it"},
    {"EI0005", "ranks called one collective with different arguments",
     "start all ranks with one configuration and one build"},
    {"EI0006",
     "the ranks of a group could not connect in time: a rank did not start, has ended, or "
     "cannot be reached",
     "look at the logs of all ranks for one that failed first; check the network between the hosts "
     "(HCCL_SOCKET_IFNAME, HCCL_IF_BASE_PORT, firewalls); [npu] hccl_connect_timeout_seconds "
     "bounds "
     "the wait"},
    {"EI0007", "HCCL found no memory or no queue for a collective", "lower HCCL_BUFFSIZE"},
    {"EI0008", "the ranks have different versions of HCCL", "install one CANN on all hosts"},
    {"EI0009", "a transfer between two devices failed", "check the links with hccn_tool"},
    {"EI0011", "HCCL could not reach a device's network port",
     "check the port with hccn_tool -i N -link -g"},
    {"EI0012", "a transfer over SDMA failed", "check the devices with npu-smi info"},
    {"EI0013", "a device's network card reported an error", "check the links with hccn_tool"},
    {"EI0014", "the ranks' communicators do not match", "start all ranks with one configuration"},
    {"EI9999", "an error inside HCCL", "CANN's log (~/ascend/log) says more"},
    {"EJ0001", "HCCL's process on the device could not start",
     "another job uses this device, or one did not end: npu-smi info shows the processes"},
    {"EL0004", "the device has no memory left", "lower training.local_batch_size or seq_len"},
    {"EZ9999", "an operator failed", "CANN's log (~/ascend/log) names it"},
    {"107000", "a call with a wrong argument", "libraries of different versions may be mixed"},
    {"107001", "a device number that does not exist",
     "check ASCEND_RT_VISIBLE_DEVICES and LOCAL_RANK"},
    {"107002", "no context on this thread", "CANN was closed while work went on"},
    {"107003", "a stream of another context", "CANN was closed while work went on"},
    {"107017", "a handle that is not valid", "CANN was closed while work went on"},
    {"107019", "work did not end in time",
     "the device hangs, or a collective waits for a rank that does not come"},
    {"107020", "no answer of the device in time",
     "CANN's log (~/ascend/log) says what it waits for"},
    {"207000", "this CANN or this chip does not have the function", "check CANN's version"},
    {"207001", "the host or the device has no memory for it",
     "lower training.local_batch_size or seq_len"},
    {"207004", "the device cannot be used", "check it with npu-smi info"},
    {"207005", "the host or the device has no memory for it",
     "lower training.local_batch_size or seq_len"},
    {"207006", "this user may not use the device",
     "add the user to the driver's group (HwHiAiUser)"},
    {"207007", "no events left", "another process on this device holds them"},
    {"207008", "no streams left", "set STREAMS_PER_DEVICE=8, or end other jobs on this device"},
    {"207018", "the device has no memory left", "lower training.local_batch_size or seq_len"},
    {"507000", "an error inside the runtime on the host", "CANN's log (~/ascend/log) says more"},
    {"507001", "an error of the task scheduler on the device",
     "CANN's log (~/ascend/log) says more"},
    {"507008", "the chip's name could not be read", "check the device with npu-smi info"},
    {"507010", "the device is lost: its heartbeat stopped",
     "check it with npu-smi info, reset it with npu-smi set -t reset"},
    {"507013", "a transfer by DMA failed", "check the device with npu-smi info"},
    {"507014", "a kernel did not end in time",
     "the device hangs, or a collective waits for a rank that does not come"},
    {"507015", "a kernel failed on an AI core, often at an address that is not its own",
     "run with [npu] launch_blocking = true to learn which operator it is"},
    {"507017", "a kernel on the device's CPU did not end in time",
     "the device hangs, or a collective waits for a rank that does not come"},
    {"507018", "a kernel failed on the device's CPU", "CANN's log (~/ascend/log) names it"},
    {"507033", "the device could not be opened",
     "another job uses it, or this user may not: npu-smi info shows the processes"},
    {"507034", "a kernel on a vector core did not end in time",
     "the device hangs, or a collective waits for a rank that does not come"},
    {"507035", "a kernel failed on a vector core",
     "run with [npu] launch_blocking = true to learn which operator it is"},
    {"507046", "a stream did not become idle in time",
     "a collective waits for a rank that does not come: look at the logs of all ranks"},
    {"507047", "an event did not come in time",
     "a collective waits for a rank that does not come: look at the logs of all ranks"},
    {"507048", "an internal task of the device did not end in time",
     "a collective waits for a rank that does not come: look at the logs of all ranks"},
    {"507053", "memory of the device has an error that cannot be corrected",
     "take the device out of service: npu-smi info -t ecc shows it"},
    {"507899", "the driver failed", "check the device with npu-smi info and dmesg"},
    {"507900", "the device's CPU failed", "check the device with npu-smi info"},
    {"507901", "the connection between host and device broke",
     "check the device with npu-smi info and dmesg"},
    {"561000", "an operator cannot be prepared", "the operator packages of CANN may be missing"},
    {"561002", "an operator has no tiling for these shapes",
     "the operator packages of CANN may be missing or of another version"},
    {"561103", "an operator failed inside CANN, or this CANN does not have it",
     "compare CANN's version with torch_npu's: titan doctor prints both"},
    {"561107", "an operator's kernels are not installed",
     "install the CANN kernels package of this chip"},
    {"161001", "an operator got no tensor where it needs one", "report it with the line above"},
    {"161002", "an operator does not take these shapes or dtypes", "report it with the line above"},
};

bool is_word(char c) { return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z'); }

// Where `code` stands in `text` as a word of its own.
size_t find_code(std::string_view text, std::string_view code) {
  for (size_t at = text.find(code); at != std::string_view::npos; at = text.find(code, at + 1)) {
    const bool begins = at == 0 || !is_word(text[at - 1]);
    const size_t end = at + code.size();
    if (begins && (end == text.size() || !is_word(text[end]))) return at;
  }
  return std::string_view::npos;
}

}  // namespace

std::optional<std::string> explain_error(std::string_view message) {
  const Row* first = nullptr;
  // A report of HCCL says more than the code of the call that failed because of it.
  for (const bool letters : {true, false}) {
    size_t best = std::string_view::npos;
    for (const auto& row : kRows) {
      if ((row.code[0] == 'E') != letters) continue;
      const size_t at = find_code(message, row.code);
      if (at >= best) continue;
      best = at;
      first = &row;
    }
    if (first) return fmt::format("{}: {} — {}", first->code, first->meaning, first->advice);
  }
  return std::nullopt;
}

}  // namespace titan::device::npu
