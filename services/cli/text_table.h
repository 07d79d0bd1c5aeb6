#pragma once

// Rows of text in columns as wide as their longest cell.

#include <string>
#include <vector>

namespace baton::cli {

struct Column {
  std::string title;
  bool right = false;  // numbers
};

class TextTable {
 public:
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Missing cells are empty, further ones are dropped. Cells are made safe for one line of a terminal.
  void AddRow(std::vector<std::string> cells);
  // Header first, without ends of lines; no blanks at the right.
  std::vector<std::string> Lines() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// "name      value" lines with the names padded to one width.
class FactList {
 public:
  void Add(std::string name, std::string value) { facts_.emplace_back(std::move(name), std::move(value)); }
  std::string Text() const;

 private:
  std::vector<std::pair<std::string, std::string>> facts_;
};

}  // namespace baton::cli
