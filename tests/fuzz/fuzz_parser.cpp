/// Whatever the bytes, reading them as an .rnn file ends with graphs that verify, or with errors.
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "tests/frontend/try_source.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string wrong =
      rnnc::try_source(std::string(reinterpret_cast<const char*>(data), size));
  if (!wrong.empty()) {
    std::fprintf(stderr, "%s\n", wrong.c_str());
    std::abort();
  }
  return 0;
}
