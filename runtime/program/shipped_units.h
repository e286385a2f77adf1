/// The cells and networks of examples/, which rnnc carries with it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/unit.h"
#include "ir/base/status.h"

namespace rnnc {

struct ShippedFile {
  std::string_view path;  // "cells/lstm.rnn"
  std::string_view text;
};

const std::vector<ShippedFile>& shipped_files();

/// "lstm", "stacked_lstm", and so on: cells, then networks, each in alphabetical order.
std::vector<std::string> shipped_units();

/// The parsed file of that name, with what it imports of the others; its last definition is the one
/// that it is about. An error if there is none.
Result<Unit> shipped_unit(std::string_view name);

}  // namespace rnnc
