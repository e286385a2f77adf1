/// Results of calls that tests count on.
#pragma once

#include <utility>

#include "ir/base/status.h"

namespace rnnc::test {

template <typename T>
T value_of(Result<T> result) {
  RNNC_CHECK(result.has_value(), "{}", result.error().message);
  return std::move(*result);
}

}  // namespace rnnc::test
