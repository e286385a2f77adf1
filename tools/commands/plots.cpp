#include "tools/commands/plots.h"

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

// ---- Spreads ----

constexpr int kPlotHeight = 120;
constexpr int kAxisWidth = 80;
constexpr int kPlotWidth = kWidth - kAxisWidth - kMargin;

/// One chart's scales: steps to x, numbers to y.
struct Scale {
  double least = 0, most = 0;
  size_t steps = 0;
  int top = 0;

  double x(size_t step) const {
    const double last = static_cast<double>(std::max<size_t>(steps, 2) - 1);
    return kAxisWidth + kPlotWidth * static_cast<double>(step) / last;
  }
  double y(double value) const {
    const double range = most > least ? most - least : 1;
    return top + kPlotHeight * (1 - (value - least) / range);
  }
};

Scale scale_of(const SpreadChart& chart, int top) {
  Scale scale{.steps = chart.steps.size(), .top = top};
  bool is_first = true;
  for (const SpreadChart::Step& step : chart.steps) {
    if (step.empty) continue;
    scale.least = is_first ? step.least : std::min(scale.least, step.least);
    scale.most = is_first ? step.most : std::max(scale.most, step.most);
    is_first = false;
  }
  return scale;
}

/// The steps from `begin` on to the next gap.
size_t run_end(const std::vector<SpreadChart::Step>& steps, size_t begin) {
  size_t end = begin;
  while (end < steps.size() && !steps[end].empty) ++end;
  return end;
}

/// `low` and `high` of a step, as an area over steps [begin, end).
template <typename Low, typename High>
std::string area(const SpreadChart& chart, const Scale& scale, size_t begin, size_t end,
                 std::string_view kind, const Low& low, const High& high) {
  std::string points;
  const auto add = [&](size_t step, double value) {
    points += fmt::format("{:.1f},{:.1f} ", scale.x(step), scale.y(value));
  };
  for (size_t i = begin; i < end; ++i) add(i, high(chart.steps[i]));
  for (size_t i = end; i-- > begin;) add(i, low(chart.steps[i]));
  return fmt::format("<polygon class=\"{}\" points=\"{}\"/>\n", kind, points);
}

std::string draw(const SpreadChart& chart, int top) {
  using Step = SpreadChart::Step;
  const Scale scale = scale_of(chart, top + kTitleHeight);
  const int bottom = scale.top + kPlotHeight;
  std::string svg = fmt::format(
      "<text class=\"title\" x=\"{0}\" y=\"{1}\">{2}</text>\n"
      "<text class=\"note\" x=\"{0}\" y=\"{3}\">{4}</text>\n"
      "<text class=\"label\" x=\"{5}\" y=\"{6}\">{7:.3g}</text>\n"
      "<text class=\"label\" x=\"{5}\" y=\"{8}\">{9:.3g}</text>\n"
      "<text x=\"{10}\" y=\"{11}\">step 0</text>\n"
      "<text class=\"label\" x=\"{12}\" y=\"{11}\">{13}</text>\n",
      kMargin, top + 20, escape(chart.title), top + 40, escape(chart.note), kAxisWidth - 8,
      scale.top + 10, scale.most, bottom, scale.least, kAxisWidth, bottom + 18,
      kAxisWidth + kPlotWidth, std::max<size_t>(chart.steps.size(), 1) - 1);
  for (size_t begin = 0; begin < chart.steps.size();) {
    const size_t end = run_end(chart.steps, begin);
    svg += area(
        chart, scale, begin, end, "all", [](const Step& step) { return step.least; },
        [](const Step& step) { return step.most; });
    svg += area(
        chart, scale, begin, end, "most",
        [](const Step& step) { return std::max(step.least, step.mean - step.deviation); },
        [](const Step& step) { return std::min(step.most, step.mean + step.deviation); });
    std::string points;
    for (size_t i = begin; i < end; ++i) {
      points += fmt::format("{:.1f},{:.1f} ", scale.x(i), scale.y(chart.steps[i].mean));
    }
    svg += fmt::format("<polyline points=\"{}\"/>\n", points);
    begin = std::max(end, begin) + 1;
  }
  for (size_t i = 0; i < chart.steps.size(); ++i) {
    if (!chart.steps[i].marked) continue;
    svg += fmt::format("<line x1=\"{0:.1f}\" x2=\"{0:.1f}\" y1=\"{1}\" y2=\"{2}\"/>\n", scale.x(i),
                       scale.top, bottom);
  }
  return svg;
}

std::string picture(int height, std::string_view style, std::string_view body) {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" viewBox=\"0 0 {0} "
      "{1}\">\n"
      "<style>text {{ font: 13px sans-serif; fill: #222 }} .title {{ font-size: 16px }} "
      ".note {{ fill: #666 }} .label {{ text-anchor: end }}</style>\n{2}\n"
      "<rect width=\"{0}\" height=\"{1}\" style=\"fill: white\"/>\n"
      "{3}</svg>\n",
      kWidth, height, style, body);
}

}  // namespace

std::string draw_spreads(const std::vector<SpreadChart>& charts) {
  std::string body;
  int height = kMargin;
  for (const SpreadChart& chart : charts) {
    body += draw(chart, height);
    height += kTitleHeight + kPlotHeight + 2 * kMargin;
  }
  return picture(
      height,
      "<style>.all { fill: #d5e2ef } .most { fill: #9dbad8 } polyline { fill: none; stroke: "
      "#1f4f82; stroke-width: 1.5 } line { stroke: #c22 }</style>",
      body);
}

std::string draw_bars(const std::vector<BarChart>& charts) {
  std::string body;
  int height = kMargin;
  for (const BarChart& chart : charts) {
    body += draw(chart, height);
    height += height_of(chart);
  }
  return picture(height, "<style>rect { fill: #3b6ea5 }</style>", body);
}

}  // namespace rnnc::tools
