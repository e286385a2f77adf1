/// One style for .rnn files: what `rnnc fmt` writes.
///
///     cell A[H](x:[H])->h{            cell A[H](x: [H]) -> h {
///         state h : [H] // kept         state h: [H]  // kept
///
///                                  →
///                                       h[t] = x[t] + h[t-1]
///         h[t]=x[t]+h[ t - 1 ]        }
///     }
#pragma once

#include <string>

#include "ir/base/source_file.h"

namespace rnnc {

/// The text in that style, for a file without syntax errors. Tokens and comments stay as they are
/// and in their order; only blanks and line ends between them change, and of these none that ends a
/// statement. Formatting the result changes nothing.
std::string format_source(const SourceFile& file);

}  // namespace rnnc
