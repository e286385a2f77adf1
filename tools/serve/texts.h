/// The texts that a page may see: rnnc's own cells and networks, and the .rnn files of one folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "ir/base/status.h"

namespace rnnc::serve {

/// Texts have names: paths below the folder or, where it has no such file, below examples/, such as
/// "networks/stacked_lstm.rnn".
class Texts {
 public:
  /// An empty folder: rnnc's own texts alone. An error if there is no such folder.
  static Result<Texts> of(const std::filesystem::path& folder);

  /// In the folder itself, not below it, in alphabetical order.
  std::vector<std::string> files() const;
  /// An error for every path that leads elsewhere, by `..` or by a link.
  Result<std::string> text(const std::filesystem::path& name) const;

 private:
  explicit Texts(std::filesystem::path folder) : folder_(std::move(folder)) {}
  /// Where the file of that name lies; empty if the folder has none.
  std::filesystem::path place_of(const std::filesystem::path& name) const;

  std::filesystem::path folder_;  // without links
};

}  // namespace rnnc::serve
