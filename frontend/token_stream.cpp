#include "frontend/token_stream.h"

#include <fmt/format.h>

namespace rnnc {
namespace {

constexpr int kDeepestNesting = 200;

bool is_word(TokenKind kind) {
  return kind >= TokenKind::Cell && kind <= TokenKind::As;
}

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

bool TokenStream::expect(TokenKind kind, std::string hint) {
  if (take(kind)) return true;
  error_expected(spelling(kind), std::move(hint));
  return false;
}

bool TokenStream::expect_closing(TokenKind kind, const Token& open) {
  if (take(kind)) return true;
  error_expected(spelling(kind), {},
                 {{open.location, fmt::format("{} is open since here", spelling(open.kind))}});
  return false;
}

std::optional<ast::Identifier> TokenStream::expect_name(std::string_view what) {
  const Token& token = current();
  if (is_word(token.kind) && !at_line_end()) {
    error_at(token.location,
             fmt::format("expected {}, but `{}` is a word of the language", what, token.text));
    return std::nullopt;
  }
  if (token.kind != TokenKind::Name) {
    error_expected(what);
    return std::nullopt;
  }
  if (token.text == "t") {
    error_at(token.location, "`t` is reserved: it is the time step",
             "choose another name, such as `time`");
    return std::nullopt;
  }
  ast::Identifier name{std::string(token.text), token.location};
  advance();
  return name;
}

void TokenStream::error_expected(std::string_view what, std::string hint,
                                 std::vector<Diagnostic::Note> notes) {
  const Token& token = current();
  if (token.kind == TokenKind::Bad) return;
  SourceLocation location = token.location;
  std::string found = spelling(token.kind);
  if (token.kind == TokenKind::Name || token.kind == TokenKind::Number) {
    found = fmt::format("`{}`", token.text);
  }
  if (position_ > 0 && (token.starts_line || token.kind == TokenKind::End)) {
    location.begin = location.end = tokens_[position_ - 1].location.end;
    if (token.kind != TokenKind::End) found = "the end of the line";
  }
  diagnostics_.report({Severity::Error, location, fmt::format("expected {}, found {}", what, found),
                       std::move(hint), std::move(notes)});
}

void TokenStream::error_at(SourceLocation location, std::string message, std::string hint,
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
           fmt::format("this is nested more than {} levels deep", kDeepestNesting));
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
