#include "tools/commands/bench_plot.h"

#include <fmt/format.h>

#include <algorithm>

namespace rnnc::tools {
namespace {

// Of the picture, in pixels.
constexpr int kWidth = 760;
constexpr int kLabelWidth = 110;
constexpr int kBarWidth = 480;  // of the longest
constexpr int kRow = 26;
constexpr int kBarHeight = 18;
constexpr int kTitleHeight = 52;
constexpr int kMargin = 16;

std::string escape(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    if (c == '&') {
      escaped += "&amp;";
    } else if (c == '<') {
      escaped += "&lt;";
    } else {
      escaped += c;
    }
  }
  return escaped;
}

int height_of(const BarChart& chart) {
  return kTitleHeight + static_cast<int>(chart.bars.size()) * kRow + kMargin;
}

std::string draw(const BarChart& chart, int top) {
  double longest = 0;
  for (const Bar& bar : chart.bars) longest = std::max(longest, bar.length);
  std::string svg = fmt::format(
      "<text class=\"title\" x=\"{0}\" y=\"{1}\">{2}</text>\n"
      "<text class=\"note\" x=\"{0}\" y=\"{3}\">{4}</text>\n",
      kMargin, top + 20, escape(chart.title), top + 40, escape(chart.note));
  int y = top + kTitleHeight;
  for (const Bar& bar : chart.bars) {
    const double width = longest > 0 ? std::max(bar.length / longest * kBarWidth, 1.0) : 1.0;
    svg += fmt::format(
        "<text class=\"label\" x=\"{}\" y=\"{}\">{}</text>\n"
        "<rect x=\"{}\" y=\"{}\" width=\"{:.1f}\" height=\"{}\"/>\n"
        "<text x=\"{:.1f}\" y=\"{}\">{}</text>\n",
        kLabelWidth - 8, y + 14, escape(bar.label), kLabelWidth, y, width, kBarHeight,
        kLabelWidth + width + 8, y + 14, escape(bar.value));
    y += kRow;
  }
  return svg;
}

}  // namespace

std::string draw_bars(const std::vector<BarChart>& charts) {
  std::string body;
  int height = kMargin;
  for (const BarChart& chart : charts) {
    body += draw(chart, height);
    height += height_of(chart);
  }
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\">\n"
      "<style>text {{ font: 13px sans-serif; fill: #222 }} .title {{ font-size: 16px }} "
      ".note {{ fill: #666 }} .label {{ text-anchor: end }} rect {{ fill: #3b6ea5 }}</style>\n"
      "<rect width=\"{0}\" height=\"{1}\" style=\"fill: white\"/>\n"
      "{2}</svg>\n",
      kWidth, height, body);
}

}  // namespace rnnc::tools
