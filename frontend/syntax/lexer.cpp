#include "frontend/syntax/lexer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "frontend/syntax/habits.h"
#include "frontend/syntax/suggest.h"
#include "frontend/syntax/utf8.h"
#include "ir/base/name.h"

namespace rnnc {
namespace {

constexpr size_t kLongestName = 255;

struct Spelling {
  TokenKind kind;
  std::string_view text;
};

constexpr auto kWords = std::to_array<Spelling>({
    {TokenKind::Cell, "cell"},
    {TokenKind::Network, "network"},
    {TokenKind::Fn, "fn"},
    {TokenKind::Const, "const"},
    {TokenKind::Import, "import"},
    {TokenKind::State, "state"},
    {TokenKind::Param, "param"},
    {TokenKind::Blocks, "blocks"},
    {TokenKind::For, "for"},
    {TokenKind::In, "in"},
    {TokenKind::Reverse, "reverse"},
    {TokenKind::As, "as"},
});

// Longer ones first where one starts another.
constexpr auto kPunctuation = std::to_array<Spelling>({
    {TokenKind::DotDot, ".."},       {TokenKind::Arrow, "->"},     {TokenKind::LessEqual, "<="},
    {TokenKind::GreaterEqual, ">="}, {TokenKind::Equal, "=="},     {TokenKind::NotEqual, "!="},
    {TokenKind::LeftParen, "("},     {TokenKind::RightParen, ")"}, {TokenKind::LeftBracket, "["},
    {TokenKind::RightBracket, "]"},  {TokenKind::LeftBrace, "{"},  {TokenKind::RightBrace, "}"},
    {TokenKind::Comma, ","},         {TokenKind::Colon, ":"},      {TokenKind::Assign, "="},
    {TokenKind::Plus, "+"},          {TokenKind::Minus, "-"},      {TokenKind::Star, "*"},
    {TokenKind::Slash, "/"},         {TokenKind::At, "@"},         {TokenKind::Less, "<"},
    {TokenKind::Greater, ">"},
});

class Lexer {
 public:
  Lexer(const SourceFile& file, uint32_t file_index, Diagnostics& diagnostics)
      : text_(file.text()), file_(file_index), diagnostics_(diagnostics) {}

  std::vector<Token> run() {
    if (is_text()) {
      while (skip_blanks()) next_token();
    }
    at_ = text_.size();
    add(TokenKind::End, 0);
    return std::move(tokens_);
  }

 private:
  SourceLocation here(size_t length) const {
    return {file_, static_cast<uint32_t>(at_), static_cast<uint32_t>(at_ + length)};
  }
  std::string_view rest() const { return text_.substr(at_); }
  char peek(size_t ahead) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }

  bool is_text() {
    if (text_.size() > kLargestSource) {
      diagnostics_.error({file_, 0, 0},
                         fmt::format("the file has {} bytes, more than {} MiB", text_.size(),
                                     kLargestSource >> 20),
                         "its definitions can be parted into files: `import \"file.rnn\"`");
      return false;
    }
    for (at_ = 0; at_ < text_.size();) {
      const uint32_t length = text_[at_] == '\0' ? 0 : utf8::decode(rest()).length;
      if (length == 0) {
        const auto byte = static_cast<unsigned char>(text_[at_]);
        diagnostics_.error(here(1),
                           fmt::format("not a text file: byte {} is 0x{:02x}, "
                                       "which UTF-8 text does not have here",
                                       at_, byte),
                           "an editor saves it as UTF-8");
        return false;
      }
      at_ += length;
    }
    at_ = text_.starts_with("\xEF\xBB\xBF") ? 3 : 0;  // a byte order mark
    return true;
  }

  /// Blanks, line ends and comments. False at the end of the text.
  bool skip_blanks() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        starts_line_ = true;
        // A blank line parts a comment from what follows.
        if (!doc_.empty() && rest().find_first_not_of(" \t\r", 1) == rest().find('\n', 1)) {
          doc_.clear();
        }
        ++at_;
      } else if (c == ' ' || c == '\t' || c == '\r') {
        ++at_;
      } else if (rest().starts_with("//")) {
        skip_comment();
      } else {
        return true;
      }
    }
    return false;
  }

  /// `// 2`: a comment that says no more was hardly meant as one.
  static bool is_number(std::string_view text) {
    while (text.starts_with(' ')) text.remove_prefix(1);
    while (text.ends_with('\r') || text.ends_with(' ')) text.remove_suffix(1);
    return !text.empty() && std::ranges::all_of(text, is_digit);
  }

  void skip_comment() {
    std::string_view comment = rest().substr(0, rest().find('\n'));
    if (!starts_line_ && is_number(comment.substr(2))) {
      diagnostics_.warning(here(comment.size()),
                           fmt::format("`{}` is a comment, not a division", comment),
                           "division is `/`; a whole quotient is `floor(a / b)`");
    }
    at_ += comment.size();
    if (!comment.starts_with("///")) return;
    comment.remove_prefix(3);
    if (comment.starts_with(' ')) comment.remove_prefix(1);
    if (comment.ends_with('\r')) comment.remove_suffix(1);
    doc_ += comment;
    doc_ += '\n';
  }

  void next_token() {
    const bool after_import = !tokens_.empty() && tokens_.back().kind == TokenKind::Import;
    if (after_import && !starts_line_ && peek(0) != '"') return unquoted();
    if (is_digit(peek(0))) return number();
    if (name_length() > 0) return name();
    if (peek(0) == '"') return string();
    if (const habits::Operator* habit = habits::find_operator(rest())) {
      if (!at_margin_comment() && rest().substr(0, 2) != "!=") return habitual(*habit);
    }
    const Spelling* known = punctuation(rest());
    known != nullptr ? add(known->kind, known->text.size()) : stray_character();
  }

  static const Spelling* punctuation(std::string_view text) {
    const auto* found = std::ranges::find_if(
        kPunctuation, [text](const Spelling& known) { return text.starts_with(known.text); });
    return found == kPunctuation.end() ? nullptr : found;
  }

  void add(TokenKind kind, size_t length) {
    if (kind == TokenKind::LeftParen || kind == TokenKind::LeftBracket) ++brackets_;
    if (kind == TokenKind::RightParen || kind == TokenKind::RightBracket) --brackets_;
    if (kind == TokenKind::LeftBrace) brackets_ = 0;
    Token token;
    token.kind = kind;
    token.location = here(length);
    token.starts_line = std::exchange(starts_line_, false);
    token.indented = at_ > 0 && text_[at_ - 1] != '\n';
    token.text = rest().substr(0, length);
    token.doc = std::exchange(doc_, {});
    tokens_.push_back(std::move(token));
    at_ += length;
  }

  void error(size_t length, std::string message, Hint hint = {}) {
    diagnostics_.error(here(length), std::move(message), std::move(hint));
  }
  void bad(size_t length, std::string message, Hint hint = {}) {
    error(length, std::move(message), std::move(hint));
    add(TokenKind::Bad, length);
  }
  /// "write `text`", with the edit.
  Hint write(size_t length, const std::string& text) const {
    return {fmt::format("write `{}`", text), {{here(length), text}}};
  }

  /// Bytes of the name or word that starts here, 0 if none does.
  size_t name_length(size_t from = 0) const {
    size_t length = from;
    while (at_ + length < text_.size()) {
      const utf8::Character character = utf8::decode(rest().substr(length));
      const bool goes_on = length == 0 ? utf8::starts_name(character.code_point)
                                       : utf8::continues_name(character.code_point);
      if (!goes_on) break;
      length += character.length;
    }
    return length - from;
  }

  void name() {
    const size_t length = name_length();
    if (length > kLongestName) {
      return bad(length, fmt::format("a name of {} bytes, more than {}", length, kLongestName),
                 "choose a shorter one");
    }
    const std::string_view text = rest().substr(0, length);
    const auto* word = std::ranges::find(kWords, text, &Spelling::text);
    add(word == kWords.end() ? TokenKind::Name : word->kind, length);
  }

  // NUMBER := DIGITS [ "." DIGITS ] [ ("e" | "E") [ "+" | "-" ] DIGITS ]
  void number() {
    const auto digits = [&](size_t from) {
      while (is_digit(peek(from))) ++from;
      return from;
    };
    size_t length = digits(0);
    if (peek(length) == '.' && peek(length + 1) != '.') {
      if (is_digit(peek(length + 1))) {
        length = digits(length + 1);
      } else {
        error(length + 1, "a number has digits on both sides of the dot",
              write(length + 1, fmt::format("{}.0", rest().substr(0, length))));
        return add_number(length, 1);
      }
    }
    if (peek(length) == 'e' || peek(length) == 'E') {
      const size_t sign = peek(length + 1) == '+' || peek(length + 1) == '-' ? 1 : 0;
      if (is_digit(peek(length + 1 + sign))) length = digits(length + 1 + sign);
    }
    if (const size_t letters = name_length(length); letters > 0) {
      const std::string_view written = rest().substr(0, length + letters);
      std::string plain(written);
      std::erase(plain, '_');
      const bool parted = std::ranges::all_of(plain, is_digit);
      const std::string_view unit = rest().substr(length, letters);
      return bad(
          length + letters,
          fmt::format("`{}` is neither a number nor a name", written.substr(0, kLongestName)),
          parted ? write(length + letters, plain)
          : unit == "j" || unit == "im"
              ? Hint("numbers are real; a complex one is two values, its real and its imaginary "
                     "part")
              : Hint("a name does not start with a digit, and a product is written with "
                     "`*`"));
    }
    add_number(length);
  }

  /// A number of `length` bytes, and `more` that follow it and count for nothing.
  void add_number(size_t length, size_t more = 0) {
    double value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, begin + length, value);
    if (error == std::errc::result_out_of_range && !is_tiny(rest().substr(0, length))) {
      return bad(length, "the number is too large for a float64", "the largest is about `1.8e308`");
    }
    add(TokenKind::Number, length + more);
    tokens_.back().number = value;
    tokens_.back().text.remove_suffix(more);
  }

  /// Whether a number out of float64's range is too small, not too large. It counts as 0 then.
  static bool is_tiny(std::string_view text) {
    const size_t exponent = text.find_first_of("eE");
    if (exponent != std::string_view::npos) return text[exponent + 1] == '-';
    return text.starts_with("0.");
  }

  void string() {
    const std::string_view line = rest().substr(0, rest().find('\n'));
    const size_t close = line.find('"', 1);
    if (close == std::string_view::npos) {
      return bad(line.size(), "the text in quotes has no end on this line",
                 "it ends with a second `\"`");
    }
    for (size_t i = 1; i < close;) {
      const utf8::Character character = utf8::decode(line.substr(i));
      if (!utf8::is_printable(character.code_point)) {
        return bad(close + 1, "the text in quotes has a control character",
                   "files are named with letters, digits and signs that one sees");
      }
      i += character.length;
    }
    add(TokenKind::String, close + 1);
    tokens_.back().text = tokens_.back().text.substr(1, close - 1);
  }

  /// `import lstm.rnn`: one mistake, whatever the name is made of.
  void unquoted() {
    const std::string_view name = rest().substr(0, rest().find_first_of(" \t\r\n"));
    std::string file(name);
    for (const std::string_view quote : {"'", "`", "“", "”", "‘", "’", "\"", ";"}) {
      for (size_t at = 0; (at = file.find(quote)) != std::string::npos;)
        file.erase(at, quote.size());
    }
    if (!file.ends_with(".rnn")) file += ".rnn";
    bad(name.size(), "the file to import stands in quotes",
        {"write `import \"file.rnn\"`", {{here(name.size()), "\"" + file + "\""}}});
  }

  // --- What is no token.

  /// MATLAB's comments: `%` where a line starts.
  bool at_margin_comment() const { return starts_line_ && peek(0) == '%'; }

  /// An operator of other languages. Where it means just one of this language, reading goes on with
  /// that, so that a line with two mistakes shows both.
  void habitual(const habits::Operator& habit) {
    size_t length = habit.written.size();
    if (habit.written == "=>" && in_header()) {
      error(length, no_meaning("=>"), write(length, "->"));
      return add(TokenKind::Arrow, length);
    }
    if (habit.meant.empty()) {  // `&&` is one mistake, not two
      while (rest().substr(length).starts_with(habit.written)) length += habit.written.size();
    }
    error(length, no_meaning(rest().substr(0, length)),
          habit.hint.empty() ? write(length, std::string(habit.meant))
                             : Hint(std::string(habit.hint)));
    const Spelling* known = habit.meant.empty() ? nullptr : punctuation(habit.meant);
    add(known != nullptr ? known->kind : TokenKind::Bad, length);
  }

  bool in_header() const {
    const auto first = std::find_if(tokens_.rbegin(), tokens_.rend(),
                                    [](const Token& token) { return token.starts_line; });
    return first != tokens_.rend() &&
           (first->kind == TokenKind::Cell || first->kind == TokenKind::Network);
  }

  void stray_character() {
    const utf8::Character decoded = utf8::decode(rest());
    const std::string_view character = rest().substr(0, decoded.length);
    if (character == ".") return dot();
    if (character == "#" || at_margin_comment()) return foreign_comment();
    if (character == ";") return semicolon();
    if (character == "'") return apostrophe();
    const std::string plain = utf8::compose_compatible(character);
    if (plain == " ") {
      error(decoded.length,
            fmt::format("a blank that is none here (U+{:04X})",
                        static_cast<uint32_t>(decoded.code_point)),
            {"write an ordinary blank", {{here(decoded.length), " "}}});
      at_ += decoded.length;
    } else if (!utf8::is_printable(decoded.code_point)) {
      error(
          decoded.length,
          fmt::format("a control character (U+{:04X})", static_cast<uint32_t>(decoded.code_point)),
          {"it does not show; leave it out", {{here(decoded.length), ""}}});
      at_ += decoded.length;
    } else if (plain.size() == 1 && plain != character) {
      const Spelling* known = punctuation(plain);
      error(decoded.length, no_meaning(character), write(decoded.length, plain));
      add(known != nullptr ? known->kind : TokenKind::Bad, decoded.length);
    } else {
      bad(decoded.length, no_meaning(character),
          "names are letters, digits and `_`; operators are `+ - * / @` and comparisons");
    }
  }

  static std::string no_meaning(std::string_view text) {
    const bool ascii = static_cast<unsigned char>(text[0]) < 0x80;
    return fmt::format("{} has no meaning here",
                       ascii ? fmt::format("`{}`", text) : describe_character(text));
  }

  /// `# comment`, `% comment`.
  void foreign_comment() {
    error(1, no_meaning(rest().substr(0, 1)), {"a comment starts with `//`", {{here(1), "//"}}});
    at_ += std::min(rest().find('\n'), rest().size());
  }

  void semicolon() {
    const bool list = brackets_ > 0;
    const std::string_view line = rest().substr(1, rest().find('\n') - 1);
    const bool last = line.find_first_not_of(" \t\r") == std::string_view::npos;
    error(1, no_meaning(";"),
          list ? Hint("the parts of a list have commas between them", {{here(1), ","}})
               : Hint("a statement ends with its line", {{here(1), last ? "" : "\n"}}));
    if (list) return add(TokenKind::Comma, 1);
    ++at_;
    starts_line_ = true;
  }

  /// A quote, or a prime after a name.
  void apostrophe() {
    if (follows_value()) {
      return bad(1, no_meaning("'"),
                 "a state's new value is `h[t]`, its old one `h[t-1]`; `transpose(W)` transposes");
    }
    const std::string_view line = rest().substr(0, rest().find('\n'));
    const size_t close = line.find('\'', 1);
    bad(close == std::string_view::npos ? 1 : close + 1, "text has no meaning here",
        "numbers and names stand without quotes");
  }

  bool follows_value() const {
    if (tokens_.empty() || tokens_.back().location.end != at_) return false;
    const TokenKind kind = tokens_.back().kind;
    return kind == TokenKind::Name || kind == TokenKind::RightParen ||
           kind == TokenKind::RightBracket;
  }

  /// `.5`, `torch.tanh`, `W.T`, `v.sum()`.
  void dot() {
    size_t length = 1;
    if (is_digit(peek(1))) {
      while (is_digit(peek(length))) ++length;
      const std::string number = fmt::format("0{}", rest().substr(0, length));
      error(length, "a number has digits on both sides of the dot", write(length, number));
      add(TokenKind::Number, length);
      std::from_chars(number.data(), number.data() + number.size(), tokens_.back().number);
      return;
    }
    size_t last = 1;  // where the last name of `.a.b.c` starts
    size_t next = 1;
    while (const size_t name = name_length(next)) {
      last = next;
      length = next + name;
      if (peek(length) != '.') break;
      next = length + 1;
    }
    if (length == 1 || !follows_value()) {
      return bad(1, no_meaning("."), "a dot stands in numbers alone, and twice in a range: `0..L`");
    }
    member(rest().substr(last, length - last), length);
  }

  void member(std::string_view name, size_t length) {
    const Token owner = tokens_.back();
    const bool named = owner.kind == TokenKind::Name;
    const uint32_t begin = named ? owner.location.begin : static_cast<uint32_t>(at_);
    SourceLocation place = {file_, begin, static_cast<uint32_t>(at_ + length)};
    const std::string message = no_meaning(text_.substr(place.begin, place.end - place.begin));
    if (named && habits::is_module(owner.text)) {
      const SourceLocation before = {file_, begin, static_cast<uint32_t>(place.end - name.size())};
      const std::string_view habit = habits::of_function(name);
      diagnostics_.error(place, message,
                         !habit.empty()
                             ? Hint(std::string(habit))
                             : Hint(fmt::format("names stand alone: `{}`", name), {{before, ""}}));
      tokens_.pop_back();
      starts_line_ = owner.starts_line;
      at_ += length - name.size();
      return this->name();
    }
    const bool call = rest().substr(length).starts_with("(");
    if (name == "t" && !call) {
      diagnostics_.error(place, message,
                         {"a step stands in square brackets: `h[t]`", {{here(length), "[t]"}}});
    } else if (name == "T" || name == "t" || name == "mT" || name == "transpose") {
      std::string text = fmt::format("transpose({})", owner.text);
      if (rest().substr(length).starts_with("()")) place.end += 2;
      diagnostics_.error(place, message,
                         named ? Hint(fmt::format("write `{}`", text), {{place, text}})
                               : Hint("the transposed matrix is `transpose(W)`"));
    } else if (const std::string_view habit = habits::of_member(name); !habit.empty()) {
      diagnostics_.error(place, message, std::string(habit));
    } else {
      diagnostics_.error(place, message,
                         fmt::format("nothing has members; a function stands in front of its "
                                     "argument: `{}({})`",
                                     name, named ? owner.text : "v"));
    }
    add(TokenKind::Bad, length);
  }

  std::string_view text_;
  uint32_t file_;
  Diagnostics& diagnostics_;
  size_t at_ = 0;
  bool starts_line_ = true;
  int brackets_ = 0;  // open ( and [, as far as they match
  std::string doc_;
  std::vector<Token> tokens_;
};

}  // namespace

std::string spelling(TokenKind kind) {
  switch (kind) {
    case TokenKind::End:
      return "the end of the file";
    case TokenKind::Name:
      return "a name";
    case TokenKind::Number:
      return "a number";
    case TokenKind::String:
      return "text in quotes";
    case TokenKind::Bad:
      return "something unreadable";
    default:
      break;
  }
  for (const Spelling& word : kWords) {
    if (word.kind == kind) return fmt::format("`{}`", word.text);
  }
  const auto* found = std::ranges::find(kPunctuation, kind, &Spelling::kind);
  return fmt::format("`{}`", found->text);
}

std::vector<Token> lex(const SourceFile& file, uint32_t file_index, Diagnostics& diagnostics) {
  return Lexer(file, file_index, diagnostics).run();
}

}  // namespace rnnc
