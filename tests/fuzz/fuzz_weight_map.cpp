/// Whatever the text, reading it ends with a map or with errors.
#include <cstdlib>

#include "runtime/weights/weight_map.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const rnnc::Result<rnnc::WeightMap> map = rnnc::WeightMap::parse(text, "fuzz.map");
  if (!map && map.error().message.find("fuzz.map") == std::string::npos) std::abort();
  return 0;
}
