/// Names coloured by what they stand for. Words, numbers and comments are the grammar's.
#pragma once

#include <nlohmann/json.hpp>

#include "tools/lsp/document.h"

namespace rnnc::lsp {

/// The kinds and modifiers that numbers in the tokens mean.
nlohmann::ordered_json token_legend();
/// As the protocol packs them: five numbers each.
std::vector<uint32_t> pack_tokens(const Analysis& analysis, const Text& text);

}  // namespace rnnc::lsp
