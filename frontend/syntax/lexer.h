/// Text to tokens.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "frontend/syntax/diagnostics.h"
#include "frontend/syntax/source.h"

namespace rnnc {

enum class TokenKind : uint8_t {
  End,
  Name,
  Number,
  String,
  Bad,  // already reported; the parser gives up here without a second error
  // Words of the language.
  Cell,
  Network,
  Fn,
  Const,
  Import,
  State,
  Param,
  Blocks,
  For,
  In,
  Reverse,
  As,
  // Punctuation.
  LeftParen,
  RightParen,
  LeftBracket,
  RightBracket,
  LeftBrace,
  RightBrace,
  Comma,
  Colon,
  DotDot,
  Arrow,
  Assign,
  Plus,
  Minus,
  Star,
  Slash,
  At,
  Less,
  LessEqual,
  Greater,
  GreaterEqual,
  Equal,
  NotEqual,
};

/// Whether it is a word of the language.
constexpr bool is_word(TokenKind kind) {
  return kind >= TokenKind::Cell && kind <= TokenKind::As;
}

/// How the kind is spelled, for errors: "`->`", "a name".
std::string spelling(TokenKind kind);

struct Token {
  TokenKind kind = TokenKind::End;
  SourceLocation location;
  bool starts_line = false;  // first on its line: a statement ends before it, outside brackets
  bool indented = false;     // not at the line's first character
  double number = 0;         // Number
  std::string_view text;     // Name and Number as written; String without its quotes
  std::string doc;           // the `///` comment above, one line per line, without the slashes
};

/// All tokens of `file`, the last one `End`. Reports what is no token as it goes; a file that is
/// not text gives one error and no tokens. The texts point into `file`.
std::vector<Token> lex(const SourceFile& file, uint32_t file_index, Diagnostics& diagnostics);

}  // namespace rnnc
