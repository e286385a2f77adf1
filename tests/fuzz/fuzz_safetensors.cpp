/// Whatever the bytes, reading ends with tensors within them or an error of one line.
#include <cstdlib>

#include "runtime/arrays/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto tensors = rnnc::parse_safetensors(bytes, "fuzz.safetensors");
  if (!tensors) {
    if (tensors.error().message.find('\n') != std::string::npos) std::abort();
    return 0;
  }
  size_t total = 0;
  for (const rnnc::NamedArray& tensor : *tensors) {
    const auto elements = static_cast<size_t>(tensor.array.elements());
    if (tensor.array.data.size() != elements * rnnc::size_of(tensor.array.dtype)) std::abort();
    total += tensor.array.data.size();
  }
  if (total > size) std::abort();
  return 0;
}
