/// CUDA's libraries, opened on first use, so that rnnc starts and works without them.
#pragma once

#include <string>
#include <vector>

#include "ir/base/status.h"

namespace rnnc {

/// An open library; never closed, since CUDA's libraries do not take unloading well.
class SharedLibrary {
 public:
  /// Has `open` look into another folder, too. Any thread may.
  static void add_folder(const std::string& folder);
  /// Opens `soname` ("libnvrtc.so.13") from the run path, the system's search path, the folders that
  /// were added, in their order, or the CUDA toolkit's usual folder. The error says how to get `package` ("NVRTC").
  static Result<SharedLibrary> open(const std::string& soname, const std::string& package);
  /// Whether this process has it open, so that `open` takes no time.
  static bool is_open(const std::string& soname);
  /// Files that decide which one `open` finds where the library is not open yet: as long as none of
  /// them appears, goes or changes, it is the same. (Subfolders for newer processors, which the
  /// system may look into, are left out.) Empty if the system does not say.
  static std::vector<std::string> places(const std::string& soname);

  /// The file that it was loaded from.
  std::string path() const;
  /// Opens `soname` from this library's own folder, so that this library finds it by name later.
  /// Nothing happens if it is not there.
  void preload_neighbour(const std::string& soname) const;

  /// Sets `function` to the symbol's address.
  template <typename Function>
  Status find(const char* name, Function*& function) const {
    Result<void*> address = symbol(name);
    if (!address) return tl::unexpected(address.error());
    function = reinterpret_cast<Function*>(*address);
    return {};
  }

 private:
  SharedLibrary(void* handle, std::string soname) : handle_(handle), soname_(std::move(soname)) {}
  Result<void*> symbol(const char* name) const;

  void* handle_;
  std::string soname_;
};

}  // namespace rnnc
