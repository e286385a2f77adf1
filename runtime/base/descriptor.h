/// An open file or folder of the system's.
#pragma once

#include <unistd.h>

#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "ir/base/status.h"

namespace rnnc {

/// Of `errno`: "No such file or directory".
inline std::string error_text(int error) {
  return std::generic_category().message(error);
}

/// A file descriptor that closes itself.
class Descriptor {
 public:
  explicit Descriptor(int descriptor) : descriptor_(descriptor) {}
  ~Descriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  Descriptor(Descriptor&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;

  int get() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

/// Names of what lies in an open folder, in no order. An error is the system's words alone.
Result<std::vector<std::string>> list_folder(int folder);

}  // namespace rnnc
