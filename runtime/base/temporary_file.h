/// Files under temporary names, which are written whole before they get their own.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "ir/base/status.h"
#include "runtime/base/descriptor.h"

namespace rnnc {

/// All bytes to an open file. A limit on the size of files (`ulimit -f`) and a pipe that nobody
/// reads are errors here, and do not end the process. Errors are the system's words alone.
Status write_all(int descriptor, std::string_view bytes);

/// A new file, locked while this lives and removed in the end unless it got a name. What the killed
/// leave behind is therefore not locked, and `sweep_temporaries` finds it. Errors as above.
class TemporaryFile {
 public:
  /// In an open folder (O_PATH will do). `mode`: permissions, of which the process's umask takes
  /// some away.
  static Result<TemporaryFile> create(Descriptor folder, mode_t mode);
  TemporaryFile(TemporaryFile&& other) noexcept;
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile();

  int get() const { return file_.get(); }
  int folder() const { return folder_.get(); }
  /// Gives it a name in its folder. What had the name is gone.
  Status replace(const std::string& name);
  /// Likewise, but what had the name is there until this is destroyed, and `take_back` undoes it,
  /// unless the file system cannot exchange two files' names (NFS).
  Status place(const std::string& name);
  void take_back();

 private:
  TemporaryFile(Descriptor folder, Descriptor file, std::string temporary)
      : folder_(std::move(folder)), file_(std::move(file)), temporary_(std::move(temporary)) {}

  Descriptor folder_;
  Descriptor file_;
  std::string temporary_;  // name; empty: nothing has it
  std::string name_;       // that `place` gave, until it is taken back
};

/// Whether a TemporaryFile may have this name.
bool is_temporary_name(std::string_view name);

/// Removes our user's temporary files in an open folder that no living process has locked.
void sweep_temporaries(int folder);

}  // namespace rnnc
