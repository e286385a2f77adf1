/// A loss over characters, compiled from a .rnn file.
#pragma once

#include <filesystem>
#include <string>

#include "runtime/program/program.h"

namespace train_charlm {

/// The cell or network `name`, or the file's last one, whose inputs `x` and `target` are vectors of
/// `vocabulary` elements and whose output `loss` is a scalar. An error says what is wrong with it.
rnnc::Result<rnnc::Program> compile_loss(const std::filesystem::path& file, std::string name,
                                         int64_t vocabulary, rnnc::CompileOptions options);

}  // namespace train_charlm
