/// Whatever the bytes, reading them as a plan's text ends with a plan whose text is read again as
/// the same, or with an error.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "ir/plan/plan_parse.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const rnnc::Result<rnnc::Plan> plan = rnnc::parse_plan(text);
  if (!plan) return 0;
  const std::string printed = rnnc::to_string(*plan);
  const rnnc::Result<rnnc::Plan> again = rnnc::parse_plan(printed);
  if (!again || rnnc::to_string(*again) != printed) {
    std::fprintf(stderr, "%s\n%s\n", printed.c_str(),
                 again ? "comes back otherwise" : again.error().message.c_str());
    std::abort();
  }
  return 0;
}
