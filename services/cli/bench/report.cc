#include "services/cli/bench/report.h"

#include <algorithm>
#include <cmath>

#include "nlohmann/json.hpp"
#include "services/cli/format.h"
#include "services/cli/text_table.h"

namespace baton::cli {
namespace {

bool IsNumber(const ReportTable& table, size_t column) {
  return std::any_of(table.rows.begin(), table.rows.end(), [column](const auto& row) {
    return column < row.size() && std::holds_alternative<double>(row[column]);
  });
}

}  // namespace

std::string FormatCell(const TableCell& cell, int digits) {
  if (const auto* text = std::get_if<std::string>(&cell)) return *text;
  const double value = std::get<double>(cell);
  return std::isfinite(value) ? FormatNumber(value, digits) : "-";
}

bool BenchReport::ok() const {
  return std::all_of(checks.begin(), checks.end(), [](const Check& check) { return check.holds; });
}

std::string ReportText(const BenchReport& report) {
  std::string text = report.title + "\n";
  FactList settings;
  for (const auto& [name, value] : report.settings) settings.Add(name, value);
  text += settings.Text();
  for (const ReportTable& table : report.tables) {
    text += "\n" + table.title + "\n";
    std::vector<Column> columns;
    for (size_t i = 0; i < table.columns.size(); ++i) columns.push_back({table.columns[i].name, IsNumber(table, i)});
    TextTable lines(std::move(columns));
    for (const auto& row : table.rows) {
      std::vector<std::string> cells;
      for (size_t i = 0; i < row.size() && i < table.columns.size(); ++i) {
        cells.push_back(FormatCell(row[i], table.columns[i].digits));
      }
      lines.AddRow(std::move(cells));
    }
    for (const std::string& line : lines.Lines()) text += "  " + line + "\n";
  }
  if (!report.checks.empty() || !report.notes.empty()) text += "\n";
  for (const std::string& note : report.notes) text += OneLine(note) + "\n";
  for (const Check& check : report.checks) text += (check.holds ? "holds   " : "BROKEN  ") + check.statement + "\n";
  return text;
}

std::string ReportJson(const BenchReport& report) {
  nlohmann::ordered_json out;
  out["bench"] = report.name;
  out["title"] = report.title;
  for (const auto& [name, value] : report.settings) out["settings"][name] = value;
  out["tables"] = nlohmann::ordered_json::array();
  for (const ReportTable& table : report.tables) {
    nlohmann::ordered_json rows = nlohmann::ordered_json::array();
    for (const auto& row : table.rows) {
      nlohmann::ordered_json cells;
      for (size_t i = 0; i < row.size() && i < table.columns.size(); ++i) {
        nlohmann::ordered_json& cell = cells[table.columns[i].name];
        if (const auto* text = std::get_if<std::string>(&row[i])) {
          cell = *text;
        } else if (const double value = std::get<double>(row[i]); std::isfinite(value)) {
          cell = value;
        } else {
          cell = nullptr;
        }
      }
      rows.push_back(std::move(cells));
    }
    out["tables"].push_back({{"title", table.title}, {"rows", std::move(rows)}});
  }
  out["checks"] = nlohmann::ordered_json::array();
  for (const Check& check : report.checks) {
    out["checks"].push_back({{"statement", check.statement}, {"holds", check.holds}});
  }
  out["notes"] = report.notes;
  out["ok"] = report.ok();
  return out.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace baton::cli
