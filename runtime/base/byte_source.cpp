#include "runtime/base/byte_source.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

#include "runtime/base/describe.h"
#include "runtime/base/files.h"
#include "runtime/base/host_memory.h"

namespace rnnc {

Result<ByteSource> ByteSource::open(const std::filesystem::path& path) {
  Result<Descriptor> file = open_file(path);
  if (!file) return tl::unexpected(file.error());
  struct stat info{};
  if (::fstat(file->get(), &info) == 0 && S_ISREG(info.st_mode) && info.st_size > 0) {
    return ByteSource(*std::move(file), static_cast<uint64_t>(info.st_size));
  }
  // A pipe, or a file that does not say how long it is.
  Result<std::string> bytes = read_descriptor(file->get(), path.string());
  if (!bytes) return tl::unexpected(bytes.error());
  return owning(std::move(*bytes));
}

ByteSource ByteSource::owning(std::string bytes) {
  ByteSource source{std::string_view()};
  source.own_ = std::move(bytes);
  source.bytes_ = source.own_;
  return source;
}

ByteSource::ByteSource(ByteSource&& other) noexcept
    : file_(std::move(other.file_)), size_(other.size_), bytes_(other.bytes_) {
  if (other.own_.empty()) return;
  own_ = std::move(other.own_);
  bytes_ = own_;
}

Status ByteSource::read(uint64_t offset, void* target, uint64_t size) const {
  if (offset > this->size() || size > this->size() - offset) {
    return fail("it has only {} bytes", this->size());
  }
  if (!file_.is_open()) {
    std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(offset), size, static_cast<char*>(target));
    return {};
  }
  for (uint64_t done = 0; done < size;) {
    const ssize_t count = ::pread(file_.get(), static_cast<char*>(target) + done, size - done,
                                  static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return fail("{}", std::generic_category().message(errno));
    if (count == 0) return fail("it has become shorter while it was read");
    done += static_cast<uint64_t>(count);
  }
  return {};
}

Result<std::string> ByteSource::read(uint64_t offset, uint64_t size) const {
  std::string bytes;
  if (offset >= this->size()) return bytes;
  size = std::min(size, this->size() - offset);
  if (Status fits = check_host_memory("its bytes take", static_cast<double>(size)); !fits) {
    return tl::unexpected(fits.error());
  }
  try {
    bytes.resize(size);
  } catch (const std::bad_alloc&) {
    return fail("not enough memory for {} bytes of it", size);
  }
  if (Status status = read(offset, bytes.data(), size); !status) {
    return tl::unexpected(status.error());
  }
  return bytes;
}

}  // namespace rnnc
