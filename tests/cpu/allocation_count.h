#pragma once

#include <cstdint>

namespace rnnc::test {

/// How often all threads of this test program have called `operator new` so far.
int64_t allocation_count();

}  // namespace rnnc::test
