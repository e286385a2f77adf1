/// What the emulated NVRTC makes and the emulated runtime loads in the place of a cubin: a shared
/// object, after its size.
#pragma once

#include <cstring>
#include <string>
#include <string_view>

namespace rnnc::emulator {

/// Of the shared object: void(Unit*).
inline constexpr const char* kUnitFunction = "rnnc_emulated_unit";

inline constexpr std::string_view kImageMark = "rnnc emulated unit\n";

inline std::string make_image(std::string_view object) {
  const size_t size = object.size();
  std::string image(kImageMark);
  image.append(reinterpret_cast<const char*>(&size), sizeof(size));
  return image.append(object);
}

/// Empty if it is not an image.
inline std::string_view object_of_image(const void* image) {
  const char* const bytes = static_cast<const char*>(image);
  if (std::memcmp(bytes, kImageMark.data(), kImageMark.size()) != 0) return {};
  size_t size = 0;
  std::memcpy(&size, bytes + kImageMark.size(), sizeof(size));
  return {bytes + kImageMark.size() + sizeof(size), size};
}

}  // namespace rnnc::emulator
