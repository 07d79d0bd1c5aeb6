#include "services/cli/bench/svg.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_format.h"
#include "services/cli/bench/axis.h"
#include "services/cli/format.h"

namespace baton::cli {
namespace {

constexpr double kWidth = 860, kLeft = 80, kRight = 30, kPlotHeight = 270, kTitleHeight = 34, kAxisHeight = 52;
constexpr double kLegendLine = 18, kRowHeight = 30, kHeader = 26, kFactLine = 17, kMargin = 16;
constexpr size_t kLegendColumns = 3;
// Okabe and Ito's palette, black last.
constexpr std::array<const char*, 8> kColors = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                                "#E69F00", "#56B4E9", "#8C6D31", "#000000"};

std::string ColorOf(size_t index) { return kColors[index % kColors.size()]; }

std::string Escaped(const std::string& text) {
  std::string out;
  for (const char c : OneLine(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

// A document that grows downwards.
class Page {
 public:
  void Text(double x, double y, const std::string& text, const std::string& attributes = "") {
    body_ += absl::StrFormat("<text x=\"%.1f\" y=\"%.1f\" %s>%s</text>\n", x, y, attributes, Escaped(text));
  }
  void Line(double x1, double y1, double x2, double y2, const std::string& color, double width = 1) {
    body_ +=
        absl::StrFormat("<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"%s\" stroke-width=\"%g\"/>\n",
                        x1, y1, x2, y2, color, width);
  }
  void Box(double x, double y, double width, double height, const std::string& color) {
    body_ += absl::StrFormat(
        "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"%s\" stroke=\"white\" "
        "stroke-width=\"1\"/>\n",
        x, y, width, height, color);
  }
  void Add(const std::string& element) { body_ += element; }
  void Down(double by) { y_ += by; }
  double y() const { return y_; }

  std::string Document() const {
    return absl::StrFormat(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
               "font-family=\"Helvetica, Arial, DejaVu Sans, sans-serif\" font-size=\"12\" fill=\"#222\">\n"
               "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
               kWidth, y_ + kMargin, kWidth, y_ + kMargin) +
           body_ + "</svg>\n";
  }

 private:
  std::string body_;
  double y_ = kMargin;
};

constexpr char kBold[] = "font-weight=\"bold\" font-size=\"14\"";
constexpr char kMiddle[] = "text-anchor=\"middle\"";
constexpr char kEnd[] = "text-anchor=\"end\"";

void DrawXAxis(Page& page, const Axis& axis, const std::string& label, double top, double bottom) {
  const double span = kWidth - kLeft - kRight;
  double labelled = -1e9;
  for (const double tick : axis.ticks()) {
    const double x = kLeft + axis.Place(tick) * span;
    page.Line(x, top, x, bottom + 4, "#e4e4e4");
    if (x - labelled < 44) continue;  // labels of many ticks would run into each other
    page.Text(x, bottom + 18, TickLabel(tick), kMiddle);
    labelled = x;
  }
  page.Line(kLeft, bottom, kWidth - kRight, bottom, "#444");
  page.Text(kLeft + span / 2, bottom + 38, label, kMiddle);
}

void DrawSeries(Page& page, const Series& series, size_t index, const Axis& x_axis, const Axis& y_axis, double bottom) {
  const double span = kWidth - kLeft - kRight;
  std::string path;
  double last_y = 0;
  size_t shown = 0;
  std::string markers;
  for (const auto& [x, y] : series.points) {
    const double px = kLeft + x_axis.Place(x) * span, py = bottom - y_axis.Place(y) * kPlotHeight;
    if (!std::isfinite(px) || !std::isfinite(py)) continue;
    if (shown > 0 && series.steps) path += absl::StrFormat("L%.1f %.1f", px, last_y);
    path += absl::StrFormat("%s%.1f %.1f", shown == 0 ? "M" : "L", px, py);
    markers += absl::StrFormat("<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n", px, py, ColorOf(index));
    last_y = py;
    ++shown;
  }
  if (shown == 0) return;
  page.Add(absl::StrFormat("<path d=\"%s\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"/>\n", path, ColorOf(index)));
  if (shown <= 40 && !series.steps) page.Add(markers);
}

void DrawLegend(Page& page, const std::vector<std::string>& names) {
  const double column = (kWidth - kLeft - kRight) / kLegendColumns;
  for (size_t i = 0; i < names.size(); ++i) {
    const double x = kLeft + static_cast<double>(i % kLegendColumns) * column;
    const double y = page.y() + static_cast<double>(i / kLegendColumns) * kLegendLine;
    page.Box(x, y - 9, 14, 10, ColorOf(i));
    page.Text(x + 20, y, names[i]);
  }
  page.Down(kLegendLine * static_cast<double>((names.size() + kLegendColumns - 1) / kLegendColumns));
}

void Draw(Page& page, const LineChart& chart) {
  std::vector<double> xs, ys;
  std::vector<std::string> names;
  for (const Series& series : chart.series) {
    names.push_back(series.name);
    for (const auto& [x, y] : series.points) {
      xs.push_back(x);
      ys.push_back(y);
    }
  }
  const Axis x_axis(xs, chart.log_x), y_axis(ys, chart.log_y);
  page.Down(kTitleHeight);
  page.Text(kLeft, page.y() - 12, chart.title, kBold);
  const double top = page.y(), bottom = top + kPlotHeight;
  DrawXAxis(page, x_axis, chart.x_label, top, bottom);
  for (const double tick : y_axis.ticks()) {
    const double y = bottom - y_axis.Place(tick) * kPlotHeight;
    page.Line(kLeft - 4, y, kWidth - kRight, y, "#e4e4e4");
    page.Text(kLeft - 8, y + 4, TickLabel(tick), kEnd);
  }
  page.Line(kLeft, top, kLeft, bottom, "#444");
  page.Text(0, 0, chart.y_label,
            absl::StrFormat("text-anchor=\"middle\" transform=\"translate(%.1f %.1f) rotate(-90)\"", 18.0,
                            top + kPlotHeight / 2));
  for (size_t i = 0; i < chart.series.size(); ++i) DrawSeries(page, chart.series[i], i, x_axis, y_axis, bottom);
  page.Down(kPlotHeight + kAxisHeight);
  page.Down(8);
  DrawLegend(page, names);
}

void Draw(Page& page, const Timeline& timeline) {
  std::vector<double> xs = {0, timeline.end};
  for (const Timeline::Row& row : timeline.rows) {
    for (const Timeline::Bar& bar : row.bars) xs.push_back(bar.end);
  }
  const Axis axis(xs, false);
  const double span = kWidth - kLeft - kRight;
  page.Down(kTitleHeight);
  page.Text(kLeft, page.y() - 12, timeline.title, kBold);
  const double top = page.y(), bottom = top + kRowHeight * static_cast<double>(timeline.rows.size());
  DrawXAxis(page, axis, timeline.x_label, top, bottom);
  for (size_t i = 0; i < timeline.rows.size(); ++i) {
    const double y = top + kRowHeight * static_cast<double>(i);
    page.Text(kLeft - 8, y + kRowHeight / 2 + 4, timeline.rows[i].name, kEnd);
    for (const Timeline::Bar& bar : timeline.rows[i].bars) {
      const double x = kLeft + axis.Place(bar.begin) * span,
                   width = (axis.Place(bar.end) - axis.Place(bar.begin)) * span;
      page.Box(x, y + 3, width, kRowHeight - 6, ColorOf(bar.color));
      if (width > 14) {
        page.Text(x + width / 2, y + kRowHeight / 2 + 4, bar.label, "text-anchor=\"middle\" fill=\"white\"");
      }
    }
  }
  page.Down(bottom - top + kAxisHeight);
}

}  // namespace

std::string ReportSvg(const BenchReport& report) {
  Page page;
  page.Down(kHeader);
  page.Text(kLeft, page.y() - 8, report.title, "font-weight=\"bold\" font-size=\"16\"");
  for (const auto& [name, value] : report.settings) {
    page.Down(kFactLine);
    page.Text(kLeft, page.y() - 8, name + ": " + value, "fill=\"#666\" font-size=\"11\"");
  }
  for (const auto& picture : report.pictures) {
    std::visit([&page](const auto& drawn) { Draw(page, drawn); }, picture);
  }
  return page.Document();
}

}  // namespace baton::cli
