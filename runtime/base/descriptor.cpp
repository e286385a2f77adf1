#include "runtime/base/descriptor.h"

#include <dirent.h>
#include <fcntl.h>

#include <cerrno>
#include <memory>

namespace rnnc {

Result<std::vector<std::string>> list_folder(int folder) {
  struct Close {
    void operator()(DIR* stream) const { ::closedir(stream); }
  };
  // A descriptor of its own: the stream takes it, and reads from the folder's beginning.
  const int again = ::openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const std::unique_ptr<DIR, Close> stream(again < 0 ? nullptr : ::fdopendir(again));
  if (stream == nullptr) return fail("{}", error_text(errno));
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr && errno != 0) return fail("{}", error_text(errno));
    if (entry == nullptr) return names;
    names.emplace_back(entry->d_name);
  }
}

}  // namespace rnnc
