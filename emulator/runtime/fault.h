// Faults on demand: CANNEMU_FAULT holds orders, separated by ';', each KIND[:NAME]@N[/rankR]
//   oom@3                            from the third allocation on, every one fails
//   kernel:aclnnMatmul@2             the second run of aclnnMatmul fails on its stream (507015)
//   collective-fail:HcclAllReduce@1  the first all-reduce fails
//   collective-stuck:HcclAllReduce@1 the first all-reduce of this process never answers
//   device-lost@100                  after the hundredth task of a stream the device answers
//   nothing but 507901
//   capture-begin@1                  the first capture cannot begin
//   capture-refuse:aclnnMm@3         the third aclnnMm that a capture meets cannot be recorded
//   capture-oom@1                    like oom, but only while something is captured
//   …/rank1                          only in the process whose RANK is 1
// NAME may be left out: then every name counts.
#pragma once

#include <string_view>

namespace cannemu {

// Counts one occasion of `kind` (and name); true when a fault was ordered for this very one.
bool fault_now(std::string_view kind, std::string_view name = {});

// True once a device-lost fault has happened.
bool device_lost();
void lose_device();

}  // namespace cannemu

// Replaces the orders (for tests in the same process).
extern "C" void cannemu_set_fault(const char* orders);
