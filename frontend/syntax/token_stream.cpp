#include "frontend/syntax/token_stream.h"

#include <fmt/format.h>

#include "frontend/syntax/habits.h"
#include "frontend/syntax/utf8.h"

namespace rnnc {
namespace {

constexpr int kDeepestNesting = 200;

}  // namespace

bool TokenStream::at_item() const {
  return current().starts_line &&
         (is(TokenKind::Cell) || is(TokenKind::Network) || is(TokenKind::Fn) ||
          is(TokenKind::Const) || is(TokenKind::Import));
}

SourceLocation TokenStream::span_from(uint32_t begin) const {
  const uint32_t end = position_ == 0 ? begin : tokens_[position_ - 1].location.end;
  return {current().location.file, begin, std::max(begin, end)};
}

void TokenStream::advance() {
  if (is(TokenKind::LeftParen) || is(TokenKind::LeftBracket)) ++brackets_;
  if ((is(TokenKind::RightParen) || is(TokenKind::RightBracket)) && brackets_ > 0) --brackets_;
  if (!is(TokenKind::End)) ++position_;
}

bool TokenStream::take(TokenKind kind) {
  if (!is(kind)) return false;
  advance();
  return true;
}

bool TokenStream::expect(TokenKind kind, Hint hint) {
  if (take(kind)) return true;
  error_expected(spelling(kind), std::move(hint));
  return false;
}

bool TokenStream::expect_closing(TokenKind kind, const Token& open) {
  if (take(kind)) return true;
  const std::string closing = spelling(kind);
  Hint hint = fmt::format("each {} has its {}", spelling(open.kind), closing);
  const bool argument = kind == TokenKind::RightParen && !open.starts_line;
  if (argument && is(TokenKind::Assign) && tokens_[position_ - 2].kind == TokenKind::Comma) {
    hint = "arguments go by their order; a cell's dims by name: `LSTM[H = 256](x)`";
  } else if (argument && is(TokenKind::Assign)) {
    hint = {"`=` gives a value; `==` compares", {{current().location, "=="}}};
  } else if (kind == TokenKind::RightBracket && is(TokenKind::Colon)) {
    hint = "a slice takes all between its ends, `v[a:b]`; every other one is no slice";
  } else if (kind == TokenKind::RightParen && is(TokenKind::Comma)) {
    hint = "arguments are not grouped: `concat(a, b)`; a vector of scalars is `[a, b]`";
  } else if ((is(TokenKind::Name) || is(TokenKind::Number)) && !current().starts_line) {
    hint = "a list has commas; a product is written with `*` or `@`";
    if (kind == TokenKind::RightBracket) hint.edits = {{end_of_last(), ","}};
  } else if (at_line_end() || current().starts_line) {
    hint.edits = {{end_of_last(), closing.substr(1, 1)}};
  }
  error_expected(closing, std::move(hint),
                 {{open.location, fmt::format("{} is open since here", spelling(open.kind))}});
  return false;
}

std::optional<ast::Identifier> TokenStream::expect_name(std::string_view what, Hint hint) {
  const Token& token = current();
  if (is_word(token.kind) && (!at_line_end() || token.kind >= TokenKind::Blocks)) {
    error_at(token.location,
             fmt::format("expected {}, but `{}` is a word of the language", what, token.text),
             {fmt::format("choose another name, such as `{}_`", token.text),
              {{token.location, fmt::format("{}_", token.text)}}});
    return std::nullopt;
  }
  if (token.kind != TokenKind::Name) {
    error_expected(what, std::move(hint));
    return std::nullopt;
  }
  if (token.text == "t") {
    error_at(token.location, "`t` is reserved: it is the time step",
             "choose another name, such as `time`");
    return std::nullopt;
  }
  ast::Identifier name{utf8::compose(token.text), token.location};
  advance();
  return name;
}

SourceLocation TokenStream::end_of_last() const {
  const SourceLocation last = before().location;
  return {last.file, last.end, last.end};
}

size_t TokenStream::distance_to_closing() const {
  int open = 0;
  for (size_t i = 0; ahead(i).kind != TokenKind::End && (i == 0 || !ahead(i).starts_line); ++i) {
    const TokenKind kind = ahead(i).kind;
    if (kind == TokenKind::LeftParen || kind == TokenKind::LeftBracket) ++open;
    if (kind == TokenKind::RightParen || kind == TokenKind::RightBracket) --open;
    if (open == 0) return i;
  }
  return 0;
}

bool TokenStream::line_has(TokenKind kind) const {
  for (size_t i = 0; ahead(i).kind != TokenKind::End && (i == 0 || !ahead(i).starts_line); ++i) {
    if (ahead(i).kind == kind) return true;
  }
  return false;
}

/// For a word of another language that stands here, or just before.
std::string_view TokenStream::habit_here() const {
  if (is(TokenKind::Name) && !current().starts_line) {
    if (const std::string_view hint = habits::of_word(current().text); !hint.empty()) return hint;
  }
  if (position_ == 0 || before().kind != TokenKind::Name) return "";
  if (is(TokenKind::LeftBrace) && before().text.ends_with('_')) {
    return "a step stands in square brackets: `h[t]`, `h[t-1]`";
  }
  return before().starts_line ? habits::of_word(before().text) : habits::of_value(before().text);
}

void TokenStream::error_expected(std::string_view what, Hint hint,
                                 std::vector<Diagnostic::Note> notes) {
  const Token& token = current();
  if (token.kind == TokenKind::Bad) return;
  SourceLocation location = token.location;
  std::string found = spelling(token.kind);
  if (token.kind == TokenKind::Name || token.kind == TokenKind::Number) {
    found = fmt::format("`{}`", token.text);
  }
  if (position_ > 0 && (token.starts_line || token.kind == TokenKind::End)) {
    location = end_of_last();
    if (token.kind != TokenKind::End) found = "the end of the line";
  }
  const std::string_view habit = hint.edits.empty() ? habit_here() : "";
  if (!habit.empty()) hint = std::string(habit);
  diagnostics_.report({Severity::Error, location, fmt::format("expected {}, found {}", what, found),
                       std::move(hint), std::move(notes)});
}

void TokenStream::error_at(SourceLocation location, std::string message, Hint hint,
                           std::vector<Diagnostic::Note> notes) {
  if (is(TokenKind::Bad)) return;
  diagnostics_.report(
      {Severity::Error, location, std::move(message), std::move(hint), std::move(notes)});
}

void TokenStream::skip_statement(size_t start) {
  int braces = 0;
  while (!is(TokenKind::End) && !at_margin_item()) {
    const bool fresh = current().starts_line && position_ > start;
    if (braces == 0 && (fresh || is(TokenKind::RightBrace))) break;
    if (is(TokenKind::LeftBrace)) ++braces;
    if (is(TokenKind::RightBrace)) --braces;
    advance();
  }
  brackets_ = 0;
}

void TokenStream::skip_item(size_t start) {
  while (!is(TokenKind::End) && (position_ == start || !at_item())) advance();
  brackets_ = 0;
}

bool TokenStream::enter() {
  if (++nesting_ <= kDeepestNesting) return true;
  error_at(current().location,
           fmt::format("this is nested more than {} levels deep", kDeepestNesting),
           "leave out brackets that change nothing, or give an inner part a name of its own");
  return false;
}

bool TokenStream::allows_depth(const ast::Expr& expr) {
  if (expr.depth <= kDeepestNesting) return true;
  error_at(expr.location,
           fmt::format("an expression of more than {} operations in a row", kDeepestNesting),
           "give a part of it a name of its own");
  return false;
}

}  // namespace rnnc
