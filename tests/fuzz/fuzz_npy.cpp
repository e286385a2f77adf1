/// Whatever the bytes, reading ends with an array of their size or an error of one line.
#include <cstdlib>

#include "runtime/arrays/npy.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const rnnc::Result<rnnc::Array> array = rnnc::parse_npy(bytes, "fuzz.npy");
  if (!array) {
    if (array.error().message.find('\n') != std::string::npos) std::abort();
    return 0;
  }
  const size_t elements = static_cast<size_t>(array->elements());
  if (array->data.size() != elements * rnnc::size_of(array->dtype)) std::abort();
  if (array->data.size() > size) std::abort();
  // What was read is written and read back alike.
  const rnnc::Array plain = array->as(rnnc::compute_type(array->dtype));
  const rnnc::Result<rnnc::Array> again = rnnc::parse_npy(rnnc::format_npy(plain), "again.npy");
  if (!again || again->shape != plain.shape || again->data != plain.data) std::abort();
  return 0;
}
