/// `-` where a command takes a file: standard input if it is read, standard output if it is
/// written. A file of that name is `./-`.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/base/status.h"

namespace rnnc::tools {

/// What `-` is called in errors.
inline constexpr const char* kStandardInput = "<stdin>";

bool is_dash(const std::filesystem::path& file);

/// As people are told of it.
std::string name_of_input(const std::filesystem::path& file);

/// What is wrong with so many `-` among the files that a command reads and writes, or "": each
/// stream serves once. `prints` is what else goes to standard output, or "".
std::string check_dashes(const std::vector<std::filesystem::path>& read,
                         const std::vector<std::filesystem::path>& written,
                         std::string_view prints = "");

/// All of it, of which at most `most_bytes` are read.
Result<std::string> read_standard_input(int64_t most_bytes);
/// As much as fits in memory.
Result<std::string> read_standard_input();

/// `read(file)`, or `parse(bytes, name)` of standard input.
template <typename Read, typename Parse>
auto read_input(const std::filesystem::path& file, Read read, Parse parse) -> decltype(read(file)) {
  if (!is_dash(file)) return read(file);
  Result<std::string> bytes = read_standard_input();
  if (!bytes) return tl::unexpected(bytes.error());
  return parse(std::move(*bytes), kStandardInput);
}

/// Writes to standard output, checking that it got there.
Status print(std::string_view text);

/// Whether `write_output` could write there, as far as can be told without writing.
Status check_output(const std::filesystem::path& file);
struct OutputFile {
  std::filesystem::path path;
  std::string bytes;
};
/// All of them or none, of which one may be standard output.
Status write_outputs(const std::vector<OutputFile>& files);
/// To the file, whole or not at all; to standard output for `-` and if there is no file.
Status write_output(const std::filesystem::path& file, std::string_view bytes);

}  // namespace rnnc::tools
