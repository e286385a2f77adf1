/// Places and files as the protocol's JSON has them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "frontend/syntax/diagnostics.h"
#include "tools/lsp/document.h"
#include "tools/lsp/text.h"

namespace rnnc::lsp {

using Json = nlohmann::ordered_json;

/// "file:///a%20b.rnn" to "/a b.rnn"; a URI of another scheme stays as it is.
std::string path_of(std::string_view uri);
std::string uri_of(const std::string& path);

/// Throws an nlohmann exception where there is no such thing.
Position position_in(const Json& json);

Json to_json(Position position);
Json range(const Text& text, uint32_t begin, uint32_t end);
/// {"uri", "range"} of a file of the unit.
Json location(const std::vector<SourceFile>& files, SourceLocation place);
/// As one of the document, whatever file it speaks of: then it stands at the import.
Json diagnostic(const Analysis& analysis, const Text& text, const Diagnostic& diagnostic);
/// All that is wrong.
Json diagnostics(const Analysis& analysis, const Text& text);
/// The edits of a hint, as a WorkspaceEdit.
Json edits(const std::vector<SourceFile>& files, const std::vector<Edit>& edits);

}  // namespace rnnc::lsp
