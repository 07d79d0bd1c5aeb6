#include "services/cli/text_table.h"

#include <algorithm>

#include "services/cli/format.h"

namespace baton::cli {
namespace {

std::string Padded(const std::string& text, size_t width, bool right) {
  const size_t length = TextWidth(text);
  const std::string blanks(length < width ? width - length : 0, ' ');
  return right ? blanks + text : text + blanks;
}

}  // namespace

void TextTable::AddRow(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (std::string& cell : cells) cell = OneLine(cell);
  rows_.push_back(std::move(cells));
}

std::vector<std::string> TextTable::Lines() const {
  std::vector<size_t> widths;
  for (size_t column = 0; column < columns_.size(); ++column) {
    size_t width = TextWidth(columns_[column].title);
    for (const auto& row : rows_) width = std::max(width, TextWidth(row[column]));
    widths.push_back(width);
  }
  std::vector<std::string> lines;
  const auto add_line = [&](const auto& cell_of) {
    std::string line;
    for (size_t column = 0; column < columns_.size(); ++column) {
      if (column > 0) line += "  ";
      line += Padded(cell_of(column), widths[column], columns_[column].right);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  };
  add_line([&](size_t column) -> const std::string& { return columns_[column].title; });
  for (const auto& row : rows_) add_line([&](size_t column) -> const std::string& { return row[column]; });
  return lines;
}

std::string FactList::Text() const {
  size_t width = 0;
  for (const auto& [name, value] : facts_) width = std::max(width, TextWidth(name));
  std::string text;
  for (const auto& [name, value] : facts_) text += Padded(name, width + 2, false) + OneLine(value) + "\n";
  return text;
}

}  // namespace baton::cli
