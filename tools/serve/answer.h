/// What a page asks: JSON in, JSON or a page out.
#pragma once

#include <string>
#include <string_view>

#include "tools/serve/texts.h"

namespace rnnc::serve {

/// | question | asks | is answered by |
/// |---|---|---|
/// | list | `{}` | what there is to pick from, and the words of the language |
/// | open | `{"name"}` | `{"text"}` of a file |
/// | describe | `{"name", "text"}` | the cells of a text and their dims |
/// | explain | likewise, and a cell, its dims and the options of `rnnc explain` | its page |
/// | lsp | an array of messages to a language server that has just started | those that it sends |
bool is_question(std::string_view question);

/// Answers on standard output, or says on standard error what is wrong. Gives the exit code of a
/// command that does so: kError of wrong values, kUsage of a body that is no such question.
int answer(std::string_view question, const Texts& texts, std::string_view body);

}  // namespace rnnc::serve
