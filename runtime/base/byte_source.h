/// The bytes of a file, any of them at any time, so that what comes first can be checked before the
/// rest is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "ir/base/status.h"
#include "runtime/base/descriptor.h"

namespace rnnc {

/// Moved, not copied. Reading from several threads at once is fine.
class ByteSource {
 public:
  /// A file that `read_file` reads. A pipe is read whole.
  static Result<ByteSource> open(const std::filesystem::path& path);
  /// Bytes of the caller's, which outlive it.
  explicit ByteSource(std::string_view bytes) : bytes_(bytes) {}
  /// Bytes of its own.
  static ByteSource owning(std::string bytes);
  ByteSource(ByteSource&& other) noexcept;
  ByteSource& operator=(ByteSource&&) = delete;

  uint64_t size() const { return file_.is_open() ? size_ : bytes_.size(); }
  /// `size` bytes from `offset` on; an error if there are not so many.
  Status read(uint64_t offset, void* target, uint64_t size) const;
  /// Likewise, and at most as many as there are.
  Result<std::string> read(uint64_t offset, uint64_t size) const;

 private:
  ByteSource(Descriptor file, uint64_t size) : file_(std::move(file)), size_(size) {}

  Descriptor file_{-1};  // a regular file of `size_` bytes; not open: `bytes_` are the bytes
  uint64_t size_ = 0;
  std::string own_;
  std::string_view bytes_;
};

}  // namespace rnnc
