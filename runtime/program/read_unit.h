/// A .rnn file on disk, with what it imports.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "frontend/unit.h"
#include "ir/base/status.h"

namespace rnnc {

/// The parsed file; an error if it cannot be read. What it imports is looked for beside the file
/// that imports it, and what cannot be read is among the unit's diagnostics. Links and spellings
/// (`a/../b.rnn`) do not make one file into two: where it lies in the end decides. Imported are
/// regular files alone whose names, and those of what links lead to, end in `.rnn`.
Result<Unit> read_unit(const std::filesystem::path& path);

/// The text that counts for a file in place of the one on disk, such as that of an editor; nothing:
/// the one on disk counts. An error where the file may not be imported.
using Shadow = std::function<Result<std::optional<std::string>>(const std::filesystem::path& file)>;

/// The same of a text from elsewhere; its imports are looked for beside the file `name` would be.
Unit parse_unit(const std::string& name, std::string text, const Shadow& shadow = {});

}  // namespace rnnc
