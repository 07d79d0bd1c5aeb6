#pragma once

// What a bench found, as plain values: tables, pictures, and the statements it checked. Printed as text, JSON and SVG.

#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace baton::cli {

struct TableColumn {
  std::string name;  // "prefill, tokens/s"
  int digits = 1;    // after the point, of numbers
};
// NaN is shown as "-" and null.
using TableCell = std::variant<std::string, double>;
struct ReportTable {
  std::string title;
  std::vector<TableColumn> columns;
  std::vector<std::vector<TableCell>> rows;
};

struct Series {
  std::string name;
  std::vector<std::pair<double, double>> points;  // x, y
  bool steps = false;                             // a value holds until the next point
};
struct LineChart {
  std::string title, x_label, y_label;
  std::vector<Series> series;
  bool log_x = false, log_y = false;
};

// Bars over a common axis, one row below the other: who occupied a slot when.
struct Timeline {
  struct Bar {
    double begin = 0, end = 0;
    std::string label;
    size_t color = 0;  // equal numbers, equal colours
  };
  struct Row {
    std::string name;
    std::vector<Bar> bars;
  };
  std::string title, x_label;
  std::vector<Row> rows;
  double end = 0;  // of the axis at least, so that pictures can be compared
};

// What must hold whatever the machine: equal outputs, exact figures. A bench whose check fails has failed.
struct Check {
  std::string statement;
  bool holds = false;
};

struct BenchReport {
  std::string name, title;
  std::vector<std::pair<std::string, std::string>> settings;  // "model" "qwen2.5-0.5b, bf16"; the machine first
  std::vector<ReportTable> tables;
  std::vector<Check> checks;
  std::vector<std::string> notes;
  std::vector<std::variant<LineChart, Timeline>> pictures;

  void AddCheck(std::string statement, bool holds) { checks.push_back({std::move(statement), holds}); }
  bool ok() const;
};

// A cell as tables show it.
std::string FormatCell(const TableCell& cell, int digits);

std::string ReportText(const BenchReport& report);
// Indented JSON of everything but the pictures.
std::string ReportJson(const BenchReport& report);

}  // namespace baton::cli
