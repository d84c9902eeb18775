// What a call that must fail says.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"

namespace titan::parallel {

// The text of the Error that `call` throws; "no error" when it throws none.
inline std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InternalError& error) {
    return "INTERNAL: " + std::string(error.what());
  } catch (const Error& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace titan::parallel
