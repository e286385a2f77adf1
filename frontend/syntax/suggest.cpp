#include "frontend/syntax/suggest.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "frontend/syntax/utf8.h"

namespace rnnc {
namespace {

/// Letters, and below each the ASCII one that most fonts draw the same. Other forms of a letter
/// (fullwidth, mathematical) are found by normalisation.
constexpr std::u32string_view kLookAlikes =
    U"асеорхуіјѕһԁԛԝѵАВСЕНІЈКМОРЅТХҮ"  // Cyrillic
    U"αγηικνορτυχωϲϳΑΒΕΖΗΙΚΜΝΟΡΤΥΧ"    // Greek
    U"ıɑɡ";                            // Latin
constexpr std::string_view kTheirLooks =
    "aceopxyijshdqwvABCEHIJKMOPSTXY"
    "aynikvoptuxwcjABEZHIKMNOPTYX"
    "iag";
static_assert(kLookAlikes.size() == kTheirLooks.size());

struct Alphabet {
  char32_t first;
  char32_t last;
  std::string_view name;
};

constexpr auto kAlphabets = std::to_array<Alphabet>({
    {0x0370, 0x03FF, "Greek"},
    {0x0400, 0x052F, "Cyrillic"},
    {0x2100, 0x214F, "letter-like"},
    {0xFF01, 0xFF5E, "fullwidth"},
    {0x1D400, 0x1D7FF, "mathematical"},
});

/// "the Cyrillic `х` (U+0445)": the first character that only looks like its ASCII one.
std::string odd_letter(std::string_view name) {
  for (size_t at = 0; at < name.size();) {
    const utf8::Character character = utf8::decode(name.substr(at));
    const std::string_view text = name.substr(at, character.length);
    at += character.length;
    if (character.code_point < 0x80 || ascii_look(text) == text) continue;
    for (const Alphabet& alphabet : kAlphabets) {
      if (character.code_point < alphabet.first || character.code_point > alphabet.last) continue;
      return fmt::format("the {} {}", alphabet.name, describe_character(text));
    }
    return describe_character(text);
  }
  return "";
}

}  // namespace

std::string ascii_look(std::string_view name) {
  const bool ascii = std::ranges::all_of(name, [](char c) { return (c & 0x80) == 0; });
  if (ascii) return std::string(name);
  const std::string plain = utf8::compose_compatible(name);
  std::string look;
  for (size_t at = 0; at < plain.size();) {
    const utf8::Character character = utf8::decode(std::string_view(plain).substr(at));
    const size_t found = kLookAlikes.find(character.code_point);
    if (found == std::u32string_view::npos) {
      look += plain.substr(at, character.length);
    } else {
      look += kTheirLooks[found];
    }
    at += character.length;
  }
  return look;
}

std::string describe_character(std::string_view character) {
  return fmt::format("`{}` (U+{:04X})", character,
                     static_cast<uint32_t>(utf8::decode(character).code_point));
}

Hint did_you_mean(SourceLocation place, std::string_view name,
                  const std::vector<std::string>& candidates, Hint otherwise) {
  const std::string look = ascii_look(name);
  for (const std::string& candidate : candidates) {
    if (candidate == name || ascii_look(candidate) != look) continue;
    const std::string here = odd_letter(name);
    return {here.empty()
                ? fmt::format("did you mean `{}`, with {}?", candidate, odd_letter(candidate))
                : fmt::format("did you mean `{}`? Here stands {}", candidate, here),
            {{place, candidate}}};
  }
  const std::string nearest = nearest_name(name, candidates);
  if (nearest.empty()) return otherwise;
  return {fmt::format("did you mean `{}`?", nearest), {{place, nearest}}};
}

}  // namespace rnnc
