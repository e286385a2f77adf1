#include "tools/standard_streams.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <new>
#include <system_error>

#include "runtime/base/files.h"
#include "runtime/base/host_memory.h"

namespace rnnc::tools {

namespace fs = std::filesystem;

bool is_dash(const fs::path& file) {
  return file == "-";
}

std::string name_of_input(const fs::path& file) {
  return is_dash(file) ? kStandardInput : file.string();
}

std::string check_dashes(const std::vector<fs::path>& read, const std::vector<fs::path>& written,
                         std::string_view prints) {
  if (std::ranges::count_if(read, is_dash) > 1) {
    return "standard input serves one file only, and several are `-`";
  }
  const auto results = std::ranges::count_if(written, is_dash);
  if (results > 1) return "standard output takes one result only, and several go to `-`";
  if (results == 1 && !prints.empty()) {
    return fmt::format("{} prints to standard output, where a result goes, too", prints);
  }
  return "";
}

Result<std::string> read_standard_input(int64_t most_bytes) {
  std::string bytes;
  try {
    constexpr size_t kPiece = 1 << 16;
    const auto most = static_cast<size_t>(most_bytes);
    size_t used = 0;
    while (used < most) {
      if (used == bytes.size()) bytes.resize(std::min(most, used + used / 2 + kPiece));
      const ssize_t count = ::read(STDIN_FILENO, bytes.data() + used, bytes.size() - used);
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) {
        return fail("cannot read standard input: {}", std::generic_category().message(errno));
      }
      if (count == 0) break;
      used += static_cast<size_t>(count);
    }
    bytes.resize(used);
  } catch (const std::bad_alloc&) {
    return fail("cannot read standard input: it does not fit in memory");
  }
  return bytes;
}

Result<std::string> read_standard_input() {
  // Growing needs room for twice as much at times.
  const int64_t most = host_memory() / 4;
  Result<std::string> bytes = read_standard_input(most);
  if (bytes && static_cast<int64_t>(bytes->size()) == most) {
    return fail("cannot read standard input: it does not fit in memory");
  }
  return bytes;
}

Status print(std::string_view text) {
  const size_t written = std::fwrite(text.data(), 1, text.size(), stdout);
  if (written != text.size() || std::fflush(stdout) != 0) {
    return fail("cannot write to standard output");
  }
  return {};
}

Status check_output(const fs::path& file) {
  if (file.empty() || is_dash(file)) return {};
  return check_writable(file);
}

Status write_outputs(const std::vector<OutputFile>& files) {
  FileTransaction transaction;
  for (const OutputFile& file : files) {
    if (is_dash(file.path)) continue;
    if (Status status = transaction.add(file.path, file.bytes); !status) return status;
  }
  for (const OutputFile& file : files) {
    if (!is_dash(file.path)) continue;
    if (Status status = print(file.bytes); !status) return status;
  }
  return transaction.commit();
}

Status write_output(const fs::path& file, std::string_view bytes) {
  return file.empty() || is_dash(file) ? print(bytes) : write_file(file, bytes);
}

}  // namespace rnnc::tools
