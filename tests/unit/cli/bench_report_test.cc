#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <regex>

#include "nlohmann/json.hpp"
#include "services/cli/bench/axis.h"
#include "services/cli/bench/report.h"
#include "services/cli/bench/svg.h"

namespace baton::cli {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

BenchReport Example() {
  BenchReport report{.name = "example", .title = "A < B & \"C\""};
  report.settings = {{"machine", "two cores"}};
  report.tables.push_back({.title = "Rates",
                           .columns = {{"mode"}, {"tokens/s", 1}},
                           .rows = {{std::string("static"), 12.345}, {std::string("none"), std::nan("")}}});
  report.AddCheck("the same tokens", true);
  return report;
}

TEST(Report, TextAlignsNumbersAndShowsWhatIsMissing) {
  const std::string text = ReportText(Example());
  EXPECT_THAT(text, HasSubstr("machine  two cores\n"));
  EXPECT_THAT(text, HasSubstr("  mode    tokens/s\n"
                              "  static      12.3\n"
                              "  none           -\n"));
  EXPECT_THAT(text, HasSubstr("holds   the same tokens\n"));
}

TEST(Report, ABrokenStatementMakesItFail) {
  BenchReport report = Example();
  EXPECT_TRUE(report.ok());
  report.AddCheck("two is three", false);
  EXPECT_FALSE(report.ok());
  EXPECT_THAT(ReportText(report), HasSubstr("BROKEN  two is three\n"));
  EXPECT_FALSE(nlohmann::json::parse(ReportJson(report))["ok"].get<bool>());
}

TEST(Report, JsonKeepsWholeNumbersByColumn) {
  const auto json = nlohmann::json::parse(ReportJson(Example()));
  EXPECT_EQ(json["settings"]["machine"], "two cores");
  EXPECT_EQ(json["tables"][0]["rows"][0]["tokens/s"], 12.345);
  EXPECT_TRUE(json["tables"][0]["rows"][1]["tokens/s"].is_null());
  EXPECT_EQ(json["checks"][0]["holds"], true);
}

TEST(Axis, TicksAreRoundAndCoverTheValues) {
  const Axis axis({0.3, 9.7}, false);
  EXPECT_THAT(axis.ticks(), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_EQ(axis.Place(0), 0);
  EXPECT_EQ(axis.Place(5), 0.5);
  EXPECT_EQ(axis.Place(10), 1);
}

TEST(Axis, LogarithmicTicksArePowers) {
  EXPECT_THAT(Axis({64, 1024}, true).ticks(), ElementsAre(64, 128, 256, 512, 1024));
  const Axis wide({1, 50'000}, true);
  EXPECT_THAT(wide.ticks(), ElementsAre(1, 10, 100, 1000, 10'000, 100'000));
  EXPECT_NEAR(wide.Place(100), 0.4, 1e-12);
}

TEST(Axis, DegenerateValuesStillGiveAnAxis) {
  const std::vector<std::vector<double>> cases = {{}, {5}, {0}, {std::nan("")}, {-3, -3}};
  for (const std::vector<double>& values : cases) {
    for (const bool logarithmic : {false, true}) {
      const Axis axis(values, logarithmic);
      EXPECT_LT(axis.low(), axis.high());
      EXPECT_GE(axis.ticks().size(), 2u);
      EXPECT_LE(axis.ticks().size(), 20u);
    }
  }
}

TEST(Axis, LabelsAreShort) {
  EXPECT_EQ(TickLabel(0), "0");
  EXPECT_EQ(TickLabel(0.25), "0.25");
  EXPECT_EQ(TickLabel(1024), "1,024");
  EXPECT_EQ(TickLabel(0.1 + 0.2), "0.3");
}

TEST(Svg, DrawsLinesBarsAxesAndLegendAndEscapesText) {
  BenchReport report = Example();
  report.pictures.emplace_back(LineChart{.title = "Lines",
                                         .x_label = "x <1>",
                                         .y_label = "y",
                                         .series = {{.name = "first", .points = {{1, 1}, {2, 4}, {3, std::nan("")}}},
                                                    {.name = "second", .points = {{1, 2}, {2, 3}}, .steps = true}}});
  report.pictures.emplace_back(
      Timeline{.title = "Slots", .x_label = "step", .rows = {{"slot 1", {{0, 3, "A", 0}, {3, 4, "B", 1}}}}});
  const std::string svg = ReportSvg(report);
  EXPECT_THAT(svg, testing::StartsWith("<svg xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_THAT(svg, testing::EndsWith("</svg>\n"));
  for (const char* text :
       {"A &lt; B &amp; &quot;C&quot;", ">Lines<", ">x &lt;1&gt;<", ">first<", ">second<", ">slot 1<", ">B<"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  const std::regex path("<path d=\"[^\"]*\"");
  EXPECT_EQ(std::distance(std::sregex_iterator(svg.begin(), svg.end(), path), {}), 2);
}

TEST(Svg, ChartsWithoutPointsAreEmptyNotBroken) {
  BenchReport report = Example();
  report.pictures.emplace_back(
      LineChart{.title = "Empty", .x_label = "x", .y_label = "y", .series = {{.name = "none"}}, .log_x = true});
  report.pictures.emplace_back(Timeline{.title = "Nothing", .x_label = "step"});
  EXPECT_THAT(ReportSvg(report), Not(HasSubstr("nan")));
}

}  // namespace
}  // namespace baton::cli
