/// Whatever the bytes, reading ends with arrays no larger than deflate can make of them, or with an
/// error of one line, or of two where it is another format and the second line converts it.
#include <cstdlib>

#include "runtime/arrays/npz.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  const auto arrays = rnnc::parse_npz(bytes, "fuzz.npz");
  if (!arrays) {
    const size_t end = arrays.error().message.find('\n');
    if (end != std::string::npos &&
        !arrays.error().message.substr(end).starts_with("\n  python3")) {
      std::abort();
    }
    return 0;
  }
  size_t total = 0;
  for (const rnnc::NamedArray& named : *arrays) {
    const auto elements = static_cast<size_t>(named.array.elements());
    if (named.array.data.size() != elements * rnnc::size_of(named.array.dtype)) std::abort();
    total += named.array.data.size();
  }
  if (total / 1032 > size) std::abort();
  return 0;
}
